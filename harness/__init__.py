"""Plays of scenarios: steps, runs, catalogue, report, command line."""
