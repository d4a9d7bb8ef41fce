"""High watermarks, and logs below them, that went backwards between two snapshots."""

import math
from collections.abc import Iterator

from kchaos.checkers.evidence.partition import (
    BatchEvidence,
    EarlierReplica,
    Excuse,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
)
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compacted import Compaction, in_doubt
from kchaos.checkers.rules.offsets import in_words, merged


def high_watermark_regression(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each replica whose high watermark fell within one leader epoch.

    **Verifies**: the checkpoints of two snapshots that follow each other in the same leader epoch,
    unless an excuse (see below) covers the fall; predicted, only what falls whichever value it had.
    **Does not verify**: anything in memory; what fell and rose again between the snapshots.
    """
    for before, now in _pairs(evidence, side):
        if before.leader_epoch != evidence.leader_epoch:
            continue
        if not before.high_watermarks or not now.high_watermarks:
            continue
        earlier, later = min(before.high_watermarks), max(now.high_watermarks)
        if later < earlier and later < _excused_from(evidence, before):
            yield evidence.finding(
                "high-watermark-regression",
                brokers=(now.broker,),
                first_offset=later,
                last_offset=earlier - 1,
                message=f"broker {now.broker}'s high watermark fell from {earlier} to {later} in "
                f"leader epoch {evidence.leader_epoch}",
                evidence={"before": before.snapshot, "leader_epoch": evidence.leader_epoch},
            )


def truncated_below_high_watermark(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each range below a high watermark that a replica truncated.

    **Verifies**: that each batch which a replica had below its own checkpointed high watermark is
    there one snapshot later, unless its log start passed it; and so each that its present leader
    has, below what that one's high watermark was then. After an unclean election may be cut what
    its leader did not have, and after a disk lost its tail, whatever lay in that tail: on other
    replicas too, since they follow the one that lost it. A log cleaner may remove more.
    **Does not verify**: what was cut and fetched again between two snapshots, byte for byte.
    """
    compaction = Compaction(evidence, side)
    committed, of_leader = _committed_by_leader(evidence, side)
    for before, now in _pairs(evidence, side):
        if not before.high_watermarks:
            continue
        own = min(before.high_watermarks)
        excused_from = _excused_from(evidence, before)
        still = {_identity(batch) for batch in now.batches}
        cut = [
            batch
            for batch in before.batches
            if (batch.last_offset < own or _identity(batch) in committed)
            and evidence.log_start(now) <= batch.base_offset < excused_from
            and _identity(batch) not in still
        ]
        high_watermark = max(own, of_leader)
        ranges = merged((batch.base_offset, batch.last_offset) for batch in cut)
        certain, doubtful = compaction.differences(ranges, (before, now))
        yield from in_doubt(evidence, now.broker, doubtful)
        for first, last in certain:
            yield evidence.finding(
                "truncated-below-high-watermark",
                brokers=(now.broker,),
                first_offset=first,
                last_offset=last,
                message=f"broker {now.broker} had {in_words(first, last)} below the high "
                f"watermark {high_watermark}, and no longer has them",
                evidence={
                    "before": before.snapshot,
                    "high_watermark": high_watermark,
                    "batches": [batch.header() for batch in cut[:20]],
                },
            )


def _committed_by_leader(
    evidence: PartitionEvidence, side: Side
) -> tuple[set[tuple[object, ...]], int]:
    """Return the current leader's records below its high watermark one snapshot earlier.

    Returns:
        The batches' identities, and that high watermark, -1 where it is not known.
    """
    for before, now in _pairs(evidence, side):
        if now.broker == evidence.leader and before.high_watermarks:
            high_watermark = min(before.high_watermarks)
            kept = [batch for batch in now.batches if batch.last_offset < high_watermark]
            return {_identity(batch) for batch in kept}, high_watermark
    return set(), -1


def _pairs(
    evidence: PartitionEvidence, side: Side
) -> Iterator[tuple[EarlierReplica, ReplicaEvidence]]:
    """Yield each replica in both snapshots, unless a reassignment took it from its broker.

    What the broker has after it was moved away is another replica. Its log goes some time later.
    """
    replicas = {replica.broker: replica for replica in evidence.side(side)}
    for before in evidence.earlier:
        if before.side == side and before.broker in replicas:
            now = replicas[before.broker]
            since = before.time if now.batches else -math.inf
            if not any(
                broker == now.broker and since <= time <= evidence.snapshot_time
                for broker, time in evidence.moved_away
            ):
                yield before, now


def _excused_from(evidence: PartitionEvidence, before: EarlierReplica) -> float:
    """Return a replica's lowest offset that a fault or an unclean election put at risk."""
    return min(
        (
            excuse.first_lost_offset if excuse.kind == "lost-tail" else _at_risk(excuse, before)
            for excuse in evidence.excuses
            if excuse.time <= evidence.snapshot_time
        ),
        default=math.inf,
    )


def _at_risk(excuse: Excuse, before: EarlierReplica) -> float:
    """Return the lowest known offset of a batch that an elected leader lacked."""
    if excuse.kind != "unclean-election" or not before.batches:
        return 0
    ends = dict(excuse.kept)
    return min(
        (
            batch.base_offset
            for batch in before.batches
            if batch.leader_epoch < excuse.leader_epoch
            and batch.last_offset >= ends.get(batch.leader_epoch, 0)
        ),
        default=math.inf,
    )


def _identity(batch: BatchEvidence) -> tuple[object, ...]:
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.payload, batch.crc
