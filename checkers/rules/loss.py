"""Acknowledged records that no in-sync replica holds any more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import (
    BatchEvidence,
    Excuse,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
)
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compacted import Cleaned, Compaction, acknowledged, held, in_doubt
from kchaos.checkers.rules.offsets import Range, common, headers, in_words, inside, merged, without


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    offsets: Range
    operation: Operation
    kind: str
    reason: str | None


def loss(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield `committed-loss` for lost promised records, `permitted-loss` for others.

    A record is promised if it was acknowledged with acks=all, or read below the high watermark.
    Its loss is permitted after an unclean election whose leader did not have it when its leader
    epoch began, and where a fault took the tail of every disk that was in sync when it was
    acknowledged, or when the fault took it. What was acknowledged with acks=1 is never promised.
    Of a compacted log the last record of each key is. Between the two is `last-replica-loss`: the
    disk of the last replica in sync lost the record, and of those that had acknowledged it fewer
    than min.insync.replicas ended uncleanly, so that another still had it (KIP-966, motivation).
    The finding says which it is; neighbouring offsets with one reason are one finding.

    **Verifies**: that the records are at the offset that the acknowledgement named, in at least one
    in-sync replica, once everything has settled.
    **Does not verify**: each in-sync replica (that is `divergence` and `hole`); records of acks=1
    that a later acknowledgement with acks=all covered and nobody read; what others were told while
    the files were copied; what a log cleaner may have removed (`rules.compacted`), which is
    `in-doubt` where nobody knows who wrote a key again; a read that ends inside a batch, for that
    batch; what an unclean election cost of which no evidence shows how far its leader's log went
    (0.10.2 without links): any record counts there; whether an election came before what a test
    says to have been acknowledged, where that does not say when: then each one of the run counts.
    """
    if not evidence.is_final:
        return
    compaction, replicas = Compaction(evidence, side), evidence.in_sync(side)
    losses, doubtful = list[_Loss](), list[Range]()
    for operation in acknowledged(evidence, side):
        if not evidence.is_told_too_late(operation):
            by_cleaner = compaction.of(operation)
            gone = _gone(evidence, side, replicas, operation, by_cleaner)
            doubtful += common(gone, by_cleaner.in_doubt)
            losses += _losses(evidence, operation, without(gone, by_cleaner.in_doubt))
    yield from in_doubt(evidence, -1, doubtful)
    broken = [lost.offsets for lost in losses if lost.kind != "permitted-loss"]
    for kind, reason in dict.fromkeys((lost.kind, lost.reason) for lost in losses):
        alike = [lost for lost in losses if (lost.kind, lost.reason) == (kind, reason)]
        if kind == "permitted-loss":
            # What one operation may lose, another may have been promised: it is one loss.
            alike = [
                replace(lost, offsets=offsets)
                for lost in alike
                for offsets in without([lost.offsets], broken)
            ]
        for first, last in merged(lost.offsets for lost in alike):
            concerned = [
                lost.operation
                for lost in alike
                if first <= lost.offsets[0] and lost.offsets[1] <= last
            ]
            yield _finding(evidence, side, (first, last), concerned, kind, reason)


def _gone(
    evidence: PartitionEvidence,
    side: Side,
    replicas: Sequence[ReplicaEvidence],
    operation: Operation,
    by_cleaner: Cleaned,
) -> list[Range]:
    """Return the offsets at which no in-sync replica has a record that must exist."""
    # Retention may have deleted what lies below the log start of every in-sync replica.
    start = min((evidence.log_start(replica) for replica in replicas), default=0)
    there = [(0, start - 1)] if start else []
    there += by_cleaner.superseded
    for replica in replicas:
        there += held(replica.batches, operation, by_cleaner)
        if operation.is_said and operation.function == "produce":
            there += _partly_said(evidence, side, operation, replica.batches)
    return without([(operation.base_offset, operation.last_offset)], there)


def _losses(
    evidence: PartitionEvidence, operation: Operation, gone: list[Range]
) -> Iterator[_Loss]:
    for offsets, why in _permitted(evidence, operation, gone):
        gone = without(gone, [offsets])
        yield _Loss(offsets=offsets, operation=operation, kind="permitted-loss", reason=why)
    for offsets in gone:
        kind, reason = "committed-loss", _last_disk(evidence, operation, offsets)
        if reason is not None:
            whole = _whole_copies(evidence, operation)
            kind = "last-replica-loss" if whole else "permitted-loss"
            if whole:
                reason += (
                    f"; brokers {', '.join(map(str, whole))} had acknowledged it too, had no "
                    "unclean end, and lost it to nothing but the leader that they followed"
                )
        yield _Loss(offsets=offsets, operation=operation, kind=kind, reason=reason)


def _partly_said(
    evidence: PartitionEvidence, side: Side, operation: Operation, batches: Sequence[BatchEvidence]
) -> Iterator[Range]:
    """Yield offsets of records in batches of whose other records the test says nothing.

    Such a batch counts as the client's, and as a write of which nobody knows all (`rules.foreign`),
    unless another operation has other records there.
    """
    within = (operation.base_offset, operation.last_offset)
    others = [
        (other.base_offset, other.last_offset)
        for other in acknowledged(evidence, side)
        if other.function == "produce" and not other.is_said
    ]
    for batch in inside(batches, within):
        span = (batch.base_offset, batch.last_offset)
        if span[0] < within[0] or span[1] > within[1]:
            yield from without([(max(span[0], within[0]), min(span[1], within[1]))], others)


def _permitted(
    evidence: PartitionEvidence, operation: Operation, gone: Sequence[Range]
) -> Iterator[tuple[Range, str]]:
    """Yield the lost offsets that Kafka may lose, each with the reason."""
    everything = (operation.base_offset, operation.last_offset)
    whys: list[tuple[Range, str]] = []
    if not operation.promised:
        whys.append((everything, "it was acknowledged by the leader alone (acks=1)"))
    for excuse in _later(evidence, operation):
        if excuse.kind == "unclean-election":
            at_risk = (_kept_below(excuse, operation), operation.last_offset)
            whys.append((at_risk, _unclean(excuse)))
        if excuse.kind == "topic-deletion":
            whys.append((everything, "the topic was deleted"))
    for at_risk, why in whys:
        excused = common(gone, [at_risk]) if at_risk[0] <= at_risk[1] else []
        gone = without(gone, excused)
        yield from ((offsets, why) for offsets in excused)


def _unclean(excuse: Excuse) -> str:
    start = excuse.start_offset
    where = "" if start is None else f", when its log had all below offset {start}"
    return (
        f"broker {excuse.broker} was elected from outside the ISR in leader epoch "
        f"{excuse.leader_epoch}{where} (unclean election)"
    )


def _kept_below(excuse: Excuse, operation: Operation) -> int:
    """Return the offset below which the elected leader had the records; 0 if unknown.

    It had them if it had all records of their leader epoch up to there. It had them too if it was
    in the ISR when they were promised and its log ended behind them: what it lost of them since, it
    lost to something else.
    """
    ends = dict(excuse.kept)
    below = min((ends.get(epoch, 0) for epoch in operation.leader_epochs), default=0)
    if excuse.start_offset is not None and excuse.broker in operation.isr_when_ended:
        return max(below, excuse.start_offset)
    return below


def _later(evidence: PartitionEvidence, operation: Operation) -> list[Excuse]:
    """Return the excuses that came after the operation had ended."""
    return [excuse for excuse in evidence.excuses if excuse.time >= _ended(operation)]


def _ended(operation: Operation) -> float:
    return operation.ended_at if operation.ended_at is not None else operation.invoked_at


def _last_disk(evidence: PartitionEvidence, operation: Operation, offsets: Range) -> str | None:
    """Return the excuse that faults removed the record from every in-sync disk, or None."""
    later = _later(evidence, operation)
    for isr in _last_keepers(later, operation):
        if isr and all(_took(later, broker, offsets) for broker in isr):
            brokers = ", ".join(str(broker) for broker in isr)
            return f"the disks of all that were in sync ({brokers}) lost that tail to a fault"
    return None


def _whole_copies(evidence: PartitionEvidence, operation: Operation) -> Sequence[int]:
    """Return the brokers that acknowledged and kept the record; none after unclean ends.

    min.insync.replicas - 1 unclean ends are what acks=all is to survive. An unclean end counts
    whether it cost the disk anything or not, for no controller can know that. Whose replica was
    moved away before a disk lost the record had its copy deleted, whether it came back or not.
    """
    later = _later(evidence, operation)
    lost_at = max((excuse.time for excuse in later if excuse.kind == "lost-tail"), default=-inf)
    moved = {broker for broker, time in evidence.moved_away if _ended(operation) <= time < lost_at}
    at_risk = {excuse.broker for excuse in later if excuse.kind == "lost-tail"}
    at_risk |= {broker for broker, time in evidence.unclean_stops if time >= _ended(operation)}
    at_risk &= {replica.broker for replica in evidence.replicas}
    least = evidence.min_insync_replicas
    if len(operation.isr_when_ended) < least or len(at_risk) >= least:
        return ()
    back = set(operation.isr_when_ended).intersection(evidence.isr)
    return sorted(back - at_risk - moved)


def _last_keepers(later: Sequence[Excuse], operation: Operation) -> Iterator[Sequence[int]]:
    """Yield the ISRs that had to keep the record: at its promise, and at each lost tail.

    Whoever had left the ISR before that may come back with less; the promise was with the rest.
    """
    yield operation.isr_when_ended
    for excuse in later:
        if excuse.kind == "lost-tail":
            yield excuse.isr


def _took(excuses: Sequence[Excuse], broker: int, offsets: Range) -> bool:
    return any(
        excuse.kind == "lost-tail"
        and excuse.broker == broker
        and excuse.first_lost_offset <= offsets[0]
        for excuse in excuses
    )


def _finding(
    evidence: PartitionEvidence,
    side: Side,
    offsets: Range,
    operations: Sequence[Operation],
    kind: str,
    reason: str | None,
) -> Finding:
    first, last = offsets
    replicas = evidence.in_sync(side)
    how = (
        "read" if all(operation.function == "read" for operation in operations) else "acknowledged"
    )
    what = f"the {how} records at {in_words(first, last)} are in no in-sync replica"
    probes = {each.base_offset for each in evidence.operations if each.is_probe}
    told = dict.fromkeys(operation.client for operation in operations if operation.client)
    if told:
        what += f" ({how} to {_listed([*told])})"
    return evidence.finding(
        kind,
        brokers=tuple(sorted(replica.broker for replica in replicas)),
        first_offset=first,
        last_offset=last,
        message=what if reason is None else f"{what}: {reason}",
        evidence={
            "reason": reason,
            "operations": [
                {
                    "operation": operation.operation,
                    **({"client": operation.client} if operation.client else {}),
                    "function": operation.function,
                    "broker": operation.broker,
                    "acks": operation.acks,
                    "base_offset": operation.base_offset,
                    "last_offset": operation.last_offset,
                }
                for operation in operations
            ],
            "held_instead": {
                str(replica.broker): [
                    header | {"is_probe": True} if header["base_offset"] in probes else header
                    for header in headers(replica.batches, offsets)
                ]
                for replica in replicas
            },
        },
    )


def _listed(names: Sequence[str], most: int = 3) -> str:
    said = "; ".join(names[:most])
    return said if len(names) <= most else f"{said} and {len(names) - most} more"
