"""Faults in the wire plane: cut a pair of brokers, hold one kind of request."""
