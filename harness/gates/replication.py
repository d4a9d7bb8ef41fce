"""Signs of replication on disks and in logs: a fetcher that gave up, replicas that differ."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.directory import segment_files
from kchaos.clusters.errors import AwaitTimeout
from kchaos.harness.gates import fetching, gates
from kchaos.harness.play.play import Play

_HIGH_WATERMARK_S = 5.0
_QUICK_S = 1.0

# What a fetcher says of itself. Up to 2.2 a failure ends its thread, and a dead thread stays in
# the manager's map; from 2.3 on (KIP-461) only the partition is given up, until it is added anew.
# The thread's name ends in the leader's id up to 0.11 and has it as leaderId from 1.0 on.
_THREAD = (
    r"ReplicaFetcher(Thread-\d+-{leader}\b| .*leaderId={leader}\b).*(\bStarting\b|Error due to)"
)
# A partition's name may be the end, or the beginning, of another one's.
_PARTITION = r"Added fetcher .*(?<![\w.-]){name}(?![\w.-])|artition {name} .*marked as failed"


def fetcher_failure(play: Play, broker: int, leader: int, partition: TopicPartition) -> str:
    """Return the log line with which this broker's process stopped following, or ""."""
    name = re.escape(f"{partition.name}")
    for pattern in (_THREAD.format(leader=leader), _PARTITION.format(name=name)):
        lines = play.observer.log_lines(broker, re.compile(pattern))
        if lines and ("Error due to" in lines[-1] or "marked as failed" in lines[-1]):
            return lines[-1]
    return ""


def first_difference(
    play: Play, partition: TopicPartition, brokers: list[int]
) -> dict[str, Any] | None:
    """Return the first batch in which two of these brokers' disks differ, or None.

    Replicas of a tiered log need not begin at the same offset: only what all of them have locally
    is compared. Where others may write on meanwhile, what lies behind the shortest log is not; and
    of a compacted log nothing is that a log cleaner may have gone over.
    """
    logs = {broker: _identities(play, broker, partition) for broker in brokers}
    if _is_compacted(play, partition):
        start = max(_last_segment(play, broker, partition) for broker in brokers)
        logs = {
            broker: [batch for batch in log if batch[0] >= start] for broker, log in logs.items()
        }
    if play.cluster.spec.tiered:
        start = max((log[0][0] for log in logs.values() if log), default=0)
        logs = {
            broker: [batch for batch in log if batch[0] >= start] for broker, log in logs.items()
        }
    if play.cluster.has_given_addresses:
        end = min((log[-1][1] if log else -1 for log in logs.values()), default=-1)
        logs = {broker: [batch for batch in log if batch[1] <= end] for broker, log in logs.items()}
    first = brokers[0]
    for broker in brokers[1:]:
        if logs[broker] == logs[first]:
            continue
        for mine, theirs in zip(logs[first], logs[broker], strict=False):
            if mine != theirs:
                return {"brokers": [first, broker], "batches": [mine, theirs]}
        return {"brokers": [first, broker], "lengths": [len(logs[first]), len(logs[broker])]}
    return None


def lasting_difference(
    play: Play,
    partition: TopicPartition,
    leader: int,
    in_sync: list[int],
    end: int,
    *,
    timeout_s: float,
    abort: Callable[[], None],
) -> dict[str, Any] | None:
    """Return the first batch in which in-sync replicas differ after all have followed, or None.

    A log may end where the leader's does by chance, with batches that it is about to truncate; so
    every follower is given time to hear of it, and all of them to end there again. Without links
    nobody is waited for.

    `end` is the common log end offset. `timeout_s` is for each follower, and for all to end there.
    `abort` is as in `gates.await_log_end`.
    """
    different = first_difference(play, partition, in_sync)
    if different is None:
        return None
    for follower in in_sync:
        if follower == leader:
            continue
        try:
            fetching.await_fetches(play, follower, leader, 2, timeout_s=timeout_s, abort=abort)
        except AwaitTimeout as error:
            play.observed(observations.WaitedInVain(detail=str(error)))
    try:
        is_open = play.cluster.has_given_addresses
        gates.await_log_end(
            play, partition, in_sync, end, timeout_s=timeout_s, or_beyond=is_open, abort=abort
        )
    except AwaitTimeout as error:
        play.observed(observations.WaitedInVain(detail=str(error)))
    return first_difference(play, partition, in_sync)


def _is_compacted(play: Play, partition: TopicPartition) -> bool:
    of_topic = play.cluster.metadata.topic_configuration(partition.topic).get("cleanup.policy")
    brokers = play.cluster.brokers.values()
    policies = {broker.properties.get("log.cleanup.policy", "") for broker in brokers}
    return any("compact" in policy for policy in ({of_topic} if of_topic else policies))


def _last_segment(play: Play, broker: int, partition: TopicPartition) -> int:
    """Return the base offset of the active segment."""
    directory = play.observer.partition_directory(broker, *partition)
    files = segment_files(directory) if directory.is_dir() else ()
    return int(files[-1].stem) if files else 0


def _identities(play: Play, broker: int, partition: TopicPartition) -> list[tuple[int, ...]]:
    log = gates.contents(play, broker, partition)
    return [] if log is None else [_identity(batch) for batch in log.batches]


def _identity(batch: Batch) -> tuple[int, ...]:
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic, batch.crc


def await_high_watermarks(
    play: Play, partition: TopicPartition, brokers: list[int], end: int
) -> None:
    """Wait for the followers' high watermarks, if their next fetches come soon.

    What is seen after the last step pins the checkpoints (`evidence.observed`).
    """
    quick = [broker for broker in brokers if _checkpoint_interval_s(play, broker) < _QUICK_S]
    try:
        gates.await_high_watermark(play, partition, quick, end, timeout_s=_HIGH_WATERMARK_S)
    except AwaitTimeout as error:
        play.observed(observations.WaitedInVain(detail=str(error)))


def _checkpoint_interval_s(play: Play, broker: int) -> float:
    name = "replica.high.watermark.checkpoint.interval.ms"
    return int(play.cluster.brokers[broker].properties.get(name, "5000")) / 1000


def log_ends(play: Play, partition: TopicPartition) -> dict[str, int]:
    """Return each replica's log end offset on disk, by broker."""
    replicas = replicas_of(play, partition)
    return {str(broker): gates.last_offset(play, broker, partition) + 1 for broker in replicas}


def replicas_of(play: Play, partition: TopicPartition) -> Sequence[int]:
    """Return the brokers of the partition's replicas; none if its topic is gone."""
    return play.cluster.metadata.assignment(partition.topic).get(partition.partition, ())


def unused_probe(play: Play, partition: TopicPartition) -> tuple[str, str]:
    """Return an unused name and a short value for a probe of the partition."""
    names = (f"settle-{partition.name}-{number}" for number in itertools.count(2))
    numbered = enumerate(itertools.chain([f"settle-{partition.name}"], names), start=1)
    unused = ((name, number) for number, name in numbered if name not in play.clients.answers)
    name, number = next(unused)
    return name, f"~{number}"
