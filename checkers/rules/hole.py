"""Offsets that are missing inside an in-sync replica."""

from collections.abc import Iterator

from kchaos.checkers.evidence.partition import PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compacted import Compaction, in_doubt
from kchaos.checkers.rules.offsets import common, covered, headers, in_words, merged, without


def hole(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield one finding for each maximal range that a replica lacks and another in-sync one has.

    **Verifies**: that between its log start and its last batch an in-sync replica lacks nothing
    that another one holds, once everything has settled.
    **Does not verify**: offsets that no replica has (compaction and aborted appends leave such);
    records that a log cleaner may remove, since replicas clean at different times
    (`rules.compacted`); what is missing behind the last batch, which is `missing-tail`.
    """
    if not evidence.is_final:
        return
    replicas = evidence.in_sync(side)
    compaction = Compaction(evidence, side)
    for replica in replicas:
        if not replica.batches:
            continue
        span = (evidence.log_start(replica), replica.batches[-1].last_offset)
        missing = without([span], covered(replica.batches))
        pairs = [
            compaction.differences(common(missing, covered(other.batches)), (replica, other))
            for other in replicas
            if other is not replica
        ]
        held = [offsets for certain, _ in pairs for offsets in certain]
        yield from in_doubt(
            evidence, replica.broker, [each for _, open_ in pairs for each in open_]
        )
        for first, last in merged(held):
            yield evidence.finding(
                "hole",
                brokers=(replica.broker,),
                first_offset=first,
                last_offset=last,
                message=f"broker {replica.broker} is in sync and has no {in_words(first, last)}, "
                "which another in-sync replica holds",
                evidence={
                    "around": headers(replica.batches, (first - 1, last + 1)),
                    "held": {
                        str(other.broker): headers(other.batches, (first, last))
                        for other in replicas
                        if other is not replica
                    },
                },
            )
