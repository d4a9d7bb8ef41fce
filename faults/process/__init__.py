"""Faults in the process plane: kill, stop, pause, bounce."""
