"""Who may be in the ISR, and whom the high watermark waits for outside of it.

- KAFKA-7152 (2.1.0): a follower at the leader's log end offset is in sync, however long ago it last
  fetched (kafka.cluster.Partition.getOutOfSyncReplicas, 2.0.1 and 2.1.0).
- KIP-841 (3.3.0): only brokers in the leader's metadata cache may join
  (kafka.cluster.Partition.isReplicaIsrEligible, 3.2.3 and 3.3.0).
- KAFKA-15021 (3.6.0): the high watermark waits outside the ISR only for those that may join
  (kafka.cluster.Partition.maybeIncrementLeaderHW, 3.5.2 and 3.6.0).
"""

from checkers.model.generation import Rule

KAFKA_7152 = Rule(name="KAFKA-7152", changes={"keeps_level_followers": True})
KIP_841 = Rule(name="KIP-841", changes={"joins_only_live": True})
KAFKA_15021 = Rule(name="KAFKA-15021", changes={"counts_only_live": True})
