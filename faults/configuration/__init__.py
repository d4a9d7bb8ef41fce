"""Faults in the configuration plane: formats, protocols, topic settings, another release."""
