"""One play of a scenario: clients, acting faults, recorder, observer, collected files."""
