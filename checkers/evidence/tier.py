"""Evidence of tiered logs: the remote store, its metadata, and records that readers got.

`snapshots/LABEL/remote/` is the store as it was copied; the metadata topic is among the files of
the broker that has it; `tier.jsonl` has reads and what leaders said of the ends of their logs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import record_payload
from kchaos.checkers.evidence.snapshots import REMOTE, TakenSnapshot
from kchaos.checkers.formats.remote_log_metadata import RemoteLogMetadataError, RemoteSegmentRecord
from kchaos.checkers.json_form import NOT_WRITTEN, SOMETIMES
from kchaos.checkers.segments.tier import (
    FINISHED,
    METADATA_DIRECTORY,
    STARTED,
    RemoteSegmentMetadata,
    StoredSegment,
    metadata_records,
    remote_segments,
    stored_segments,
)

TIER = "tier.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecord:
    """One record that a reader got; `payload` is `payload_digest` of it alone."""

    offset: int
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFetch:
    """One Fetch of a reader: from which offset, and what came of it.

    Attributes:
        empty_answers: How often the broker answered without records and without an error, below
            its high watermark.
    """

    offset: int
    error_code: int
    records: tuple[FetchedRecord, ...]
    empty_answers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReading:
    """Everything that one reader got of a tiered log from one broker.

    Attributes:
        manner: "in sequence", or "descending": one Fetch for each offset.
        first_offset: Where the broker said that its log begins, inclusive.
        end_offset: What it said that may be read, exclusive.
        source: What the broker is of the partition: "leader", or "follower".
        local_start_offset: Where it said that what is local begins: what lies before is remote.
    """

    operation: str
    broker: int
    topic: str
    partition: int
    manner: str
    first_offset: int
    end_offset: int
    local_start_offset: int
    fetches: tuple[TierFetch, ...]
    source: str = "leader"
    time: float = 0.0
    step: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAs:
    """A leader's answer to one ListOffsets."""

    error_code: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetched:
    offset: int
    error_code: int
    records: tuple[tuple[int, str], ...]
    keys: tuple[str | None, ...] | None = None
    empty_answers: int = field(default=0, metadata=SOMETIMES)


LineKind = Literal["read", "offsets"]
_OF_READING = [each.name for each in fields(TierReading) if each.name != "fetches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLine:
    """One line: what a reader got of a tiered log, or what a leader says of its ends."""

    time: float
    step: int
    kind: LineKind
    broker: int
    topic: str
    partition: int
    # What only one kind of line has.
    operation: str = field(default="", metadata=SOMETIMES)
    manner: str = field(default="", metadata=SOMETIMES)
    source: str = field(default="leader", metadata=SOMETIMES)
    first_offset: int = field(default=-1, metadata=SOMETIMES)
    end_offset: int = field(default=-1, metadata=SOMETIMES)
    local_start_offset: int = field(default=-1, metadata=SOMETIMES)
    fetches: tuple[_Fetched, ...] = field(default=(), metadata=SOMETIMES)
    offsets: Mapping[str, ListedAs] | None = field(default=None, metadata=SOMETIMES)
    read_at: str = field(default="", metadata=NOT_WRITTEN)


def read_tier(files: EvidenceFiles) -> tuple[TierReading, ...]:
    """Return every reading in tier.jsonl, in order; none without the file.

    Raises:
        ScenarioDataError: A line is of another shape, or names a read once more.
    """
    if not files.has(TIER):
        return ()
    readings: dict[str, TierReading] = {}
    for line in files.lines(TierLine, TIER):
        if line.kind != "read":
            continue
        if line.operation in readings:
            place = files.place(line.read_at)
            raise ScenarioDataError(f"{place} has the read {line.operation!r} once more")
        fetches = tuple(
            TierFetch(
                offset=fetch.offset,
                error_code=fetch.error_code,
                records=tuple(_records_of(fetch, files.place(line.read_at))),
                empty_answers=fetch.empty_answers,
            )
            for fetch in line.fetches
        )
        same = {name: getattr(line, name) for name in _OF_READING}
        readings[line.operation] = TierReading(**same, fetches=fetches)
    return tuple(readings.values())


def _records_of(fetched: _Fetched, place: str) -> Iterator[FetchedRecord]:
    keys = [None] * len(fetched.records) if fetched.keys is None else fetched.keys
    if len(keys) != len(fetched.records):
        raise ScenarioDataError(f"{place} has {len(keys)} keys for {len(fetched.records)} records")
    for (offset, value), key in zip(fetched.records, keys, strict=True):
        yield FetchedRecord(offset=offset, payload=record_payload(value, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEvent:
    """A record of the metadata topic, with what the segment's first record said of it."""

    record: RemoteSegmentRecord
    segment: RemoteSegmentMetadata

    @property
    def partition(self) -> TopicPartition:
        """The partition of the segment."""
        return TopicPartition(self.record.topic, self.record.partition)

    @property
    def is_copy(self) -> bool:
        """Whether a copy begins or has ended; else a segment is deleted from the tier."""
        return self.record.state in (STARTED, FINISHED)


def remote_events(
    files: EvidenceFiles, snapshots: tuple[TakenSnapshot, ...]
) -> tuple[RemoteEvent, ...]:
    """Return the records of the metadata topic, in its order, as the last snapshot has it.

    Raises:
        ScenarioDataError: A record is damaged, or is about a segment that no other announced.
    """
    records = _records(files, snapshots[-1]) if snapshots else ()
    segments = {segment.segment_id: segment for segment in remote_segments(records)}
    events = []
    for record in records:
        if record.segment_id not in segments:
            raise ScenarioDataError(
                f"the metadata topic has {record.state} of {record.segment_id}, which it never "
                "announced"
            )
        events.append(RemoteEvent(record=record, segment=segments[record.segment_id]))
    return tuple(events)


def _records(files: EvidenceFiles, snapshot: TakenSnapshot) -> tuple[RemoteSegmentRecord, ...]:
    for broker in sorted(snapshot.brokers):
        folder = files.run.path / "snapshots" / snapshot.label / f"broker-{broker}"
        if (folder / METADATA_DIRECTORY).is_dir():
            try:
                return tuple(metadata_records(folder))
            except RemoteLogMetadataError as error:
                raise ScenarioDataError(
                    f"{folder / METADATA_DIRECTORY} cannot be read: {error}"
                ) from error
    return ()


def remote_at(files: EvidenceFiles, snapshot: TakenSnapshot) -> tuple[RemoteSegmentMetadata, ...]:
    """Return the segments as the metadata topic had them when the snapshot was taken."""
    return remote_segments(_records(files, snapshot))


def stored_at(files: EvidenceFiles, snapshot: TakenSnapshot) -> Iterator[StoredSegment]:
    """Return the segments that the remote store held when the snapshot was taken."""
    yield from stored_segments(files.run.path / "snapshots" / snapshot.label / REMOTE)


def remote_deleted(events: Iterable[RemoteEvent]) -> Mapping[TopicPartition, int]:
    """Return by partition the offset below which finished copies were deleted from the remote tier.

    A leader moves its log start there before it deletes them (RemoteLogManager.
    cleanupExpiredRemoteLogSegments, 3.6.2 and 3.8.0).
    """
    finished: set[str] = set()
    until: dict[TopicPartition, int] = {}
    for event in events:
        segment = event.segment
        if event.record.state == FINISHED:
            finished.add(segment.segment_id)
        elif not event.is_copy and segment.segment_id in finished:
            known = until.get(event.partition, 0)
            until[event.partition] = max(known, segment.end_offset + 1)
    return until
