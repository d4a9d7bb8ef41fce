"""The remote tier, as `LocalTieredStorage` keeps it in a folder and Kafka's metadata topic tells.

A segment in the folder is a byte copy of a local one, with what lies beside it, under
`kafka-tiered-storage/TOPIC-PARTITION-TOPIC_ID/START_OFFSET-SEGMENT_ID` and a suffix
(RemoteLogSegmentFileset, 3.6.2 and 3.9).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kchaos.checkers.formats.remote_log_metadata import RemoteSegmentRecord, parse_remote_segment
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.directory import checkpoint_entries, segment_files
from kchaos.checkers.segments.reader import read_records, read_segment

METADATA_DIRECTORY = "__remote_log_metadata-0"
STORE = "kafka-tiered-storage"
EPOCHS_SUFFIX = ".leader_epoch_checkpoint"
FINISHED = "COPY_SEGMENT_FINISHED"
STARTED = "COPY_SEGMENT_STARTED"

_UUID = r"[A-Za-z0-9_-]{22}"
_PARTITION = re.compile(rf"(?P<topic>[a-zA-Z0-9._-]{{1,249}})-(?P<partition>\d+)-(?P<id>{_UUID})")
_SEGMENT = re.compile(rf"(?P<offset>\d{{20}})-(?P<id>{_UUID})\.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """One segment's files in the remote store.

    Attributes:
        segment_id: Its uuid as Kafka prints it.
        start_offset: As its name says.
        batches: What its `.log` holds.
        epochs: (leader epoch, start offset) of its leader epoch checkpoint, the whole chain up to
            its end; None without a readable one.
        size_bytes: Of its `.log`.
        file: Its `.log`.
    """

    topic: str
    partition: int
    segment_id: str
    start_offset: int
    batches: tuple[Batch, ...]
    epochs: tuple[tuple[int, int], ...] | None
    size_bytes: int
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegmentMetadata:
    """A segment as the metadata topic tells of it.

    Attributes:
        broker: Who copied it.
        state: The newest.
        end_offset: Inclusive.
        leader_epochs: (leader epoch, its first offset in this segment), ascending.
        max_timestamp_ms: The largest timestamp of its records, -1 where none has one.
    """

    segment_id: str
    topic: str
    partition: int
    broker: int
    state: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    size_bytes: int
    max_timestamp_ms: int = -1


def metadata_records(log_directory: Path) -> Iterator[RemoteSegmentRecord]:
    """Yield what a broker's copy of the metadata topic says, in its order.

    Nothing if it has none. A running broker may be writing: what it has not finished is left out.
    Raises RemoteLogMetadataError for a record of another shape.
    """
    directory = log_directory / METADATA_DIRECTORY
    for path in segment_files(directory) if directory.is_dir() else ():
        content = path.read_bytes()
        segment = read_segment(content, base_offset=int(path.stem), file=path.name)
        for batch in segment.batches:
            for record in () if batch.is_control else read_records(content, batch):
                said = None if record.value is None else parse_remote_segment(record.value)
                if said is not None:
                    yield said


def remote_segments(records: Iterable[RemoteSegmentRecord]) -> tuple[RemoteSegmentMetadata, ...]:
    """Return each segment with its newest state, in the order in which copies began."""
    segments: dict[str, RemoteSegmentMetadata] = {}
    for record in records:
        known = segments.get(record.segment_id)
        if record.start_offset is None or record.end_offset is None:
            if known is not None:
                segments[record.segment_id] = replace(known, state=record.state)
            continue
        segments[record.segment_id] = RemoteSegmentMetadata(
            segment_id=record.segment_id,
            topic=record.topic,
            partition=record.partition,
            broker=record.broker,
            state=record.state,
            start_offset=record.start_offset,
            end_offset=record.end_offset,
            leader_epochs=record.leader_epochs or (),
            size_bytes=record.size_bytes or 0,
            max_timestamp_ms=-1 if record.max_timestamp_ms is None else record.max_timestamp_ms,
        )
    return tuple(segments.values())


def stored_segments(store: Path) -> Iterator[StoredSegment]:
    """Yield what the remote store's folder holds, by name; nothing where there is no folder."""
    for directory in sorted(store.iterdir()) if store.is_dir() else ():
        of = _PARTITION.fullmatch(directory.name)
        for log in sorted(directory.iterdir()) if of and directory.is_dir() else ():
            named = _SEGMENT.fullmatch(log.name)
            if of is None or named is None:
                continue
            contents = _read_stored(log, int(named["offset"]))
            entries, _ = checkpoint_entries(log.with_suffix(EPOCHS_SUFFIX))
            yield StoredSegment(
                topic=of["topic"],
                partition=int(of["partition"]),
                segment_id=named["id"],
                start_offset=int(named["offset"]),
                batches=contents,
                epochs=None
                if entries is None
                else tuple((entry.leader_epoch, entry.start_offset) for entry in entries),
                size_bytes=log.stat().st_size,
                file=log,
            )


def _read_stored(log: Path, start_offset: int) -> tuple[Batch, ...]:
    content = log.read_bytes()
    return read_segment(content, base_offset=start_offset, file=log.name).batches
