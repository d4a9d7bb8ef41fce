"""Replicas as they were found on disk, each beside what the model predicts for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError, CheckpointError, SegmentError
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.snapshots import CopiedFiles, EpochEntries, StateSeen, TakenSnapshot
from kchaos.checkers.model.values.prediction import PredictedReplica, Prediction
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.tier_drawing import RemoteView, remote_views


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One replica as its files are.

    Attributes:
        batches: In file order.
        epoch_entries: (leader epoch, start offset); None without a readable checkpoint.
        high_watermark: As `replication-offset-checkpoint` has it, or None.
        directory: The partition's directory in the snapshot.
        problems: What could not be read, a sentence each.
    """

    batches: tuple[Batch, ...]
    epoch_entries: EpochEntries | None
    high_watermark: int | None
    directory: Path
    problems: tuple[str, ...] = ()

    @property
    def log_end_offset(self) -> int:
        """One past the last record on disk; 0 for an empty log."""
        return self.batches[-1].last_offset + 1 if self.batches else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One broker's replica in one snapshot, from both sides.

    Attributes:
        role: "leader", "in sync", "not in sync" or "" where the snapshot does not say.
        cleaned_until: Below it (exclusive) log cleaners may have been at work; 0 if none was.
    """

    broker: int
    role: str
    is_running: bool | None
    on_disk: ReplicaFiles | None
    foreseen: PredictedReplica | None
    cleaned_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition in one snapshot.

    Attributes:
        state: What its state znode said when the snapshot was taken; None if it is unknown.
        is_final: Whether the snapshot was taken after everything had been healed.
        remote: Its segments in the remote tier; none for a log that is not tiered.
        remote_problem: Why that cannot be said, or "".
    """

    topic: str
    partition: int
    snapshot: str
    is_final: bool
    state: StateSeen | None
    replicas: tuple[ReplicaView, ...]
    remote: tuple[RemoteView, ...] = ()
    remote_problem: str = ""

    @property
    def name(self) -> str:
        """The topic, a dash, and the partition's number, as Kafka names directories."""
        return f"{self.topic}-{self.partition}"


def partition_views(loaded: Loaded) -> tuple[PartitionView, ...]:
    """Return every snapshot's partitions: snapshots by time, partitions by name.

    Kafka's own topics are left out, since nothing is judged about them.
    """
    return tuple(
        view
        for snapshot in loaded.evidence.snapshots
        for view in _views_of_snapshot(loaded, snapshot)
    )


def _views_of_snapshot(loaded: Loaded, snapshot: TakenSnapshot) -> Iterable[PartitionView]:
    copied, label = loaded.evidence.copied, snapshot.label
    disk_logs = {
        (partition, broker): _found(copied, label, broker, partition)
        for broker, partition in copied.replicas(label, snapshot.brokers)
    }
    foreseen = _foreseen(loaded.prediction, label)
    for partition in sorted(
        {judged for judged, _ in (*disk_logs, *foreseen) if not is_internal(judged.topic)}
    ):
        state = snapshot.state(partition)
        ids = sorted({broker for of, broker in (*disk_logs, *foreseen) if of == partition})
        yield PartitionView(
            topic=partition.topic,
            partition=partition.partition,
            snapshot=label,
            is_final=snapshot.is_final,
            state=state,
            replicas=tuple(
                ReplicaView(
                    broker=broker,
                    role=_role(state, broker),
                    is_running=snapshot.brokers[broker].is_running
                    if broker in snapshot.brokers
                    else None,
                    on_disk=disk_logs.get((partition, broker)),
                    foreseen=foreseen.get((partition, broker)),
                    cleaned_until=_cleaned_until(loaded, partition, snapshot),
                )
                for broker in ids
            ),
            **_remote(loaded, label, partition),
        )


def _cleaned_until(loaded: Loaded, partition: TopicPartition, snapshot: TakenSnapshot) -> int:
    try:
        return loaded.evidence.cleaned_until(partition, snapshot)
    except CheckError:
        return 0  # The judgement says what cannot be read.


def _remote(loaded: Loaded, label: str, partition: TopicPartition) -> dict[str, Any]:
    if not loaded.scenario.cluster.tiered:
        return {}
    try:
        return {"remote": remote_views(loaded.evidence, label, partition)}
    except (CheckError, SegmentError, OSError) as error:
        return {"remote_problem": str(error)}


def _role(state: StateSeen | None, broker: int) -> str:
    if state is None:
        return ""
    if state.leader == broker:
        return "leader"
    return "in sync" if broker in state.isr else "not in sync"


def _found(copied: CopiedFiles, label: str, broker: int, partition: TopicPartition) -> ReplicaFiles:
    batches: tuple[Batch, ...] = ()
    entries: EpochEntries | None = None
    high_watermark: int | None = None
    problems = []
    try:
        contents = copied.contents(label, broker, partition)
        batches = () if contents is None else contents.batches
        entries = copied.epoch_entries(label, broker, partition)
    except (SegmentError, OSError) as error:
        problems.append(str(error))
    try:
        high_watermark = copied.high_watermarks(label, broker).get(partition)
    except CheckpointError as error:
        problems.append(str(error))
    return ReplicaFiles(
        batches=batches,
        epoch_entries=entries,
        high_watermark=high_watermark,
        directory=copied.directory(label, broker, partition),
        problems=tuple(problems),
    )


def _foreseen(
    prediction: Prediction | None, label: str
) -> dict[tuple[TopicPartition, int], PredictedReplica]:
    replicas = () if prediction is None else prediction.snapshots.get(label, ())
    return {
        (TopicPartition(replica.topic, replica.partition), replica.broker): replica
        for replica in replicas
    }
