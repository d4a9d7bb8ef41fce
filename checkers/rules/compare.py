"""Comparison of two logs of one partition: the ranges of offsets in which they differ."""

from collections.abc import Sequence

from kchaos.checkers.evidence.partition import BatchEvidence
from kchaos.checkers.rules.offsets import Range, merged
from kchaos.checkers.segments.batch import join_payload_digests


def differing_ranges(first: Sequence[BatchEvidence], other: Sequence[BatchEvidence]) -> list[Range]:
    """Return the maximal ranges of offsets that both logs have with different content.

    A follower appends what it fetched byte for byte (ReplicaFetcherThread.processPartitionData),
    so two batches are the same if first and last offset, leader epoch, magic and checksum (or,
    where one side has none, the payload) are. Between two message formats a leader converts what
    it sends (KIP-31, KIP-98): there, the same payload over the same offsets is the same.

    Both logs must be in offset order.
    """
    differing: list[Range] = []
    i = j = 0
    while i < len(first) and j < len(other):
        if first[i].last_offset < other[j].base_offset:
            i += 1
        elif other[j].last_offset < first[i].base_offset:
            j += 1
        else:
            end_i, end_j = _overlapping(first, other, i, j)
            mine, theirs = first[i:end_i], other[j:end_j]
            if not _same(mine, theirs):
                differing += _shared(mine, theirs)
            i, j = end_i, end_j
    return merged(differing)


def _overlapping(
    first: Sequence[BatchEvidence], other: Sequence[BatchEvidence], i: int, j: int
) -> tuple[int, int]:
    """Return the ends of the two shortest stretches, from i and j on, with a common edge."""
    end_i, end_j = i + 1, j + 1
    while True:
        last_i, last_j = first[end_i - 1].last_offset, other[end_j - 1].last_offset
        if last_i < last_j and end_i < len(first) and first[end_i].base_offset <= last_j:
            end_i += 1
        elif last_j < last_i and end_j < len(other) and other[end_j].base_offset <= last_i:
            end_j += 1
        else:
            return end_i, end_j


def _same(mine: Sequence[BatchEvidence], theirs: Sequence[BatchEvidence]) -> bool:
    if len(mine) == len(theirs) == 1 and mine[0].magic == theirs[0].magic:
        return _is_same_batch(mine[0], theirs[0])
    if {batch.magic for batch in mine} == {batch.magic for batch in theirs}:
        return False
    return (
        mine[0].base_offset == theirs[0].base_offset
        and mine[-1].last_offset == theirs[-1].last_offset
        and _payload(mine) is not None
        and _payload(mine) == _payload(theirs)
    )


def _is_same_batch(mine: BatchEvidence, theirs: BatchEvidence) -> bool:
    if (mine.base_offset, mine.last_offset, mine.leader_epoch) != (
        theirs.base_offset,
        theirs.last_offset,
        theirs.leader_epoch,
    ):
        return False
    if mine.crc is not None and theirs.crc is not None and mine.crc != theirs.crc:
        return False
    return mine.payload is None or theirs.payload is None or mine.payload == theirs.payload


def _payload(batches: Sequence[BatchEvidence]) -> str | None:
    parts = [(batch.payload, batch.record_count) for batch in batches if batch.payload is not None]
    return join_payload_digests(parts) if len(parts) == len(batches) else None


def _shared(mine: Sequence[BatchEvidence], theirs: Sequence[BatchEvidence]) -> list[Range]:
    return [
        (max(a.base_offset, b.base_offset), min(a.last_offset, b.last_offset))
        for a in mine
        for b in theirs
        if a.base_offset <= b.last_offset and b.base_offset <= a.last_offset
    ]
