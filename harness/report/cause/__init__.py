"""Cause of the first unsafe state: one subject of evidence a module, told in sentences."""
