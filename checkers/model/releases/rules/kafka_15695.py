"""KAFKA-15695 (3.7.0): a follower that builds on the remote tier sets where its local log begins.

Before, it went on to believe what it believed before. Read from
kafka.log.UnifiedLog.truncateFullyAndStartAt and kafka.server.ReplicaFetcherTierStateMachine, 3.6.2
and 3.7.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_15695 = Rule(
    name="KAFKA-15695",
    since=("3.7.0",),
    source="kafka.log.UnifiedLog, 3.7.0",
    meaning=(
        "A follower that builds on the remote tier sets where its local log begins. Before, it "
        "believed what it believed before, and refused readers of what is remote only once it "
        "led."
    ),
    change=lambda known: replace(known, sets_local_start=True),
)
