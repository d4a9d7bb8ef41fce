"""Replicas as they were found on disk, each beside what the model predicts for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.errors import CheckpointError
from checkers.formats.checkpoints import HIGH_WATERMARKS, parse_offset_checkpoint
from checkers.model.prediction import PredictedBatch
from checkers.run_directory import RunDirectory
from checkers.segments.batch import Batch
from checkers.segments.directory import partition_directories, read_partition
from checkers.segments.errors import SegmentError
from harness.report.loading import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One replica as its files are.

    Attributes:
        batches: In file order.
        epoch_entries: (leader epoch, start offset); None without a readable checkpoint.
        high_watermark: As `replication-offset-checkpoint` has it, or None.
        directory: The partition's directory in the snapshot.
        problems: What could not be read, a sentence each.
    """

    batches: tuple[Batch, ...]
    epoch_entries: tuple[tuple[int, int], ...] | None
    high_watermark: int | None
    directory: Path
    problems: tuple[str, ...] = ()

    @property
    def log_end_offset(self) -> int:
        """One past the last record on disk; 0 for an empty log."""
        return self.batches[-1].last_offset + 1 if self.batches else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One replica as the prediction has it; see `checkers.model.prediction.PredictedReplica`."""

    batches: tuple[PredictedBatch, ...]
    epoch_entries: tuple[tuple[int, int], ...]
    log_end_offset: int
    high_watermarks: tuple[int, ...]
    fetcher: str
    is_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One broker's replica in one snapshot, from both sides.

    Attributes:
        role: "leader", "in sync", "not in sync" or "" where the snapshot does not say.
    """

    broker: int
    role: str
    is_running: bool | None
    found: Found | None
    foreseen: Foreseen | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition in one snapshot.

    Attributes:
        state: What its state znode said when the snapshot was taken; empty if it is unknown.
        is_final: Whether the snapshot was taken after everything had been healed.
    """

    topic: str
    partition: int
    snapshot: str
    is_final: bool
    state: Mapping[str, Any]
    replicas: tuple[ReplicaView, ...]

    @property
    def name(self) -> str:
        """The topic, a dash, and the partition's number, as Kafka names directories."""
        return f"{self.topic}-{self.partition}"


def partition_views(loaded: Loaded) -> tuple[PartitionView, ...]:
    """Every partition of every snapshot: snapshots as they were taken, partitions by name."""
    views: list[PartitionView] = []
    for label in loaded.directory.snapshots():
        views.extend(_views_of_snapshot(loaded, label))
    return tuple(views)


def _views_of_snapshot(loaded: Loaded, label: str) -> Iterable[PartitionView]:
    snapshot = loaded.directory.read(f"snapshots/{label}/snapshot.json")
    found = _found(loaded.directory, label)
    foreseen = _foreseen(loaded.prediction, label)
    brokers = snapshot.get("brokers", {})
    for topic, partition in sorted({key[:2] for key in (*found, *foreseen)}):
        state = snapshot.get("states", {}).get(f"{topic}-{partition}") or {}
        ids = sorted({key[2] for key in (*found, *foreseen) if key[:2] == (topic, partition)})
        yield PartitionView(
            topic=topic,
            partition=partition,
            snapshot=label,
            is_final=bool(snapshot.get("is_final")),
            state=state,
            replicas=tuple(
                ReplicaView(
                    broker=broker,
                    role=_role(state, broker),
                    is_running=brokers.get(str(broker), {}).get("is_running"),
                    found=found.get((topic, partition, broker)),
                    foreseen=foreseen.get((topic, partition, broker)),
                )
                for broker in ids
            ),
        )


def _role(state: Mapping[str, Any], broker: int) -> str:
    if not state:
        return ""
    if state.get("leader") == broker:
        return "leader"
    return "in sync" if broker in state.get("isr", ()) else "not in sync"


def _found(run: RunDirectory, label: str) -> dict[tuple[str, int, int], Found]:
    replicas = {}
    for folder in sorted((run.path / "snapshots" / label).glob("broker-*")):
        number = folder.name.rpartition("-")[2]
        if not (number.isascii() and number.isdigit()):
            continue
        marks, problems = _high_watermarks(folder / HIGH_WATERMARKS)
        for directory in partition_directories(folder):
            topic, _, partition = directory.name.rpartition("-")
            about = (topic, int(partition))
            replicas[(*about, int(number))] = _read(directory, marks.get(about), problems)
    return replicas


def _read(directory: Path, high_watermark: int | None, problems: tuple[str, ...]) -> Found:
    try:
        contents = read_partition(directory)
    except (SegmentError, OSError) as error:
        return Found(
            batches=(),
            epoch_entries=None,
            high_watermark=high_watermark,
            directory=directory,
            problems=(*problems, str(error)),
        )
    entries = contents.epoch_entries
    return Found(
        batches=contents.batches,
        epoch_entries=None
        if entries is None
        else tuple((entry.leader_epoch, entry.start_offset) for entry in entries),
        high_watermark=high_watermark,
        directory=directory,
        problems=problems,
    )


def _high_watermarks(file: Path) -> tuple[dict[tuple[str, int], int], tuple[str, ...]]:
    if not file.is_file():
        return {}, ()
    try:
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
        return parse_offset_checkpoint(text, file=file.name), ()
    except CheckpointError as error:
        return {}, (str(error),)


def _foreseen(prediction: Mapping[str, Any], label: str) -> dict[tuple[str, int, int], Foreseen]:
    replicas: Sequence[Mapping[str, Any]] = prediction.get("snapshots", {}).get(label, ())
    return {
        (replica["topic"], replica["partition"], replica["broker"]): Foreseen(
            batches=tuple(PredictedBatch(**batch) for batch in replica["batches"]),
            epoch_entries=tuple((int(epoch), int(at)) for epoch, at in replica["epoch_entries"]),
            log_end_offset=replica["log_end_offset"],
            high_watermarks=tuple(replica["high_watermarks"]),
            fetcher=replica.get("fetcher", "none"),
            is_running=replica.get("is_running", True),
        )
        for replica in replicas
    }
