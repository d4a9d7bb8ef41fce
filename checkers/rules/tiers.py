"""Tiered logs: what readers get of the lineage that the model predicts, and what none can reach."""

from collections.abc import Iterator, Mapping, Sequence

from kchaos.checkers.evidence.partition import (
    OBSERVED,
    BatchEvidence,
    PartitionEvidence,
    RemoteEvidence,
    ReplicaEvidence,
    Side,
)
from kchaos.checkers.evidence.tier import TierReading
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.broker.tier import holder
from kchaos.checkers.model.values.epoch_cache import EpochEntry
from kchaos.checkers.model.values.prediction import PredictedBatch, PredictedRead
from kchaos.checkers.model.values.requests import RemoteSegment
from kchaos.checkers.rules.offsets import Range, in_words, merged
from kchaos.checkers.segments.batch import join_payload_digests

_Got = Mapping[int, str]
"""The payload of what a reader got, by offset: of a record, or of a batch at its first offset."""


def tier_reads(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield `tier-unreadable` and `tier-other-lineage`, for each broker that was read from.

    Those are, at the end of every run, the leader and each follower in sync, which may lead next.

    **Verifies**: for each reading of a tiered log, in sequence and by seeking to each offset, that
    each record between the ends that the broker named is the one that its log has there, as the
    model says, wherever it is served from.
    **Does not verify**: brokers out of sync; a reading of which the model says nothing, and a
    possible leader that nobody could read from (then safety is unknown).
    """
    if not evidence.is_final:
        return
    readings = {read_back.operation: read_back for read_back in evidence.readings}
    by_kind: dict[tuple[str, int], dict[Range, set[str]]] = {}
    for expected in evidence.predicted_reads:
        reading = readings.get(expected.operation)
        if side == OBSERVED and reading is None:
            continue
        for batch in expected.lineage:
            kind = _amiss(batch, side, reading, expected)
            if kind:
                offsets = (batch.base_offset, batch.last_offset)
                of_broker = by_kind.setdefault((kind, expected.broker), {})
                of_broker.setdefault(offsets, set()).add(expected.operation)
    for (kind, broker), amiss in sorted(by_kind.items()):
        for first, last in merged(amiss):
            named = sorted(
                {
                    name
                    for offsets, names in amiss.items()
                    if first <= offsets[0] and offsets[1] <= last
                    for name in names
                }
            )
            what = "nobody gets" if kind == "tier-unreadable" else "readers get others in place of"
            yield evidence.finding(
                kind,
                brokers=(broker,),
                first_offset=first,
                last_offset=last,
                message=f"{what} the records at {in_words(first, last)} from broker {broker}"
                + _empty(readings, named, first, last),
                evidence={"readings": named, "got": _shown(readings, named, first, last)},
            )


def tier_orphan(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield `tier-orphan`: the remote tier has a leader's record that no client can reach.

    **Verifies**, at the end: each record of the predicted log of the leader, and of each follower
    in sync, that lies below what is local there and is in some remote segment, with its leader
    epoch, is in one that the broker finds by the epoch that it has for the offset.
    **Does not verify**: segments of dead lineages, which Kafka keeps; records that are in no
    segment at all (readers miss them: `tier-unreadable`).
    """
    segments = evidence.remote if side == OBSERVED else evidence.predicted_remote
    if not evidence.is_final or segments is None:
        return
    for replica in evidence.in_sync(side):
        reads = [read for read in evidence.predicted_reads if read.broker == replica.broker]
        lineage = reads[-1].lineage if reads else ()
        for first, last in merged(_lost(replica, lineage, segments)):
            yield evidence.finding(
                "tier-orphan",
                brokers=(replica.broker,),
                first_offset=first,
                last_offset=last,
                message=f"the remote tier has the records at {in_words(first, last)} of broker "
                f"{replica.broker}'s log, in segments that it cannot find",
                evidence={
                    "leader_epochs": [list(entry) for entry in replica.epoch_entries or ()],
                    "segments": [_named(segment) for segment in segments],
                },
            )


def _lost(
    replica: ReplicaEvidence, lineage: Sequence[PredictedBatch], segments: Sequence[RemoteEvidence]
) -> Iterator[Range]:
    """Yield the remote part of a lineage in segments that the replica does not find."""
    entries = tuple(EpochEntry(*entry) for entry in replica.epoch_entries or ())
    known = tuple(_as_segment(segment) for segment in segments if segment.is_finished)
    for batch in lineage:
        if batch.last_offset >= replica.log_start_offset:
            continue
        holders = {segment.segment_id for segment in segments if _has(segment, batch)}
        reached = holder(entries, batch.base_offset, known)
        if holders and (reached is None or reached.segment_id not in holders):
            yield batch.base_offset, batch.last_offset


def tier_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield the differences of the remote tier, and of its readers' records.

    **Verifies**, at every snapshot: that each segment that the metadata topic names is predicted,
    with its offsets, leader epochs and state; that one whose copy has ended is in the store, with
    the batches and the leader epoch checkpoint that its leader had. Of each reading: each record
    that came or did not come.
    **Does not verify**: a copy that goes on while the snapshot is taken; index files.
    """
    if evidence.predicted is None:
        return
    predicted = {copy.segment_id: copy for copy in evidence.predicted_remote or ()}
    for copy in evidence.remote:
        expected = predicted.get(copy.segment_id)
        differs = "it is not predicted" if expected is None else _differs(copy, expected)
        if differs:
            yield evidence.finding(
                "not-as-predicted",
                first_offset=copy.start_offset,
                last_offset=copy.end_offset,
                message=f"remote segment {copy.segment_id}: {differs}",
                evidence={
                    "what": "remote-segment",
                    "predicted": None if expected is None else _named(expected),
                    "observed": _named(copy),
                },
            )
    if evidence.is_final:
        yield from _readings_as_predicted(evidence)


def _readings_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    readings = {read_back.operation: read_back for read_back in evidence.readings}
    for expected in evidence.predicted_reads:
        reading = readings.get(expected.operation)
        if reading is None:
            continue
        records = _records(reading)
        covered: set[int] = set()
        wrong = []
        for batch in expected.got:
            span = range(batch.base_offset, batch.last_offset + 1)
            covered.update(span)
            if _digest(records, span) != batch.payload:
                wrong.append((batch.base_offset, batch.last_offset))
        wrong += [(offset, offset) for offset in records if offset not in covered]
        for first, last in merged(wrong):
            yield evidence.finding(
                "not-as-predicted",
                brokers=(expected.broker,),
                first_offset=first,
                last_offset=last,
                message=f"reading {expected.operation} did not get what is predicted at "
                f"{in_words(first, last)}",
                evidence={
                    "what": "reading",
                    "predicted": [
                        [batch.base_offset, batch.payload]
                        for batch in expected.got
                        if first <= batch.base_offset <= last
                    ],
                    "observed": [[at, records.get(at)] for at in range(first, last + 1)],
                },
            )


def _amiss(
    batch: PredictedBatch, side: Side, reading: TierReading | None, expected: PredictedRead
) -> str:
    """Return the kind of finding that a batch of the lineage is to a reader, or ""."""
    span = range(batch.base_offset, batch.last_offset + 1)
    if side == OBSERVED:
        assert reading is not None
        got = _digest(_records(reading), span)
        is_there = got is not None
    else:
        same = [other for other in expected.got if other.base_offset == batch.base_offset]
        got = same[0].payload if same and same[0].last_offset == batch.last_offset else None
        is_there = any(
            other.base_offset in span or other.last_offset in span for other in expected.got
        )
    if not is_there:
        return "tier-unreadable"
    return "" if got == batch.payload else "tier-other-lineage"


def _records(reading: TierReading) -> _Got:
    return {record.offset: record.payload for fetch in reading.fetches for record in fetch.records}


def _digest(records: _Got, span: range) -> str | None:
    """Return the digest of the records at these offsets together; None if one is missing."""
    if any(offset not in records for offset in span):
        return None
    return join_payload_digests((records[offset], 1) for offset in span)


def _shown(
    readings: Mapping[str, TierReading], named: Sequence[str], first: int, last: int
) -> list[dict[str, object]]:
    """Return the first Fetches of these offsets, with their responses."""
    return [
        {
            "reading": name,
            "offset": fetch.offset,
            "error_code": fetch.error_code,
            **({"empty_answers": fetch.empty_answers} if fetch.empty_answers else {}),
            "records": [record.offset for record in fetch.records][:20],
        }
        for name in named
        if name in readings
        for fetch in readings[name].fetches
        if first <= fetch.offset <= last
    ][:20]


def _empty(readings: Mapping[str, TierReading], named: Sequence[str], first: int, last: int) -> str:
    """Return the other meanings of empty answers, and a remedy, or "" if the broker gave none."""
    most = max(
        (
            fetch.empty_answers
            for name in named
            if name in readings
            for fetch in readings[name].fetches
            if first <= fetch.offset <= last and not fetch.records and not fetch.error_code
        ),
        default=0,
    )
    if not most:
        return ""
    return (
        f": it gave {most} empty answers in a row and no error; a slow remote read "
        "(remote.fetch.max.wait.ms) looks the same, so run it again on a machine with "
        "less load"
    )


def _as_segment(remote: RemoteEvidence) -> RemoteSegment:
    return RemoteSegment(
        segment_id=remote.segment_id,
        start_offset=remote.start_offset,
        end_offset=remote.end_offset,
        leader_epochs=tuple(EpochEntry(*entry) for entry in remote.leader_epochs),
        chain=(),
        batches=(),
        is_finished=remote.is_finished,
    )


def _has(segment: RemoteEvidence, batch: PredictedBatch) -> bool:
    return any(_identity(other) == _identity(batch) for other in segment.batches)


def _identity(batch: BatchEvidence | PredictedBatch) -> tuple[int, int, int, str | None]:
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.payload


def _differs(real: RemoteEvidence, expected: RemoteEvidence) -> str:
    if (real.start_offset, real.end_offset) != (expected.start_offset, expected.end_offset):
        return f"it should end at {real.end_offset}, predicted was {expected.end_offset}"
    if real.leader_epochs != expected.leader_epochs:
        return f"its leader epochs are {real.leader_epochs}, predicted {expected.leader_epochs}"
    if not (real.is_finished and expected.is_finished):
        return ""
    if not real.is_stored:
        return "its copy has ended, and the store does not have it"
    if real.epochs != expected.epochs:
        return f"its checkpoint has {real.epochs}, predicted {expected.epochs}"
    if [*map(_identity, real.batches)] != [*map(_identity, expected.batches)]:
        return "its batches differ from the prediction"
    return ""


def _named(remote: RemoteEvidence) -> dict[str, object]:
    return {
        "segment_id": remote.segment_id,
        "start_offset": remote.start_offset,
        "end_offset": remote.end_offset,
        "is_finished": remote.is_finished,
        "leader_epochs": [list(entry) for entry in remote.leader_epochs],
    }
