"""KAFKA-7414: a broker lives on when a leader's log is shorter and unclean elections are off.

Read from kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange, 2.0.0 (where it throws
FatalExitError) and 2.0.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_7414 = Rule(
    name="KAFKA-7414",
    since=("2.0.1",),
    source="kafka.server.ReplicaFetcherThread, 2.0.1",
    meaning=(
        "A broker lives on when a leader's log is shorter than its own and unclean elections are "
        "off. Before, it ended its own process."
    ),
    change=lambda known: replace(
        known, exits_on_shorter_leader=lambda allows_unclean_election: False
    ),
)
