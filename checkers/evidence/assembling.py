"""Input of the rules: a run's evidence and its prediction, put together for each partition."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.broker_epochs import ControlRequest, never_informed
from kchaos.checkers.evidence.clients import CommittedRead
from kchaos.checkers.evidence.excuses import excuses
from kchaos.checkers.evidence.markers import Marker
from kchaos.checkers.evidence.partition import (
    BATCH_COLUMNS,
    OBSERVED,
    PREDICTED,
    BatchEvidence,
    EarlierReplica,
    PartitionEvidence,
    RemoteEvidence,
    ReplicaEvidence,
)
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.snapshots import StateSeen, TakenSnapshot
from kchaos.checkers.evidence.tier import TierReading, remote_at, stored_at
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import members
from kchaos.checkers.model.values.prediction import (
    EpochRound,
    PredictedBatch,
    PredictedRead,
    PredictedRemoteSegment,
    Prediction,
)
from kchaos.checkers.observations import SettleOutcome
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.directory import PartitionContents
from kchaos.checkers.segments.tier import FINISHED, RemoteSegmentMetadata

_OBSERVED_ALONE = ("batches", "findings", "broken_checkpoints", "first_offset", "is_registered")
_OfPartition = TypeVar(
    "_OfPartition",
    CommittedRead,
    Marker,
    EpochRound,
    PredictedRead,
    PredictedRemoteSegment,
    RemoteSegmentMetadata,
    TierReading,
)
_NO_STATE = StateSeen(leader=-1, leader_epoch=-1, isr=())
_REPLICA_FIELDS = [field.name for field in fields(ReplicaEvidence)]


def run_evidence(
    evidence: RunEvidence, prediction: Prediction | None
) -> Iterator[PartitionEvidence]:
    """Yield the evidence of each partition at each snapshot.

    Raises:
        SegmentError: A snapshot's files cannot be segments at all.
    """
    for partition in evidence.partitions:
        own = None if partition.topic in evidence.topics_left_out else prediction
        same = _same_at_each_snapshot(evidence, partition, own) if evidence.snapshots else {}
        before: PartitionEvidence | None = None
        for snapshot in evidence.snapshots:
            state = snapshot.state(partition) or _NO_STATE
            before = PartitionEvidence(
                run=evidence.run.name,
                topic=partition.topic,
                partition=partition.partition,
                snapshot=snapshot.label,
                snapshot_time=snapshot.time,
                is_final=snapshot.is_final,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                min_insync_replicas=evidence.min_insync_replicas(partition, state.leader),
                replicas=tuple(_observed(evidence, partition, snapshot)),
                predicted=_predicted(own, partition, snapshot.label),
                earlier=() if before is None else tuple(_earlier(before)),
                copied_from=snapshot.copied_from,
                late_requests=tuple(_late(evidence, partition)) if snapshot.is_final else (),
                never_informed=_never_informed(evidence, partition, snapshot, state),
                cleaned_until=evidence.cleaned_until(partition, snapshot),
                **(_of_tier(evidence, own, partition, snapshot) if evidence.is_tiered else {}),
                **same,
            )
            yield before


def _same_at_each_snapshot(
    evidence: RunEvidence, partition: TopicPartition, prediction: Prediction | None
) -> dict[str, Any]:
    own = tuple(
        operation
        for operation in evidence.operations
        if (operation.topic, operation.partition) == partition
    )
    return {
        "excuses": tuple(excuses(evidence, partition)),
        "undisturbed_since": evidence.undisturbed_since,
        "unclean_stops": evidence.unclean_stops,
        "assigned": evidence.assignment(partition),
        "moved_away": tuple(evidence.moved_away(partition)),
        "dropped": tuple(evidence.dropped(partition)),
        "operations": own,
        "settle": _settle(evidence.outcome.settle, partition),
        "delete_retention_s": evidence.settings.delete_retention_s(partition.topic),
        "may_delete": evidence.settings.may_delete(partition.topic),
        "deleted_until": evidence.deleted_until.get(partition, 0),
        "is_compacted": evidence.settings.is_compacted(partition.topic),
        "is_open_to_others": evidence.is_open_to_others,
        "transactional": _transactional(evidence, partition),
        "markers": None if evidence.markers is None else _about(evidence.markers, partition),
        "unread_markers": _about(evidence.unread_markers, partition),
        "committed_reads": _committed_reads(evidence, partition),
        "has_other_codec": evidence.settings.has_other_codec(partition.topic),
        "has_other_times": evidence.settings.has_other_times(partition.topic),
        "rounds": None if evidence.rounds is None else _about(evidence.rounds, partition),
        **_predicted_of_partition(
            prediction, partition, {operation.operation for operation in own}
        ),
    }


def _transactional(evidence: RunEvidence, partition: TopicPartition) -> tuple[int, ...]:
    seen = {} if evidence.clients is None else evidence.clients.transactional
    return tuple(sorted(seen.get(partition, ())))


def _committed_reads(evidence: RunEvidence, partition: TopicPartition) -> tuple[CommittedRead, ...]:
    if evidence.clients is None or partition not in evidence.clients.transactional:
        return ()
    return _about(evidence.clients.committed_reads, partition)


def _of_tier(
    evidence: RunEvidence,
    prediction: Prediction | None,
    partition: TopicPartition,
    snapshot: TakenSnapshot,
) -> dict[str, Any]:
    by_field: dict[str, Any] = {
        "remote": tuple(_remote(evidence, partition, snapshot)),
        "readings": _about(evidence.tier_readings, partition),
    }
    if prediction is None:
        return by_field
    return by_field | {
        "predicted_remote": tuple(
            RemoteEvidence(
                segment_id=segment.segment_id,
                start_offset=segment.start_offset,
                end_offset=segment.end_offset,
                leader_epochs=segment.leader_epochs,
                is_finished=segment.is_finished,
                epochs=segment.epochs,
                batches=tuple(_predicted_batch(batch) for batch in segment.batches),
            )
            for segment in _about(prediction.remote.get(snapshot.label, ()), partition)
        ),
        "predicted_reads": _about(prediction.reads, partition),
    }


def _remote(
    evidence: RunEvidence, partition: TopicPartition, snapshot: TakenSnapshot
) -> Iterator[RemoteEvidence]:
    stored = {copied.segment_id: copied for copied in stored_at(evidence.files, snapshot)}
    for segment in _about(remote_at(evidence.files, snapshot), partition):
        files = stored.get(segment.segment_id)
        yield RemoteEvidence(
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            leader_epochs=segment.leader_epochs,
            is_finished=segment.state == FINISHED,
            is_stored=files is not None,
            epochs=None if files is None else files.epochs,
            batches=() if files is None else tuple(map(batch_evidence, files.batches)),
        )


def batch_evidence(batch: Batch) -> BatchEvidence:
    """Return a rule's view of a batch that the segment reader read."""
    return BatchEvidence(**{name: getattr(batch, name) for name in BATCH_COLUMNS})


def reader_findings(contents: PartitionContents) -> tuple[Finding, ...]:
    """Return the segment reader's findings that no rule makes from the same evidence."""
    return tuple(
        finding
        for finding in contents.findings
        # The rule compares cache and batches again, on both sides; a cache that cannot be parsed
        # is known to the reader alone.
        if finding.kind != "epoch-cache-mismatch" or contents.epoch_entries is None
    )


def _observed(
    evidence: RunEvidence, partition: TopicPartition, snapshot: TakenSnapshot
) -> Iterator[ReplicaEvidence]:
    label, copied = snapshot.label, evidence.copied
    with_files = {
        broker for broker in snapshot.brokers if copied.directory(label, broker, partition).is_dir()
    }
    for broker in sorted(with_files | set(evidence.assignment(partition))):
        if broker not in snapshot.brokers:
            # What lies in a folder that the snapshot does not name is nobody's.
            yield ReplicaEvidence(broker=broker, is_running=False)
            continue
        contents = copied.contents(label, broker, partition)
        findings = reader_findings(contents) if contents else ()
        segments = copied.segments(label, broker, partition)
        broken: list[str] = []
        high_watermark = _offset(broken, copied.high_watermarks, label, broker, partition)
        log_start = _offset(broken, copied.log_starts, label, broker, partition)
        _offset(broken, copied.recovery_points, label, broker, partition)
        of_segment = int(segments[0].stem) if segments else 0
        seen = snapshot.brokers.get(broker)
        yield ReplicaEvidence(
            broker=broker,
            batches=tuple(map(batch_evidence, contents.batches)) if contents else (),
            epoch_entries=copied.epoch_entries(label, broker, partition),
            log_start_offset=max(of_segment, log_start or 0),
            first_offset=of_segment,
            high_watermarks=() if high_watermark is None else (high_watermark,),
            is_running=bool(seen is not None and seen.is_running),
            is_registered=not snapshot.is_final or broker not in evidence.unregistered,
            is_high_watermark_pinned=snapshot.is_final and (partition, broker) in evidence.pinned,
            broken_checkpoints=tuple(broken),
            findings=tuple(
                replace(finding, brokers=(broker,), snapshot=label) for finding in findings
            ),
        )


def _offset(
    broken: list[str],
    offsets: Callable[[str, int], Mapping[tuple[str, int], int]],
    label: str,
    broker: int,
    partition: TopicPartition,
) -> int | None:
    """Return the partition's offset in a checkpoint, or None and the reason if it is unreadable."""
    try:
        return offsets(label, broker).get(partition)
    except CheckpointError as error:
        broken.append(str(error))
        return None


def _predicted(
    prediction: Prediction | None, partition: TopicPartition, label: str
) -> tuple[ReplicaEvidence, ...] | None:
    if prediction is None or label not in prediction.snapshots:
        return None
    names = [name for name in _REPLICA_FIELDS if name not in _OBSERVED_ALONE]
    return tuple(
        ReplicaEvidence(
            batches=tuple(_predicted_batch(batch) for batch in replica.batches),
            **{name: getattr(replica, name) for name in names},
        )
        for replica in prediction.snapshots[label]
        if (replica.topic, replica.partition) == partition
    )


def _predicted_batch(batch: PredictedBatch) -> BatchEvidence:
    records = batch.last_offset - batch.base_offset + 1
    said = members(batch)
    del said["producer"]
    return BatchEvidence(
        **said,
        record_count=records,
        marks=None if batch.producer is None else str(batch.producer),
        producer_id=None if batch.producer is None else batch.producer.producer_id,
    )


def _earlier(before: PartitionEvidence) -> Iterator[EarlierReplica]:
    for side in (OBSERVED, PREDICTED):
        for replica in before.replicas if side == OBSERVED else before.predicted or ():
            yield EarlierReplica(
                side=side,
                broker=replica.broker,
                snapshot=before.snapshot,
                time=before.snapshot_time,
                leader_epoch=before.leader_epoch,
                high_watermarks=replica.high_watermarks,
                batches=replica.batches,
            )


def _predicted_of_partition(
    prediction: Prediction | None, partition: TopicPartition, operations: set[str]
) -> dict[str, Any]:
    if prediction is None:
        return {}
    return {
        "predicted_produces": tuple(
            produce for produce in prediction.produces if produce.operation in operations
        ),
        "predicted_rounds": _about(prediction.rounds, partition),
        "disallowed": tuple(
            disallowed
            for disallowed in prediction.disallowed
            if (disallowed.decision.get("topic"), disallowed.decision.get("partition")) == partition
        ),
        "impossible": tuple(
            # What a broker without such a replica is said to hold is nobody's in particular.
            mark
            for mark in prediction.impossible
            if mark.allowed and (mark.topic, mark.partition) == partition
        ),
    }


def _late(evidence: RunEvidence, partition: TopicPartition) -> Iterator[ControlRequest]:
    """Yield late requests about the partition, or about a broker that hosts it."""
    assigned = evidence.assignment(partition)
    for request in evidence.control or ():
        named = {(topic, number) for topic, number, _ in request.partitions}
        is_about = partition in named or (not named and request.broker in assigned)
        if (request.is_late or request.is_made) and is_about:
            yield request


def _never_informed(
    evidence: RunEvidence, partition: TopicPartition, snapshot: TakenSnapshot, state: StateSeen
) -> tuple[int, ...]:
    if not snapshot.is_final or state.leader_epoch < 0:
        return ()
    return never_informed(
        evidence.control, evidence.events, partition, evidence.assignment(partition)
    )


def _about(
    candidates: Sequence[_OfPartition], partition: TopicPartition
) -> tuple[_OfPartition, ...]:
    return tuple(item for item in candidates if (item.topic, item.partition) == partition)


def _settle(settled: SettleOutcome | None, partition: TopicPartition) -> dict[str, Any] | None:
    if settled is None:
        return None
    return {
        "state": settled.state,
        "bound_s": settled.bound_s,
        "bound_from": settled.bound_from,
        "probes": [members(probe) for probe in settled.probes],
        "last_seen": (settled.last_seen or {}).get(f"{partition.topic}-{partition.partition}"),
        "reasons": [
            reason
            for reason in settled.reasons
            if (reason.get("topic"), reason.get("partition")) == partition
        ],
    }
