"""KAFKA-10554 (as in KIP-595): the Fetch response itself tells where the logs diverge.

A follower whose cache is not empty fetches from its log end offset at once and says the last epoch
that it has; the leader answers with a diverging epoch in place of records. Read from
kafka.cluster.Partition.readRecords, kafka.server.AbstractFetcherThread (`partitionFetchState`,
`truncateOnFetchResponse`) and ReplicaManager.initialFetchOffset, 2.8.2; gated by inter-broker
protocol 2.7-IV1. All releases that have it and are modelled also have KAFKA-13141.

KAFKA-14704 (3.5.0): such a response no longer moves the follower's high watermark first.
"""

from checkers.model.generation import Rule, Versions


def _truncates_on_fetch(versions: Versions) -> bool:
    return versions.release >= (2, 8, 0, 0) and versions.inter_broker_protocol >= (2, 7, 0, 1)


KAFKA_10554 = Rule(
    name="KAFKA-10554",
    applies=_truncates_on_fetch,
    changes={"truncates_on_fetch": True, "trusts_diverging_high_watermark": True},
)

KAFKA_14704 = Rule(
    name="KAFKA-14704",
    applies=lambda versions: versions.release >= (3, 5, 0, 0),
    changes={"trusts_diverging_high_watermark": False},
)
