"""KIP-461: a failing append stops one partition, where it ended the whole fetcher thread before.

Jira KAFKA-8346. Read from kafka.server.AbstractFetcherThread.processFetchRequest
(`markPartitionFailed`), 2.2.2 and 2.3.1.
"""

from checkers.model.generation import Rule

KIP_461 = Rule(
    name="KIP-461",
    changes={"fails_partition_only": True},
)
