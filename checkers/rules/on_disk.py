"""Contradictions within one replica's files."""

from collections.abc import Iterator

from kchaos.checkers.evidence.partition import BatchEvidence, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.checkpoints import EpochEntry
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.epochs import epoch_findings


def as_read(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield the segment reader's findings: `corrupt-batch`, and harmless tails.

    **Verifies**, **Does not verify**: as `checkers.segments.reader.read_segment` does.
    """
    for replica in evidence.side(side):
        yield from replica.findings


def checkpoints_readable(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each unreadable checkpoint file of a broker.

    **Verifies**: the form of the checkpoints of high watermarks, log starts and recovery points.
    **Does not verify**: the recovery points themselves, which say what was flushed and nothing of
    what is there.
    """
    for replica in evidence.side(side):
        for problem in replica.broken_checkpoints:
            yield evidence.finding(
                "corrupt-checkpoint",
                brokers=(replica.broker,),
                message=f"broker {replica.broker}: {problem}",
                evidence={"problem": problem},
            )


def epoch_cache_mismatch(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield where a leader epoch cache contradicts its log's batches, at every snapshot.

    **Verifies**, **Does not verify**: as `checkers.segments.epochs.epoch_findings` does.
    """
    for replica in evidence.side(side):
        entries = [
            EpochEntry(leader_epoch=epoch, start_offset=start)
            for epoch, start in replica.epoch_entries or ()
        ]
        for finding in epoch_findings(entries, [_batch(batch) for batch in replica.batches]):
            yield evidence.finding(
                finding.kind,
                brokers=(replica.broker,),
                first_offset=finding.first_offset,
                last_offset=finding.last_offset,
                message=f"broker {replica.broker}: {finding.message}",
                evidence=finding.evidence,
            )


def _batch(batch: BatchEvidence) -> Batch:
    """Return the segment reader's value, with fields that the comparison ignores left at 0."""
    return Batch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        magic=batch.magic,
        codec=batch.codec or "none",
        crc=batch.crc or 0,
        record_count=batch.record_count,
        is_control=False,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=-1,
        position=-1 if batch.position is None else batch.position,
        size_bytes=batch.size_bytes or 0,
        payload=batch.payload,
        file=batch.file or "",
    )
