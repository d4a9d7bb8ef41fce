"""KAFKA-9654: a follower that was fenced under an older epoch than its own tries again.

Before, any FENCED_LEADER_EPOCH stopped the partition. Read from
kafka.server.AbstractFetcherThread.onPartitionFenced, 2.4.1 and 2.5.1; released in 2.5.0.
"""

from checkers.model.generation import Rule

KAFKA_9654 = Rule(
    name="KAFKA-9654",
    changes={"retries_when_fenced": True},
)
