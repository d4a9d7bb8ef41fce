"""KAFKA-9338 (2.5.0): a fetch session remembers the follower's leader epoch too.

Before, the leader saw none inside a session and refused full fetches only. Read from
kafka.server.CachedPartition, 2.4.1 and 2.5.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.requests import PartitionRequest


def see_epoch(asked: PartitionRequest) -> bool:
    """See the leader epoch of every request that carries one (KAFKA-9338)."""
    return asked.carries_leader_epoch


KAFKA_9338 = Rule(
    name="KAFKA-9338",
    since=("2.5.0",),
    source="kafka.server.FetchSession, 2.5.0",
    meaning=(
        "An incremental fetch is checked against the current leader epoch too. From 2.1.0 to "
        "2.4.1 the fetch session forgets it, so that only a session's first fetch is fenced."
    ),
    change=lambda known: replace(known, sees_leader_epoch=see_epoch),
)
