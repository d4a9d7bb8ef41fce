"""Faults in the KRaft plane: what controllers make of a broker."""
