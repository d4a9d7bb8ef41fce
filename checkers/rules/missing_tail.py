"""An in-sync replica that ends too early."""

from collections.abc import Iterator, Sequence

from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, ReplicaEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compacted import Compaction, held, in_doubt
from kchaos.checkers.rules.foreign import is_foreign


def missing_tail(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each in-sync replica that ends before the committed offset.

    That is the leader's high watermark: observed, what it has checkpointed, which may lag by the
    checkpoint's interval; predicted, the lowest that it may be. And it is each record that some
    in-sync replica holds and that was acknowledged with acks=all while this replica was in the ISR.

    Where others write too, they may go on while disks are copied, one after the other: there what
    lies behind the last record that was acknowledged before is nobody's proof.

    **Verifies**: the end of every in-sync replica, once everything has settled.
    **Does not verify**: what no in-sync replica holds (that is `loss`); without a leader, or
    without its checkpoint, what was acknowledged while this replica was not in the ISR.
    """
    if not evidence.is_final:
        return
    replicas = evidence.in_sync(side)
    high_watermark = min(
        (
            value
            for replica in replicas
            if replica.broker == evidence.leader
            for value in replica.high_watermarks
        ),
        default=0,
    )
    if side == OBSERVED and (is_foreign(evidence) or _is_written_meanwhile(evidence)):
        high_watermark = min(high_watermark, _own_end(evidence))
    compaction = Compaction(evidence, side)
    for replica in replicas:
        last = (
            replica.batches[-1].last_offset if replica.batches else evidence.log_start(replica) - 1
        )
        others = [other for other in replicas if other is not replica]
        promised = _promised_end(evidence, compaction, replica.broker, others)
        why = f"the leader's high watermark is {high_watermark}"
        if promised > high_watermark:
            why = f"it was in the ISR when offset {promised - 1} was acknowledged with acks=all"
        missing = [(last + 1, max(high_watermark, promised) - 1)]
        certain, doubtful = compaction.differences(
            missing if missing[0][0] <= missing[0][1] else (), (replica, *others[:1])
        )
        yield from in_doubt(evidence, replica.broker, doubtful)
        if certain:
            yield evidence.finding(
                "missing-tail",
                brokers=(replica.broker,),
                first_offset=certain[0][0],
                last_offset=certain[-1][1],
                message=f"broker {replica.broker} is in sync and ends at offset {last}; {why}",
                evidence={
                    "leader": evidence.leader,
                    "high_watermark": high_watermark,
                    "promised_end": promised,
                },
            )


def _promised_end(
    evidence: PartitionEvidence,
    compaction: Compaction,
    broker: int,
    others: Sequence[ReplicaEvidence],
) -> int:
    """Return the offset after the last record acknowledged with acks=all by this broker, or 0.

    A record that no other in-sync replica holds is left out.
    """
    end = 0
    for operation in sorted(compaction.operations, key=lambda each: -each.last_offset):
        if operation.last_offset < end:
            break
        if (
            operation.function == "produce"
            and operation.promised
            and broker in operation.isr_when_ended
            and not evidence.is_told_too_late(operation)
        ):
            for replica in others:
                for _, last in held(replica.batches, operation, compaction.of(operation)):
                    end = max(end, last + 1)
    return end


def _own_end(evidence: PartitionEvidence) -> int:
    """Return the offset after the last record acknowledged before the disks were copied."""
    writes = [
        operation
        for operation in evidence.operations
        if operation.function == "produce" and not evidence.is_told_too_late(operation)
    ]
    return max((write.last_offset + 1 for write in writes if write.base_offset >= 0), default=0)


def _is_written_meanwhile(evidence: PartitionEvidence) -> bool:
    return any(
        operation.function == "produce" and evidence.is_told_too_late(operation)
        for operation in evidence.operations
    )
