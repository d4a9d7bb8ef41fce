"""KAFKA-7164: a follower that missed epochs truncates although its leader is the same broker.

Read from kafka.cluster.Partition.makeFollower, 2.0.0 and 2.0.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def skip_next_epoch_of_known_leader(is_same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    """Skip a LeaderAndIsr with the same leader only when no epoch lies between."""
    return is_same_leader and new_epoch <= known_epoch + 1


KAFKA_7164 = Rule(
    name="KAFKA-7164",
    since=("2.0.1",),
    source="kafka.cluster.Partition, 2.0.1",
    meaning="A follower that missed epochs truncates again although its leader is the same broker.",
    change=lambda known: replace(known, skips_known_leader=skip_next_epoch_of_known_leader),
)
