"""KIP-841 (3.3.0): only brokers in the leader's metadata cache may join the ISR.

Read from kafka.cluster.Partition.isReplicaIsrEligible, 3.2.3 and 3.3.0.

KAFKA-15021 (3.6.0): the high watermark waits outside the ISR only for those that may join it.

Read from kafka.cluster.Partition.maybeIncrementLeaderHW, 3.5.2 and 3.6.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def is_alive(follower: int, live: frozenset[int]) -> bool:
    """Return whether the leader's metadata cache has the broker (MetadataCache.hasAliveBroker)."""
    return follower in live


KIP_841 = Rule(
    name="KIP-841",
    since=("3.3.0",),
    source="kafka.cluster.Partition, 3.3.0",
    meaning=(
        "A leader takes into the ISR only brokers that are alive in its own metadata cache. The "
        "controller refuses an AlterPartition with a broker that is not alive or is shutting down "
        "(KAFKA-13916)."
    ),
    change=lambda known: replace(known, may_join_isr=is_alive),
)


KAFKA_15021 = Rule(
    name="KAFKA-15021",
    since=("3.6.0",),
    source="kafka.cluster.Partition, 3.6.0",
    meaning=(
        "The high watermark waits for a replica outside the ISR that has caught up only if it may "
        "join the ISR. Before, for every one that has."
    ),
    change=lambda known: replace(known, waits_outside_isr=is_alive),
)
