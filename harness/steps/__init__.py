"""Steps of a scenario: each is done to a cluster and waits at its gate."""
