"""KAFKA-7152 (2.1.0): a follower at the leader's log end offset is in sync.

Before, how long ago it fetched counted alone. Read from
kafka.cluster.Partition.getOutOfSyncReplicas, 2.0.1 and 2.1.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def is_behind(follower_end_offset: int, leader_end_offset: int) -> bool:
    """Return whether the follower lacks anything that the leader has."""
    return follower_end_offset != leader_end_offset


KAFKA_7152 = Rule(
    name="KAFKA-7152",
    since=("2.1.0",),
    source="kafka.cluster.Partition, 2.1.0",
    meaning=(
        "A follower that has the leader's log end offset is in sync however long it has not "
        "fetched. Before, only time counts."
    ),
    change=lambda known: replace(known, falls_out_of_isr=is_behind),
)
