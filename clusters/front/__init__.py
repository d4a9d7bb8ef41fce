"""Which driver starts a cluster, and whether this machine can."""
