"""Who may be in the ISR, and whom the high watermark waits for outside of it.

- KAFKA-7152 (2.1.0): a follower at the leader's log end offset is in sync, however long ago it last
  fetched (kafka.cluster.Partition.getOutOfSyncReplicas, 2.0.1 and 2.1.0).
- KIP-841 (3.3.0): only brokers in the leader's metadata cache may join
  (kafka.cluster.Partition.isReplicaIsrEligible, 3.2.3 and 3.3.0).
- no fetch at an election (3.3.0): a leader that goes on in a new epoch takes the election for the
  last fetch only of followers in the ISR (kafka.cluster.Replica.resetReplicaState, 3.2.3 and 3.3.0;
  before, resetLastCaughtUpTime).
- KAFKA-15021 (3.6.0): the high watermark waits outside the ISR only for those that may join
  (kafka.cluster.Partition.maybeIncrementLeaderHW, 3.5.2 and 3.6.0).
"""

from dataclasses import replace

from kchaos.checkers.model.generation import Rule


def is_behind(follower_end_offset: int, leader_end_offset: int) -> bool:
    """Tell whether the follower lacks anything that the leader has."""
    return follower_end_offset != leader_end_offset


def is_alive(follower: int, live: frozenset[int]) -> bool:
    """Tell whether the leader's metadata cache has the broker (MetadataCache.hasAliveBroker)."""
    return follower in live


KAFKA_7152 = Rule(
    name="KAFKA-7152",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, falls_out_of_isr=is_behind),
)

KIP_841 = Rule(
    name="KIP-841",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, may_join_isr=is_alive),
)

NO_FETCH_AT_ELECTION = Rule(
    name="no fetch at an election",
    source="kafka.cluster.Replica",
    change=lambda known: replace(known, counts_election_as_fetch=False),
)

KAFKA_15021 = Rule(
    name="KAFKA-15021",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, waits_outside_isr=is_alive),
)
