"""Runs: scenarios are read and checked, played to their end, and sealed."""
