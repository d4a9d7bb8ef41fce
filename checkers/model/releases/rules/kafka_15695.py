"""KAFKA-15695 (3.7.0): a follower that builds on the remote tier sets where its local log begins.

Before, it went on to believe what it believed before. Read from
kafka.log.UnifiedLog.truncateFullyAndStartAt and kafka.server.ReplicaFetcherTierStateMachine, 3.6.2
and 3.7.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

KAFKA_15695 = Rule(
    name="KAFKA-15695",
    source="kafka.log.UnifiedLog",
    change=lambda known: replace(known, sets_local_start=True),
)
