"""Faults in the ZooKeeper plane: sessions, elections."""
