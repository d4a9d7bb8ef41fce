"""A leader that goes on in a new epoch takes the election for a fetch only of followers in the ISR.

Since 3.3.0. Read from kafka.cluster.Replica.resetReplicaState, 3.2.3 (resetLastCaughtUpTime) and
3.3.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

NO_FETCH_AT_ELECTION = Rule(
    name="no fetch at an election",
    since=("3.3.0",),
    source="kafka.cluster.Replica, 3.3.0",
    meaning=(
        "A leader that goes on in a new epoch takes the election for the last fetch only of "
        "followers in the ISR. Before, a follower outside of it that asks from where the leader's "
        "log ended then has caught up, and the high watermark waits for it."
    ),
    change=lambda known: replace(known, counts_election_as_fetch=False),
)
