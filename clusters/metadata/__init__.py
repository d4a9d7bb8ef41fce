"""Cluster metadata: what can be asked of it, over ZooKeeper."""
