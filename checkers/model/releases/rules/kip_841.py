"""KIP-841 (3.3.0): only brokers in the leader's metadata cache may join the ISR.

Read from kafka.cluster.Partition.isReplicaIsrEligible, 3.2.3 and 3.3.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule


def is_alive(follower: int, live: frozenset[int]) -> bool:
    """Tell whether the leader's metadata cache has the broker (MetadataCache.hasAliveBroker)."""
    return follower in live


KIP_841 = Rule(
    name="KIP-841",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, may_join_isr=is_alive),
)
