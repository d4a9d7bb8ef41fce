"""KIP-461: a failing append stops one partition, where it ended the whole fetcher thread before.

Jira KAFKA-8346. The partition is listed as failed until the next LeaderAndIsr, and so is one that
was fenced. Read from kafka.server.AbstractFetcherThread.processFetchRequest, `onPartitionFenced`
and `markPartitionFailed`, 2.2.2 and 2.3.1.

KAFKA-9654: a follower that was fenced under an older epoch than its own tries again.

Before, any FENCED_LEADER_EPOCH stopped the partition. Read from
kafka.server.AbstractFetcherThread.onPartitionFenced, 2.4.1 and 2.5.1; released in 2.5.0.
"""

from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.releases.generation import Failed, Stopped
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.replica import FetcherThread


def fail_partition(thread: FetcherThread, failed: Failed, partition: TopicPartition) -> Stopped:
    """Take the partition from its thread and list it as failed."""
    return Stopped(thread.with_fetch(partition, None), failed | {partition})


def fail_fenced_partition(
    thread: FetcherThread, failed: Failed, partition: TopicPartition, asked_leader_epoch: int
) -> Stopped:
    """Do the same with a partition that was fenced."""
    return fail_partition(thread, failed, partition)


KIP_461 = Rule(
    name="KIP-461",
    since=("2.3.0",),
    source="kafka.server.AbstractFetcherThread, 2.3.1",
    meaning=(
        "A failing append stops one partition. Before, it ended the whole fetcher thread "
        "(KAFKA-8346)."
    ),
    change=lambda known: replace(
        known, stop_after_failed_append=fail_partition, stop_when_fenced=fail_fenced_partition
    ),
)


def fail_partition_if_epoch_is_the_same(
    thread: FetcherThread, failed: Failed, partition: TopicPartition, asked_leader_epoch: int
) -> Stopped:
    """Stop the partition only if it is still in the epoch under which it was fenced."""
    fetch = thread.fetch(partition)
    if fetch is not None and fetch.leader_epoch != asked_leader_epoch:
        return Stopped(thread, failed)
    return fail_partition(thread, failed, partition)


KAFKA_9654 = Rule(
    name="KAFKA-9654",
    since=("2.5.0",),
    source="kafka.server.AbstractFetcherThread, 2.5.1",
    meaning=(
        "A follower that was fenced under an older epoch than its present one tries again. "
        "Before, any FENCED_LEADER_EPOCH stopped the partition until the next LeaderAndIsr."
    ),
    change=lambda known: replace(known, stop_when_fenced=fail_partition_if_epoch_is_the_same),
)
