"""In-sync replicas that hold different batches at the same offsets."""

from collections.abc import Iterator

from kchaos.checkers.evidence.partition import PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compacted import Compaction, in_doubt
from kchaos.checkers.rules.compare import differing_ranges
from kchaos.checkers.rules.offsets import headers, in_words


def divergence(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield one finding for each maximal range in which a replica differs from the leader.

    Without a leader among them, the in-sync replica with the lowest id is the measure.

    **Verifies**: offsets, leader epoch, magic, checksum and payload of every batch that two
    in-sync replicas have at the same offset, once everything has settled.
    What a log cleaner may have removed of a batch on one of them is no difference.
    **Does not verify**: replicas outside the ISR, which may differ until they have truncated
    (if they never do, that is `replication-stopped`); snapshots before the last one, in which an
    in-sync follower may lag and hold what it will truncate; timestamps and headers of records
    between two message formats.
    """
    replicas = evidence.in_sync(side)
    if not evidence.is_final or not replicas:
        return
    compaction = Compaction(evidence, side)
    measure, *others = replicas
    for other in others:
        differing = differing_ranges(measure.batches, other.batches)
        certain, doubtful = compaction.differences(differing, (measure, other))
        yield from in_doubt(evidence, other.broker, doubtful)
        for first, last in certain:
            brokers = tuple(sorted((measure.broker, other.broker)))
            yield evidence.finding(
                "divergence",
                brokers=brokers,
                first_offset=first,
                last_offset=last,
                message=f"brokers {brokers[0]} and {brokers[1]} are in sync and hold different "
                f"records at {in_words(first, last)}",
                evidence={
                    str(replica.broker): headers(replica.batches, (first, last))
                    for replica in (measure, other)
                },
            )
