"""Input of a Spark task: replica directories of many runs, cut and packed by their bytes.

A directory is read whole, by the same function as in the plain judge, unless it is large. Then
each of its segments is cut into slices that are read apart, and what the whole reading finds is
found from the parts: the tail of a segment that is not the last, a segment that begins below the
end of the one before, a checkpoint that cannot be parsed.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.assembling import batch_evidence, reader_findings
from kchaos.checkers.evidence.partition import BATCH_COLUMNS, OBSERVED
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.snapshots import TakenSnapshot
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.checkpoints import LEADER_EPOCHS
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.directory import (
    checkpoint_entries,
    inner_tail,
    overlap_findings,
    read_partition,
    read_segment_file,
    segment_files,
)
from kchaos.checkers.segments.reader import SegmentSlice, read_segment, split_segment
from kchaos.checkers.spark.rows import SNAPSHOT_AFTER, error_row, told_error

PART_BYTES = 32 * 1024 * 1024
"""Bytes of segments that one task reads, about."""

_FILE_COST_BYTES = 64 * 1024
"""Cost of opening a directory, counted as if it were bytes to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A replica's directory in a snapshot, or a slice of one of its segments.

    Attributes:
        run: The run's name.
        snapshot_after: Label of the snapshot that follows, or None.
        directory: Path of the partition's directory.
        size_bytes: About how much there is to read.
        file: Name of the segment; None for the whole directory.
        slice: Which part of the segment; None for the checkpoint, which is then `file`.
        error: Why the run could not be planned, as `told_error` gives it; then nothing is read.
    """

    run: str
    snapshot: str
    snapshot_after: str | None
    broker: int
    topic: str
    partition: int
    directory: str
    size_bytes: int
    file: str | None = None
    slice: SegmentSlice | None = None
    error: str | None = None


def plan(runs: Iterable[Path], *, part_bytes: int = PART_BYTES) -> list[list[Part]]:
    """Parts of all runs, packed in their order so that each pack has about `part_bytes`."""
    packs: list[list[Part]] = []
    filled = part_bytes
    for run in runs:
        for part in parts_of_run(run, part_bytes=part_bytes):
            if filled >= part_bytes:
                packs.append([])
                filled = 0
            packs[-1].append(part)
            filled += part.size_bytes + _FILE_COST_BYTES
    return packs


def parts_of_run(path: Path, *, part_bytes: int) -> list[Part]:
    """The parts of one run; one part that says why, if the run cannot be planned."""
    try:
        evidence = RunEvidence(RunDirectory.open(path))
        snapshots = evidence.snapshots
        after = [*(snapshot.label for snapshot in snapshots[1:]), None]
        return [
            part
            for snapshot, next_one in zip(snapshots, after, strict=True)
            for replica in _replicas(evidence, snapshot, next_one)
            if not is_internal(replica.topic)
            for part in _cut(replica, part_bytes)
        ]
    except Exception as error:  # noqa: BLE001 - this run becomes unknown, and the others go on
        nothing = Part(
            run=path.name,
            snapshot="",
            snapshot_after=None,
            broker=-1,
            topic="",
            partition=-1,
            directory=str(path),
            size_bytes=0,
            error=told_error(error),
        )
        return [nothing]


def rows_of_part(part: Part) -> Iterator[dict[str, Any]]:
    """Yields a row for each batch and each of the reader's findings, or one row for an error."""
    start: dict[str, Any] = {
        "run": part.run,
        "topic": part.topic,
        "partition": part.partition,
        "snapshot": part.snapshot,
        SNAPSHOT_AFTER: part.snapshot_after,
        "side": OBSERVED,
        "broker": part.broker,
    }
    if part.error is not None:
        yield error_row(part.run, part.error)
        return
    try:
        batches, findings = _read(part)
    except Exception as error:  # noqa: BLE001 - this run becomes unknown, and the others go on
        yield error_row(part.run, told_error(error))
        return
    for batch in batches:
        seen = batch_evidence(batch)
        yield start | {name: getattr(seen, name) for name in BATCH_COLUMNS}
    for finding in findings:
        located = replace(
            finding,
            topic=part.topic,
            partition=part.partition,
            brokers=(part.broker,),
            snapshot=part.snapshot,
        )
        yield start | {"finding": located}


def _replicas(evidence: RunEvidence, snapshot: TakenSnapshot, after: str | None) -> Iterator[Part]:
    for broker, partition in evidence.copied.replicas(snapshot.label, snapshot.brokers):
        directory = evidence.copied.directory(snapshot.label, broker, partition)
        yield Part(
            run=evidence.run.name,
            snapshot=snapshot.label,
            snapshot_after=after,
            broker=broker,
            topic=partition.topic,
            partition=partition.partition,
            directory=str(directory),
            size_bytes=sum(file.stat().st_size for file in directory.glob("*.log")),
        )


def _cut(replica: Part, part_bytes: int) -> Iterator[Part]:
    if replica.size_bytes <= part_bytes:
        yield replica
        return
    directory = Path(replica.directory)
    for file in segment_files(directory):
        if file.stat().st_size == 0:
            continue
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            slices = tuple(split_segment(view, base_offset=int(file.stem), target_bytes=part_bytes))
        for part in slices:
            size_bytes = part.end_position - part.start_position
            yield replace(replica, file=file.name, slice=part, size_bytes=size_bytes)
    yield replace(replica, file=LEADER_EPOCHS, size_bytes=0)


def _read(part: Part) -> tuple[Sequence[Batch], Sequence[Finding]]:
    directory = Path(part.directory)
    if part.file is None:
        contents = read_partition(directory)
        return contents.batches, reader_findings(contents)
    if part.slice is None:
        return (), checkpoint_entries(directory / part.file)[1]
    return _read_slice(directory, part.file, part.slice)


def _read_slice(
    directory: Path, file: str, segment_slice: SegmentSlice
) -> tuple[Sequence[Batch], Sequence[Finding]]:
    files = segment_files(directory)
    index = [path.name for path in files].index(file)
    with (
        files[index].open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        contents = read_segment(
            view,
            base_offset=segment_slice.base_offset,
            file=file,
            start_position=segment_slice.start_position,
            end_position=segment_slice.end_position,
        )
    findings = [
        finding if index == len(files) - 1 else inner_tail(finding) for finding in contents.findings
    ]
    if segment_slice.start_position == 0:
        findings += overlap_findings(_last_batches(files[:index]), contents.batches)
    return contents.batches, findings


def _last_batches(files: Sequence[Path]) -> Sequence[Batch]:
    """The batches of the last of these segments that has any; only their headers are read."""
    for file in reversed(files):
        batches = read_segment_file(file, decode_records=False).batches
        if batches:
            return batches
    return ()
