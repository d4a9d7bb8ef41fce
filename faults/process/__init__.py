"""Faults in the process plane: kill, stop, pause, bounce, and the controller's office."""
