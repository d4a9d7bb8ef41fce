"""Segments that a leader deletes from the remote tier: whether retention allowed that by then.

A copy that failed is no part of the log, and may not count towards `retention.bytes`: from 3.6.0 on
it did (KAFKA-17062, kafka.log.remote.RemoteLogManager.buildRetentionSizeData, 3.6.2).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.errors import SegmentError
from kchaos.checkers.evidence.excuses import excuses
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import RemoteEvent
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.values.events import TopicConfigured
from kchaos.checkers.rules.offsets import Range, in_words, merged
from kchaos.checkers.segments.tier import FINISHED, STARTED, RemoteSegmentMetadata

_NUMBER = re.compile(r"-?\d{1,18}")
_WEEK_MS = 7 * 24 * 3_600_000
_DELETING = "DELETE_SEGMENT_STARTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The least that the settings of a topic ever let a leader keep; None for without a bound."""

    size_bytes: int | None
    time_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletion:
    """A deletion that retention did not allow.

    Attributes:
        is_counted: Whether the leader's release allowed it, as that counts what there is.
    """

    segment: RemoteSegmentMetadata
    broker: int
    is_counted: bool


def deleted_too_early(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield `committed-loss` of promised records in remote segments that were deleted too early.

    A leader may delete a segment once what it keeps without it is as large as `retention.bytes`,
    once the newest record in it is older than `retention.ms`, and where somebody had its records
    deleted. Counted is what finished copies hold, and all that was written behind them by then.
    Where the leader's release does not allow it either, the run is `not-as-predicted`.

    **Verifies**: every deletion that the metadata topic tells of, of a segment whose copy had
    ended, with records that were acknowledged with acks=all.
    **Does not verify**: a topic that was deleted, and one of which an unclean election or a disk
    may have taken records; when within a run a retention was changed: its smallest value counts.
    """
    for partition in evidence.partitions if evidence.is_tiered else ():
        if any(True for _ in excuses(evidence, partition)):
            continue
        too_early = [*_too_early(evidence, partition)]
        kept = _in_words(retention(evidence, partition.topic))
        promised = [
            offsets
            for deletion in too_early
            for offsets in _promised(evidence, partition, deletion.segment)
        ]
        for first, last in merged(promised):
            yield Finding(
                kind="committed-loss",
                topic=partition.topic,
                partition=partition.partition,
                first_offset=first,
                last_offset=last,
                message=f"the remote tier let the acknowledged records at {in_words(first, last)} "
                f"go before retention allows it: {kept}",
                evidence={"retention": kept},
            )
        for deletion in too_early:
            if not deletion.is_counted:
                segment = deletion.segment
                offsets = in_words(segment.start_offset, segment.end_offset)
                yield Finding(
                    kind="not-as-predicted",
                    topic=partition.topic,
                    partition=partition.partition,
                    brokers=(deletion.broker,),
                    first_offset=segment.start_offset,
                    last_offset=segment.end_offset,
                    message=f"broker {deletion.broker} deleted the remote segment with {offsets}, "
                    f"which its release does not allow: {kept}",
                    evidence={"what": "remote-deletion", "segment_id": segment.segment_id},
                )


def retention(evidence: RunEvidence, topic: str) -> Retention:
    """Return the least retention that a topic, or its brokers, ever had in the run."""
    sizes = _given(evidence, topic, "retention.bytes", "log.retention.bytes")
    times = _given(evidence, topic, "retention.ms", "log.retention.ms")
    bounded = [size for size in sizes if size >= 0]
    timed = [time for time in times or [_WEEK_MS] if time >= 0]
    return Retention(
        size_bytes=min(bounded) if bounded else None, time_ms=min(timed) if timed else None
    )


def _given(evidence: RunEvidence, topic: str, of_topic: str, of_broker: str) -> list[int]:
    """Return all values of a setting for a topic, or the brokers' if it never had its own."""
    configured = [
        dict(timed.event.configuration)
        for timed in evidence.events
        if isinstance(timed.event, TopicConfigured) and timed.event.topic == topic
    ]
    of_brokers = evidence.broker_properties.get(of_broker)
    values = [given.get(of_topic, of_brokers) for given in configured or [{}]]
    return [int(value) for value in values if value is not None and _NUMBER.fullmatch(value)]


def _too_early(evidence: RunEvidence, partition: TopicPartition) -> Iterator[_Deletion]:
    """Yield the deletions that no retention setting allowed when they began."""
    kept = retention(evidence, partition.topic)
    begun: dict[str, RemoteSegmentMetadata] = {}
    finished: dict[str, RemoteSegmentMetadata] = {}
    written = _written(evidence, partition)
    for event in evidence.remote_events:
        segment = event.segment
        if event.partition != partition:
            continue
        if event.record.state == STARTED:
            begun[segment.segment_id] = segment
        elif event.record.state == FINISHED:
            begun.pop(segment.segment_id, None)
            finished[segment.segment_id] = segment
        elif event.record.state == _DELETING and segment.segment_id in finished:
            del finished[segment.segment_id]
            end = max((each.end_offset for each in finished.values()), default=segment.end_offset)
            later = _written_later(evidence, event)
            local = sum(size for offset, size in written.items() if end < offset < later)
            # What is copied twice is one part of the log.
            by_start = {each.start_offset: each.size_bytes for each in finished.values()}
            left = local + sum(by_start.values())
            if _is_allowed(evidence, event, kept, [*finished.values()], left):
                continue
            counted = local + sum(each.size_bytes for each in finished.values())
            if _counts_failed_copies(evidence, event):
                counted += sum(each.size_bytes for each in begun.values())
            yield _Deletion(
                segment=segment,
                broker=event.record.broker,
                is_counted=kept.size_bytes is not None and counted >= kept.size_bytes,
            )


def _is_allowed(
    evidence: RunEvidence,
    event: RemoteEvent,
    kept: Retention,
    others: Sequence[RemoteSegmentMetadata],
    size_bytes: int,
) -> bool:
    """Return whether a segment may go, if so many bytes of the log are left then."""
    segment = event.segment
    if evidence.deleted_until.get(event.partition, 0) > segment.end_offset:
        return True
    if any(
        other.start_offset <= segment.start_offset and segment.end_offset <= other.end_offset
        for other in others
    ):
        return True
    age_ms = event.record.time_ms - segment.max_timestamp_ms
    if kept.time_ms is not None and age_ms > kept.time_ms:
        return True
    return kept.size_bytes is not None and size_bytes >= kept.size_bytes


def _counts_failed_copies(evidence: RunEvidence, event: RemoteEvent) -> bool:
    """Return whether the release of the broker that deletes counts copies that failed."""
    releases = [
        timed.event.release
        for timed in evidence.events
        if isinstance(timed.event, StartBroker)
        and timed.event.broker == event.record.broker
        and timed.time * 1000 <= event.record.time_ms
    ]
    return bool(releases) and generation_for(releases[-1]).counts_failed_copies


def _written_later(evidence: RunEvidence, event: RemoteEvent) -> float:
    """Return the first offset sent after a segment was deleted; infinite without one."""
    return min(
        (
            operation.base_offset
            for operation in evidence.operations
            if (operation.topic, operation.partition) == event.partition
            and operation.function == "produce"
            and operation.base_offset >= 0
            and operation.invoked_at * 1000 > event.record.time_ms
        ),
        default=inf,
    )


def _written(evidence: RunEvidence, partition: TopicPartition) -> Mapping[int, int]:
    """Return the size of each batch ever found, local or remote, by its first offset."""
    sizes: dict[int, int] = {}
    for snapshot in evidence.snapshots:
        for broker in snapshot.brokers:
            try:
                contents = evidence.copied.contents(snapshot.label, broker, partition)
            except SegmentError:
                continue  # The rules of bytes say so.
            for batch in contents.batches if contents is not None else ():
                sizes[batch.base_offset] = max(batch.size_bytes, sizes.get(batch.base_offset, 0))
    return sizes


def _promised(
    evidence: RunEvidence, partition: TopicPartition, segment: RemoteSegmentMetadata
) -> Iterator[Range]:
    """Yield the offsets of a segment that were promised to a client."""
    for operation in evidence.operations:
        is_about = (operation.topic, operation.partition) == partition
        if not is_about or not operation.promised or operation.outcome != "ok":
            continue
        first = max(operation.base_offset, segment.start_offset)
        last = min(operation.last_offset, segment.end_offset)
        if first <= last:
            yield first, last


def _in_words(kept: Retention) -> str:
    size = "without a bound" if kept.size_bytes is None else f"{kept.size_bytes} bytes"
    time = "without a bound" if kept.time_ms is None else f"{kept.time_ms} ms"
    return f"retention.bytes {size}, retention.ms {time}"
