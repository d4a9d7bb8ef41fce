"""Gates: conditions that are observed on a cluster, from one end offset to a settled cluster."""
