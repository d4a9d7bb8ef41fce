"""Faults in the disk plane: what a power loss leaves behind."""
