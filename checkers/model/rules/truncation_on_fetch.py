"""KAFKA-10554 (as in KIP-595): the Fetch response itself tells where the logs diverge.

A follower whose cache is not empty fetches from its log end offset at once and says the last epoch
that it has; the leader answers with a diverging epoch in place of records. Read from
kafka.cluster.Partition.readRecords, kafka.server.AbstractFetcherThread (`partitionFetchState`,
`truncateOnFetchResponse`) and ReplicaManager.initialFetchOffset, 2.8.2; gated by inter-broker
protocol 2.7-IV1.

KAFKA-13141: a leader no longer takes the offset of a fetch that it answers so for the follower's
log end offset (kafka.server.ReplicaManager.updateFollowerFetchState, 2.8.0 and 2.8.1).

KAFKA-14704 (3.5.0): such a response no longer moves the follower's high watermark first.
"""

from checkers.model.generation import Rule

KAFKA_10554 = Rule(
    name="KAFKA-10554",
    protocol=(2, 7, 0, 1),
    changes={"truncates_on_fetch": True, "trusts_diverging_high_watermark": True},
)

KAFKA_14704 = Rule(
    name="KAFKA-14704",
    changes={"trusts_diverging_high_watermark": False},
)

DIVERGING_EPOCH = Rule(
    name="diverging epoch in the Fetch response",
    changes={"counts_diverging_fetch": True},
    protocol=(2, 7, 0, 1),
)

KAFKA_13141 = Rule(name="KAFKA-13141", changes={"counts_diverging_fetch": False})
