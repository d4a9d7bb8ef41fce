"""A leader that goes on in a new epoch takes the election for a fetch only of followers in the ISR.

Since 3.3.0. Read from kafka.cluster.Replica.resetReplicaState, 3.2.3 (resetLastCaughtUpTime) and
3.3.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

NO_FETCH_AT_ELECTION = Rule(
    name="no fetch at an election",
    source="kafka.cluster.Replica",
    change=lambda known: replace(known, counts_election_as_fetch=False),
)
