"""An in-sync replica that ends too early."""

from collections.abc import Iterator

from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.foreign import is_foreign


def missing_tail(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yields a finding for each in-sync replica that ends before the leader's high watermark.

    Observed, the leader's high watermark is what it has checkpointed, which may lag; predicted,
    the lowest that it may be.

    Where others write too, they may go on while disks are copied, one after the other: there what
    lies behind the last record that was acknowledged before is nobody's proof.

    **Verifies**: the end of every in-sync replica, once everything has settled.
    **Does not verify**: anything without a leader or without its checkpoint.
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
        default=None,
    )
    if high_watermark is None:
        return
    if side == OBSERVED and (is_foreign(evidence) or _is_written_meanwhile(evidence)):
        high_watermark = min(high_watermark, _own_end(evidence))
    for replica in replicas:
        last = (
            replica.batches[-1].last_offset if replica.batches else evidence.log_start(replica) - 1
        )
        if last + 1 < high_watermark:
            yield evidence.finding(
                "missing-tail",
                brokers=(replica.broker,),
                first_offset=last + 1,
                last_offset=high_watermark - 1,
                message=f"broker {replica.broker} is in sync and ends at offset {last}; the "
                f"leader's high watermark is {high_watermark}",
                evidence={"leader": evidence.leader, "high_watermark": high_watermark},
            )


def _own_end(evidence: PartitionEvidence) -> int:
    """Behind the last record that was acknowledged before the disks were copied."""
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
