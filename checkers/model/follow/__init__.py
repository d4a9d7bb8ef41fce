"""Trace validation: a search for steps of the machine that explain a recorded run."""
