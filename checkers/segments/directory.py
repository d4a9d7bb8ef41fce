"""One replica of one partition, from its directory: every segment, and its leader epochs."""

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kchaos.checkers.errors import CheckpointError, SegmentError
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.batches import LARGEST_OFFSET
from kchaos.checkers.formats.checkpoints import (
    LEADER_EPOCHS,
    EpochEntry,
    parse_leader_epoch_checkpoint,
)
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.epochs import epoch_findings
from kchaos.checkers.segments.reader import SegmentContents, read_segment

_TAIL_KINDS = ("torn-tail", "zero-tail")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContents:
    """Content of one replica's directory.

    Attributes:
        topic: The topic, from the directory's name.
        partition: The partition, from the directory's name.
        batches: Every segment's batches, segment after segment; each names its file.
        epoch_entries: The entries of `leader-epoch-checkpoint`; None without a readable one.
        findings: What is wrong, with topic and partition; brokers are for the caller to add.
    """

    topic: str
    partition: int
    batches: tuple[Batch, ...]
    epoch_entries: tuple[EpochEntry, ...] | None
    findings: tuple[Finding, ...]


def partition_directories(log_directory: Path) -> tuple[Path, ...]:
    """Return the directories of live partitions in a broker's log directory, sorted by name.

    What a broker is deleting, moving in or has set aside (`-delete`, `-future`, `-stray`) is
    left out, and so is every name that is not a topic, a dash and a number.
    """
    return tuple(
        path for path in subdirectories(log_directory) if topic_partition(path.name) is not None
    )


def subdirectories(directory: Path) -> tuple[Path, ...]:
    """Return the directories in a directory, sorted by name."""
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return tuple(directory / name for name in names)


def segment_files(directory: Path) -> tuple[Path, ...]:
    """Return the `.log` files of a partition's directory, by ascending base offset.

    Files that a broker is deleting or writing anew (`.deleted`, `.cleaned`, `.swap`) are left out.

    Raises `SegmentError` for a `.log` file whose name is not a base offset.
    """
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(".log") and entry.is_file()]
    files = [directory / name for name in names if name != ".log"]
    for path in files:
        is_number = path.stem.isascii() and path.stem.isdigit()
        if not is_number or int(path.stem) > LARGEST_OFFSET:
            raise SegmentError(
                f"{path}: a segment is named by its base offset, as in 00000000000000000000.log;"
                " remove this file or give it its name back"
            )
    return tuple(sorted(files, key=lambda path: int(path.stem)))


def read_partition(directory: Path, *, decode_records: bool = True) -> PartitionContents:
    """Return everything that one replica's directory holds of its partition.

    The files must not shrink meanwhile, so read a collected copy or a stopped broker's directory.

    Raises `SegmentError` if the directory's name is not that of a live partition or a segment's
    name is not an offset, `OSError` if a file cannot be read. Bad bytes are findings: those of
    `read_segment`, but a torn or zero tail of any segment except the last is "corrupt-batch"; and
    "epoch-cache-mismatch", as `checkers.segments.epochs` says, also for a checkpoint that cannot
    be parsed.

    **Verifies**: each segment as `read_segment` does; that offsets increase from segment to
    segment; that the leader epoch cache does not contradict the batches.
    **Does not verify**: that no offset is missing, which compaction and deletion permit and only
    another replica or a prediction can tell; index, time index and producer state files.
    """
    name = topic_partition(directory.name)
    if name is None:
        raise SegmentError(
            f"{directory}: the name of a live partition's directory is a topic, a dash and a"
            " number. Give the partition's own directory, and not one that is being deleted"
        )
    topic, partition = name
    batches: list[Batch] = []
    findings: list[Finding] = []
    files = segment_files(directory)
    for path in files:
        contents = read_segment_file(path, decode_records=decode_records)
        findings += overlap_findings(batches, contents.batches)
        batches += contents.batches
        findings += [
            inner_tail(finding) if path != files[-1] else finding for finding in contents.findings
        ]
    entries, checkpoint_findings = checkpoint_entries(directory / LEADER_EPOCHS)
    findings += checkpoint_findings
    if entries is not None:
        findings += epoch_findings(entries, batches)
    return PartitionContents(
        topic=topic,
        partition=partition,
        batches=tuple(batches),
        epoch_entries=entries,
        findings=tuple(replace(each, topic=topic, partition=partition) for each in findings),
    )


def read_segment_file(path: Path, *, decode_records: bool) -> SegmentContents:
    """Return what `read_segment` finds in the file at `path`, which is mapped, not loaded.

    Its name must be the segment's base offset. Raises `OSError` if it cannot be read.
    """
    base_offset = int(path.stem)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return SegmentContents(batches=(), findings=(), end_position=0)
        # Not closed here: what reads a part of it may still have that part when reading fails.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return read_segment(
            memoryview(mapped),
            base_offset=base_offset,
            file=path.name,
            decode_records=decode_records,
        )


def overlap_findings(earlier: Sequence[Batch], later: Sequence[Batch]) -> list[Finding]:
    """Return "corrupt-batch" if a segment begins below the end of the segments before it.

    It begins where its first batch does, and no later than where its name says.

    `later` is the segment's batches; of `earlier`, those before it, only the last one matters.
    """
    if not earlier or not later:
        return []
    last, first = earlier[-1], later[0]
    begins = min(first.base_offset, int(first.file.partition(".")[0]))
    if begins > last.last_offset:
        return []
    return [
        Finding(
            kind="corrupt-batch",
            first_offset=begins,
            last_offset=last.last_offset,
            message=f"{first.file} begins at offset {begins}, but {last.file} before it"
            f" ends at offset {last.last_offset}",
            evidence={
                "file": first.file,
                "position": first.position,
                "earlier_file": last.file,
                "earlier_position": last.position,
            },
        )
    ]


def inner_tail(finding: Finding) -> Finding:
    """Return the finding as it counts in a segment that is not the last, where no tail may be."""
    if finding.kind not in _TAIL_KINDS:
        return finding
    return replace(
        finding,
        kind="corrupt-batch",
        message=f"{finding.message}, and the segment is not the last one",
        evidence={**finding.evidence, "tail": finding.kind},
    )


def checkpoint_entries(path: Path) -> tuple[tuple[EpochEntry, ...] | None, list[Finding]]:
    """Return the entries of a leader epoch checkpoint, None without a readable one, and findings.

    Raises `OSError` if the file is there and cannot be read.
    """
    if not path.exists():
        return None, []
    try:
        text = path.read_bytes().decode("utf-8", "backslashreplace")
        return parse_leader_epoch_checkpoint(text, file=path.name), []
    except CheckpointError as error:
        return None, [
            Finding(
                kind="epoch-cache-mismatch",
                message=f"the leader epoch cache cannot be read: {error}",
                evidence={"file": path.name},
            )
        ]
