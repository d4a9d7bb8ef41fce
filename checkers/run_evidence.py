"""Evidence of one run: its files and its prediction, turned into what the rules are given.

What is read, beside the files that `checkers.run_directory` lists: of snapshot.json `time`,
`is_final`, `brokers.N.is_running`, `brokers.N.stable` and `states`; of a snapshot's `broker-N/`
the partition directories and `replication-offset-checkpoint`; of outcome.json `settle`; of
observations.jsonl the kind `high-watermarks-pinned`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.errors import CheckpointError
from checkers.evidence import (
    BEFORE,
    OBSERVED,
    PREDICTED,
    BatchEvidence,
    EarlierReplica,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
    with_batches,
)
from checkers.findings import Finding
from checkers.formats.checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from checkers.generations import ControlRequest, never_told
from checkers.model.events import TopicPartition
from checkers.model.prediction import EpochRound, PredictedBatch, PredictedReplica, Prediction
from checkers.run_directory import RunDirectory
from checkers.run_facts import (
    RunFacts,
    assignment,
    excuses,
    min_insync_replicas,
    partitions,
)
from checkers.segments.batch import Batch
from checkers.segments.directory import (
    PartitionContents,
    read_partition,
    segment_files,
)

_Contents = Callable[[str, int, TopicPartition], PartitionContents | None]


def run_evidence(facts: RunFacts, prediction: Prediction | None) -> Iterator[PartitionEvidence]:
    """Yields the evidence of each partition at each snapshot, segments included.

    Raises:
        SegmentError: A snapshot's files cannot be segments at all.
    """
    read: dict[tuple[str, int, TopicPartition], PartitionContents] = {}

    def contents(label: str, broker: int, about: TopicPartition) -> PartitionContents | None:
        key = (label, broker, about)
        directory = replica_directory(facts.run, label, broker, about)
        if key not in read and directory.is_dir():
            read[key] = read_partition(directory)
        return read.get(key)

    for evidence in contexts(facts, prediction):
        yield _with_segments(evidence, contents)


def contexts(facts: RunFacts, prediction: Prediction | None) -> Iterator[PartitionEvidence]:
    """As `run_evidence`, but without what only segments can tell: no segment is read."""
    for about in partitions(facts):
        for index, snapshot in enumerate(facts.snapshots):
            before = facts.snapshots[index - 1] if index else None
            yield _context(facts, prediction, about, snapshot, before)


def replica_directory(run: RunDirectory, label: str, broker: int, about: TopicPartition) -> Path:
    """Where a snapshot keeps one replica's files; the directory exists only if it had some."""
    name = f"{about.topic}-{about.partition}"
    return run.path / "snapshots" / label / f"broker-{broker}" / name


def batch_evidence(batch: Batch) -> BatchEvidence:
    """What a rule sees of a batch that the segment reader read."""
    return BatchEvidence(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        magic=batch.magic,
        payload=batch.payload,
        codec=batch.codec,
        crc=batch.crc,
        file=batch.file,
        position=batch.position,
        size_bytes=batch.size_bytes,
        record_count=batch.record_count,
    )


def reader_findings(contents: PartitionContents) -> tuple[Finding, ...]:
    """The reader's findings but those that the rules make from the same evidence."""
    return tuple(
        finding
        for finding in contents.findings
        # The rule compares cache and batches again, on both sides; a cache that cannot be parsed
        # is known to the reader alone.
        if finding.kind != "epoch-cache-mismatch" or contents.epoch_entries is None
    )


def _with_segments(evidence: PartitionEvidence, contents: _Contents) -> PartitionEvidence:
    about = TopicPartition(evidence.topic, evidence.partition)
    batches: dict[tuple[str, int], Sequence[BatchEvidence]] = {}
    findings: dict[tuple[str, int], Sequence[Finding]] = {}
    for replica in evidence.replicas:
        found = contents(evidence.snapshot, replica.broker, about)
        if found is not None:
            batches[OBSERVED, replica.broker] = [batch_evidence(one) for one in found.batches]
            findings[OBSERVED, replica.broker] = [
                replace(one, brokers=(replica.broker,), snapshot=evidence.snapshot)
                for one in reader_findings(found)
            ]
    for one in evidence.earlier:
        found = contents(one.snapshot, one.broker, about) if one.side == OBSERVED else None
        if found is not None:
            batches[OBSERVED + BEFORE, one.broker] = [batch_evidence(b) for b in found.batches]
        if one.side == PREDICTED:
            batches[PREDICTED + BEFORE, one.broker] = one.batches
    for replica in evidence.predicted or ():
        batches[PREDICTED, replica.broker] = replica.batches
    return with_batches(evidence, batches, findings)


def _context(
    facts: RunFacts,
    prediction: Prediction | None,
    about: TopicPartition,
    snapshot: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> PartitionEvidence:
    label = snapshot["label"]
    state = _state(snapshot, about)
    return PartitionEvidence(
        run=facts.run.name,
        topic=about.topic,
        partition=about.partition,
        snapshot=label,
        snapshot_time=snapshot["time"],
        is_final=bool(snapshot["is_final"]),
        leader=state["leader"],
        leader_epoch=state["leader_epoch"],
        isr=tuple(state["isr"]),
        min_insync_replicas=min_insync_replicas(facts, about, state["leader"]),
        replicas=tuple(
            _observed(facts, about, snapshot, broker)
            for broker in _replica_ids(facts, about, snapshot)
        ),
        predicted=_predicted(prediction, about, label),
        earlier=_earlier(facts, prediction, about, before),
        excuses=tuple(excuses(facts.events, about)),
        operations=tuple(one for one in facts.operations if (one.topic, one.partition) == about),
        settle=_settle(facts.settle, about),
        rounds=None if facts.rounds is None else _about(facts.rounds, about),
        late_requests=tuple(_late(facts, about)) if snapshot["is_final"] else (),
        never_told=_never_told(facts, about, snapshot),
        **_predicted_of_partition(facts, prediction, about),
    )


def _predicted_of_partition(
    facts: RunFacts, prediction: Prediction | None, about: TopicPartition
) -> dict[str, Any]:
    if prediction is None:
        return {}
    names = {one.operation for one in facts.operations if (one.topic, one.partition) == about}
    return {
        "predicted_produces": tuple(p for p in prediction.produces if p.operation in names),
        "predicted_rounds": _about(prediction.rounds, about),
        "disallowed": tuple(
            # Through JSON, so that it is the same after a round trip through rows.
            json.loads(json.dumps({"index": d.index, "decision": d.decision, "reason": d.reason}))
            for d in prediction.disallowed
            if (d.decision.get("topic"), d.decision.get("partition")) == about
        ),
        "impossible": tuple(
            # What a broker without such a replica is said to hold is nobody's in particular.
            one
            for one in prediction.impossible
            if one.allowed and (one.topic, one.partition) == about
        ),
    }


def _late(facts: RunFacts, about: TopicPartition) -> Iterator[ControlRequest]:
    """Late requests that name the partition, or name none and are about a broker that has it."""
    assigned = assignment(facts, about)
    for one in facts.control or ():
        named = {(topic, partition) for topic, partition, _ in one.partitions}
        is_about = about in named or (not named and one.broker in assigned)
        if (one.is_late or one.is_made) and is_about:
            yield one


def _never_told(
    facts: RunFacts, about: TopicPartition, snapshot: Mapping[str, Any]
) -> tuple[int, ...]:
    has_state = _state(snapshot, about)["leader_epoch"] >= 0
    if not (snapshot["is_final"] and has_state):
        return ()
    return never_told(facts.control, facts.events, about, assignment(facts, about))


def _about(rounds: Sequence[EpochRound], about: TopicPartition) -> tuple[EpochRound, ...]:
    return tuple(one for one in rounds if (one.topic, one.partition) == about)


def _state(snapshot: Mapping[str, Any], about: TopicPartition) -> Mapping[str, Any]:
    name = f"{about.topic}-{about.partition}"
    return snapshot["states"].get(name) or {"leader": -1, "leader_epoch": -1, "isr": []}


def _replica_ids(facts: RunFacts, about: TopicPartition, snapshot: Mapping[str, Any]) -> list[int]:
    found = {
        broker
        for broker in map(int, snapshot["brokers"])
        if replica_directory(facts.run, snapshot["label"], broker, about).is_dir()
    }
    return sorted(found | set(assignment(facts, about)))


def _observed(
    facts: RunFacts, about: TopicPartition, snapshot: Mapping[str, Any], broker: int
) -> ReplicaEvidence:
    label = snapshot["label"]
    directory = replica_directory(facts.run, label, broker, about)
    segments = segment_files(directory) if directory.is_dir() else ()
    of_broker = snapshot["brokers"].get(str(broker), {})
    return ReplicaEvidence(
        broker=broker,
        epoch_entries=_epoch_entries(directory / LEADER_EPOCHS),
        log_start_offset=int(segments[0].stem) if segments else 0,
        high_watermarks=_high_watermarks(facts.run, label, broker, about),
        is_running=bool(of_broker.get("is_running", False)),
        is_high_watermark_pinned=bool(snapshot["is_final"]) and (about, broker) in facts.pinned,
    )


def _epoch_entries(file: Path) -> tuple[tuple[int, int], ...] | None:
    try:
        entries = parse_leader_epoch_checkpoint(file.read_text(), file=file.name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (CheckpointError, UnicodeDecodeError):
        return None  # The segment reader makes a finding of it.
    return tuple((entry.leader_epoch, entry.start_offset) for entry in entries)


def _high_watermarks(
    run: RunDirectory, label: str, broker: int, about: TopicPartition
) -> tuple[int, ...]:
    file = run.path / "snapshots" / label / f"broker-{broker}" / HIGH_WATERMARKS
    if not file.is_file():
        return ()
    try:
        offsets = parse_offset_checkpoint(file.read_text(), file=str(file))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{file} is no text: {error}") from error
    return (offsets[about],) if about in offsets else ()


def _predicted(
    prediction: Prediction | None, about: TopicPartition, label: str
) -> tuple[ReplicaEvidence, ...] | None:
    if prediction is None or label not in prediction.snapshots:
        return None
    return tuple(
        ReplicaEvidence(
            broker=one.broker,
            batches=tuple(_predicted_batch(batch) for batch in one.batches),
            epoch_entries=one.epoch_entries,
            log_start_offset=one.log_start_offset,
            log_end_offset=one.log_end_offset,
            high_watermarks=one.high_watermarks,
            is_running=one.is_running,
            is_hosted=one.is_hosted,
            fetcher=one.fetcher,
            is_high_watermark_pinned=one.is_high_watermark_pinned,
        )
        for one in _replicas_of(prediction.snapshots[label], about)
    )


def _replicas_of(
    replicas: Sequence[PredictedReplica], about: TopicPartition
) -> list[PredictedReplica]:
    return [one for one in replicas if (one.topic, one.partition) == about]


def _predicted_batch(batch: PredictedBatch) -> BatchEvidence:
    return BatchEvidence(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        magic=batch.magic,
        payload=batch.payload,
        record_count=batch.last_offset - batch.base_offset + 1,
    )


def _earlier(
    facts: RunFacts,
    prediction: Prediction | None,
    about: TopicPartition,
    before: Mapping[str, Any] | None,
) -> tuple[EarlierReplica, ...]:
    if before is None:
        return ()
    observed = [
        _observed(facts, about, before, broker) for broker in _replica_ids(facts, about, before)
    ]
    predicted = _predicted(prediction, about, before["label"]) or ()
    sides: list[tuple[Side, Sequence[ReplicaEvidence]]] = [
        (OBSERVED, observed),
        (PREDICTED, predicted),
    ]
    return tuple(
        EarlierReplica(
            side=side,
            broker=one.broker,
            snapshot=before["label"],
            leader_epoch=_state(before, about)["leader_epoch"],
            high_watermarks=one.high_watermarks,
            batches=one.batches,
        )
        for side, replicas in sides
        for one in replicas
    )


def _settle(settle: Mapping[str, Any] | None, about: TopicPartition) -> dict[str, Any] | None:
    if settle is None:
        return None
    name = f"{about.topic}-{about.partition}"
    return {
        "state": settle["state"],
        "bound_s": settle.get("bound_s"),
        "probes": settle.get("probes"),
        "last_seen": (settle.get("last_seen") or {}).get(name),
        "reasons": [
            reason
            for reason in settle.get("reasons", ())
            if (reason.get("topic"), reason.get("partition")) == about
        ],
    }
