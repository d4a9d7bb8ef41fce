"""KIP-320: requests carry the follower's leader epoch, and a leader in another epoch refuses them.

Jira KAFKA-7395 and KAFKA-6880. Read from kafka.cluster.Partition.checkCurrentLeaderEpoch,
`makeFollower`, kafka.server.AbstractFetcherThread.onPartitionFenced and
kafka.server.ReplicaFetcherThread (request versions), 2.1.0 and 2.1.1. OffsetForLeaderEpoch carries
the epoch from inter-broker protocol 2.1-IV1 (version 2) and Fetch from 2.1-IV2 (version 10).
"""

from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.releases.generation import Failed, Stopped
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_EPOCH
from kchaos.checkers.model.values.replica import FetcherThread


def refuse_other_epoch(asked_leader_epoch: int, leader_epoch: int) -> str:
    """Refuse a follower that is behind, and one that is ahead."""
    if asked_leader_epoch < leader_epoch:
        return "FENCED_LEADER_EPOCH"
    if asked_leader_epoch > leader_epoch:
        return "UNKNOWN_LEADER_EPOCH"
    return ""


def leave_thread(
    thread: FetcherThread, failed: Failed, partition: TopicPartition, asked_leader_epoch: int
) -> Stopped:
    """Take the partition from its thread, until the next LeaderAndIsr adds it again."""
    return Stopped(thread.with_fetch(partition, None), failed)


KIP_320 = Rule(
    name="KIP-320",
    since=("2.1.0",),
    source="kafka.cluster.Partition, 2.1.0",
    meaning=(
        "A leader compares the current leader epoch of a request with its own, in the same step as "
        "it reads the log. It refuses another one. Every new epoch restarts truncation, and a "
        "follower without any epoch asks nothing (KAFKA-7395, KAFKA-6880, KAFKA-6859)."
    ),
    change=lambda known: replace(
        known,
        sees_leader_epoch=lambda asked: asked.carries_leader_epoch and not asked.is_incremental,
        fails_on_waiting_fetch=True,
        refuse_epoch=refuse_other_epoch,
        skips_known_leader=lambda is_same_leader, known_epoch, new_epoch: False,
        asks_for_epoch=lambda last_epoch: last_epoch != UNDEFINED_EPOCH,
        stop_when_fenced=leave_thread,
    ),
)

EPOCH_REQUEST_2 = Rule(
    name="OffsetForLeaderEpoch v2",
    since=("2.1.0",),
    protocol="2.1-IV1",
    source="kafka.server.ReplicaFetcherThread, 2.1.0",
    meaning="The question for an epoch's end carries the follower's current leader epoch.",
    change=lambda known: replace(known, epoch_request_version=2),
)

FETCH_10 = Rule(
    name="Fetch v10",
    since=("2.1.0",),
    protocol="2.1-IV2",
    source="kafka.server.ReplicaFetcherThread, 2.1.0",
    meaning="A follower's Fetch carries its current leader epoch.",
    change=lambda known: replace(known, sends_leader_epoch=True),
)
