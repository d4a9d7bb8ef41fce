"""Tiered logs on the page: what is in the remote tier, who finds what of it, what readers got."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.snapshots import EpochEntries
from kchaos.checkers.evidence.tier import TierFetch, TierReading, remote_at, stored_at
from kchaos.checkers.model.broker.tier import holder
from kchaos.checkers.model.values import requests
from kchaos.checkers.model.values.epoch_cache import EpochEntry
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.tier import FINISHED
from kchaos.harness.report.lanes import ticks
from kchaos.harness.report.placement import Box, style_of_epoch

Place = Callable[[float], float]
MOST_OFFSETS = 2000
"""Of what is remote, no more offsets than this are drawn for one broker, or for one reading."""
_NARROW = 3.0
_ERRORS = {1: "OFFSET_OUT_OF_RANGE", 6: "NOT_LEADER_OR_FOLLOWER"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteView:
    """One segment in the remote tier, as metadata and store have it in one snapshot.

    Attributes:
        broker: Who copied it.
        end_offset: Inclusive.
        leader_epochs: (leader epoch, its first offset in the segment), as the metadata says.
        epochs: (leader epoch, start offset) of its checkpoint; None where the store has none.
        batches: What the store has of it; none where it has nothing.
    """

    segment_id: str
    broker: int
    state: str
    start_offset: int
    end_offset: int
    leader_epochs: EpochEntries
    epochs: EpochEntries | None
    batches: tuple[Batch, ...]

    @property
    def name(self) -> str:
        """Such as "seg 0-3"."""
        return f"seg {self.start_offset}-{self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnReading:
    """One reading of a tiered log: a box for each offset, by where it was served from."""

    name: str
    note: str
    boxes: tuple[Box, ...]
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnReadings:
    """Every reading of one partition on one axis of offsets, as (offset, percent)."""

    partition: str
    readings: tuple[DrawnReading, ...]
    axis: tuple[tuple[int, float], ...]
    left_out: int


def remote_views(
    evidence: RunEvidence, label: str, partition: TopicPartition
) -> tuple[RemoteView, ...]:
    """Return a snapshot's remote segments of a partition, oldest copy first.

    Raises:
        CheckError: Metadata or store cannot be read.
    """
    snapshot = next(taken for taken in evidence.snapshots if taken.label == label)
    stored = {
        stored_segment.segment_id: stored_segment
        for stored_segment in stored_at(evidence.files, snapshot)
    }
    return tuple(
        RemoteView(
            segment_id=copied.segment_id,
            broker=copied.broker,
            state=copied.state,
            start_offset=copied.start_offset,
            end_offset=copied.end_offset,
            leader_epochs=copied.leader_epochs,
            epochs=stored[copied.segment_id].epochs if copied.segment_id in stored else None,
            batches=stored[copied.segment_id].batches if copied.segment_id in stored else (),
        )
        for copied in remote_at(evidence.files, snapshot)
        if (copied.topic, copied.partition) == partition
    )


def boxes_of_segment(remote: RemoteView, place: Place) -> tuple[Box, ...]:
    """Return boxes of a segment's remote records, hatched if the store has nothing."""
    if not remote.batches:
        return (
            _box(
                remote.start_offset,
                remote.end_offset,
                place,
                "hole",
                "",
                f"{remote.name} is not there",
            ),
        )
    return tuple(_batch_box(batch, remote, place) for batch in remote.batches)


def boxes_found(
    entries: EpochEntries | None, local_start: int, segments: Sequence[RemoteView], place: Place
) -> tuple[Box, ...]:
    """Return boxes of remote offsets that a broker finds below its own log by its epoch cache.

    `entries` are its epoch cache, or None. `local_start` is its first local offset, and `segments`
    are the remote ones.
    """
    known = tuple(
        requests.RemoteSegment(
            segment_id=remote_segment.segment_id,
            start_offset=remote_segment.start_offset,
            end_offset=remote_segment.end_offset,
            leader_epochs=tuple(EpochEntry(*entry) for entry in remote_segment.leader_epochs),
            chain=(),
            batches=(),
            is_finished=True,
        )
        for remote_segment in segments
        if remote_segment.state == FINISHED
    )
    by_id = {remote_segment.segment_id: remote_segment for remote_segment in segments}
    cache = tuple(EpochEntry(*entry) for entry in entries or ())
    first = min((remote_segment.start_offset for remote_segment in segments), default=local_start)
    boxes: list[Box] = []
    for offset in range(first, min(local_start, first + MOST_OFFSETS)):
        held = holder(cache, offset, known)
        segment = by_id[held.segment_id] if held is not None else None
        batch = next(
            (b for b in (segment.batches if segment else ()) if b.base_offset == offset), None
        )
        if segment is not None and batch is not None:
            boxes.append(_batch_box(batch, segment, place))
        elif held is None:
            why = f"offset {offset}: no segment of its leader epoch has it"
            boxes.append(_box(offset, offset, place, "hole", "", why))
    return tuple(boxes)


def drawn_readings(evidence: RunEvidence) -> tuple[list[DrawnReadings], str]:
    """Return the readings of each partition, and the reason if they cannot be drawn, or ""."""
    try:
        readings = evidence.tier_readings
    except CheckError as error:
        return [], str(error)
    partitions = sorted({TopicPartition(reading.topic, reading.partition) for reading in readings})
    drawn = [draw_readings(readings, partition) for partition in partitions]
    return [drawn_step for drawn_step in drawn if drawn_step is not None], ""


def draw_readings(
    readings: Iterable[TierReading], partition: TopicPartition
) -> DrawnReadings | None:
    """Return every reading of a partition, or None without any."""
    shown = [reading for reading in readings if (reading.topic, reading.partition) == partition]
    if not shown:
        return None
    first = min(reading.first_offset for reading in shown)
    end = max(first + 1, *(reading.end_offset for reading in shown))

    def place(offset: float) -> float:
        return round(100 * (offset - first) / (end - first), 3)

    return DrawnReadings(
        partition=f"{partition.name}",
        readings=tuple(
            DrawnReading(
                name=reading.operation,
                note=f"broker {reading.broker}, {reading.manner}; "
                f"local from {reading.local_start_offset}, end {reading.end_offset}",
                boxes=tuple(_read_boxes(reading, place)),
                description=f"{reading.operation} from broker {reading.broker}: "
                f"{_in_words(reading)}",
            )
            for reading in shown
        ),
        axis=tuple((offset, place(offset)) for offset in ticks(first, end)),
        left_out=sum(len(reading.fetches) > MOST_OFFSETS for reading in shown),
    )


def source_of(reading: TierReading, fetch: TierFetch) -> str:
    """Return the source of a Fetch's response: "local", "remote", or "nowhere"."""
    if not fetch.records:
        return "nowhere"
    return "remote" if fetch.offset < reading.local_start_offset else "local"


def _read_boxes(reading: TierReading, place: Place) -> Iterator[Box]:
    for fetch in reading.fetches[:MOST_OFFSETS]:
        source = source_of(reading, fetch)
        if source == "nowhere":
            said = _ERRORS.get(fetch.error_code, f"error {fetch.error_code}")
            why = said if fetch.error_code else "no records and no error"
            title = f"offset {fetch.offset}: {why}"
            yield _box(fetch.offset, fetch.offset, place, "hole", "-", title)
            continue
        for record in fetch.records:
            title = f"offset {record.offset}, served from the {source} log"
            yield _box(
                record.offset, record.offset, place, f"served-{source}", source[0].upper(), title
            )


def _in_words(reading: TierReading) -> str:
    counted = {"local": 0, "remote": 0, "nowhere": 0}
    for fetch in reading.fetches:
        counted[source_of(reading, fetch)] += max(1, len(fetch.records))
    return ", ".join(f"{count} records {name}" for name, count in counted.items() if count)


def _batch_box(batch: Batch, segment: RemoteView, place: Place) -> Box:
    epoch = batch.leader_epoch
    title = (
        f"offsets {batch.base_offset} to {batch.last_offset}, leader epoch {epoch}, in "
        f"{segment.name} ({segment.segment_id}), copied by broker {segment.broker}, {segment.state}"
    )
    return _box(
        batch.base_offset, batch.last_offset, place, style_of_epoch(epoch), f"e{epoch}", title
    )


def _box(first: int, last: int, place: Place, style: str, label: str, title: str) -> Box:
    x = place(first)
    width = round(place(last + 1) - x, 3)
    return Box(x=x, width=width, label=label if width >= _NARROW else "", title=title, style=style)
