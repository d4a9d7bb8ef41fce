"""A replica's leader epoch cache against its own batches.

No CRC covers a batch's leader epoch, so this comparison is the only check of it in one replica.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence

from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.checkpoints import EpochEntry
from kchaos.checkers.segments.batch import Batch


def epoch_findings(entries: Sequence[EpochEntry], batches: Sequence[Batch]) -> list[Finding]:
    """Return one "epoch-cache-mismatch" per run of batches that the cache contradicts.

    The cache says that an offset belongs to the last entry that starts at or below it. Kafka
    assigns a batch's epoch, at its base offset, before it writes the batch
    (LeaderEpochFileCache.assign, 0.11 and later), and cuts both at once.

    **Verifies**: that entries ascend, in epoch strictly, in start offset at least weakly (releases
    up to 2.0.0 accept a new epoch at the same start; later ones remove the older entry); that every
    magic 2 batch has, at its first and at its last offset, the epoch that the cache says.
    **Does not verify**: batches below the first entry's start: the cache begins with the log start,
    and after an unclean stop it may lack epoch 0 (KAFKA-10432, repaired in 2.6.1 and 2.7.0);
    batches of magic 0 and 1, which have no epoch; entries that no batch belongs to. Those are
    right: from 2.0.1 a leader writes its entry when it is elected, before it has a batch
    (KAFKA-7415); a truncation at or above the log end left the cache as it was (until KAFKA-10706,
    2.6.1 and 2.7.0); and a hole in the log leaves the entry of what is missing.
    """
    findings = _order_findings(entries)
    if not entries or findings:
        return findings
    starts = [entry.start_offset for entry in entries]
    contradicted: list[tuple[Batch, int]] = []
    for batch in batches:
        if batch.magic < 2 or batch.base_offset < starts[0]:
            continue
        first = entries[bisect_right(starts, batch.base_offset) - 1].leader_epoch
        last = entries[bisect_right(starts, batch.last_offset) - 1].leader_epoch
        if not first == last == batch.leader_epoch:
            contradicted.append((batch, last if first == batch.leader_epoch else first))
    groups = itertools.groupby(contradicted, key=lambda pair: (pair[0].leader_epoch, pair[1]))
    return [
        _mismatch([batch for batch, _ in pairs], entries, stated=key[1]) for key, pairs in groups
    ]


def _order_findings(entries: Sequence[EpochEntry]) -> list[Finding]:
    for earlier, later in itertools.pairwise(entries):
        ascending = earlier.leader_epoch < later.leader_epoch
        if not ascending or earlier.start_offset > later.start_offset:
            return [
                Finding(
                    kind="epoch-cache-mismatch",
                    first_offset=later.start_offset,
                    message=f"the leader epoch cache is out of order: epoch {later.leader_epoch} at"
                    f" {later.start_offset} follows epoch {earlier.leader_epoch} at"
                    f" {earlier.start_offset}",
                    evidence={"entries": _as_pairs(entries)},
                )
            ]
    return []


def _mismatch(batches: Sequence[Batch], entries: Sequence[EpochEntry], stated: int) -> Finding:
    first, last = batches[0], batches[-1]
    return Finding(
        kind="epoch-cache-mismatch",
        first_offset=first.base_offset,
        last_offset=last.last_offset,
        message=f"{first.file}: the batch at offset {first.base_offset} has leader epoch"
        f" {first.leader_epoch}, and the leader epoch cache says {stated}"
        + (f" (the same for {len(batches) - 1} more batches)" if len(batches) > 1 else ""),
        evidence={
            "file": first.file,
            "position": first.position,
            "batch_leader_epoch": first.leader_epoch,
            "cache_leader_epoch": stated,
            "batch_count": len(batches),
            "entries": _as_pairs(entries),
        },
    )


def _as_pairs(entries: Sequence[EpochEntry]) -> list[list[int]]:
    return [[entry.leader_epoch, entry.start_offset] for entry in entries]
