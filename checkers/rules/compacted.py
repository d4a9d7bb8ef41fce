"""What a log cleaner may have removed, as clients know it: records whose key was written again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import (
    PREDICTED,
    BatchEvidence,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
)
from kchaos.checkers.rules.offsets import Range, common, inside, merged, without
from kchaos.checkers.segments.batch import join_payload_digests

_IsSuperseded = Callable[[Operation, int], bool]


def superseded(evidence: PartitionEvidence, side: Side) -> dict[str, list[Range]]:
    """By operation the offsets of those of its records that a log cleaner may have removed.

    Of each there is a later record with the same key, below the offset up to which a cleaner went,
    and an in-sync replica has that later one: what was removed because of a record that is gone too
    is lost.
    """
    if not evidence.cleaned_until:
        return {}
    operations = [*acknowledged(evidence, side)]
    latest: dict[str, list[tuple[int, Operation]]] = {}
    for one in operations:
        for index, key in enumerate(one.keys):
            if one.base_offset + index < evidence.cleaned_until:
                latest.setdefault(key, []).append((one.base_offset + index, one))

    def comes_again(operation: Operation, offset: int) -> bool:
        return any(later > offset for later, _ in latest.get(_key(operation, offset), ()))

    kept = {
        one.operation: [
            found
            for replica in evidence.in_sync(side)
            for found in held(replica.batches, one, comes_again)
        ]
        for one in operations
    }

    def is_superseded(operation: Operation, offset: int) -> bool:
        return any(
            later > offset and common([(later, later)], kept[one.operation])
            for later, one in latest.get(_key(operation, offset), ())
        )

    return {
        one.operation: merged(
            (offset, offset)
            for offset in range(one.base_offset, one.last_offset + 1)
            if is_superseded(one, offset)
        )
        for one in operations
        if one.keys
    }


def acknowledged(evidence: PartitionEvidence, side: Side) -> Iterator[Operation]:
    """The operations that were acknowledged; for the predicted side, that should have been."""
    predicted = {one.operation: one for one in evidence.predicted_produces}
    for operation in evidence.operations:
        if side == PREDICTED and operation.function == "produce":
            expected = predicted.get(operation.operation)
            if expected is not None and expected.acknowledged and expected.base_offset >= 0:
                yield replace(
                    operation,
                    base_offset=expected.base_offset,
                    promised=operation.acks == -1,
                )
        elif operation.outcome == "ok" and operation.base_offset >= 0 and operation.payloads:
            yield operation


def without_superseded(
    evidence: PartitionEvidence,
    side: Side,
    ranges: Iterable[Range],
    batches: Sequence[BatchEvidence],
) -> list[Range]:
    """The offsets of these ranges at which the batches have what no log cleaner may remove."""
    gone = superseded(evidence, side)
    excused = [
        found
        for one in acknowledged(evidence, side)
        if one.operation in gone
        for found in common(held(batches, one), gone[one.operation])
    ]
    return without(ranges, excused)


def but_for_cleaning(
    evidence: PartitionEvidence,
    side: Side,
    ranges: Sequence[Range],
    replicas: Iterable[ReplicaEvidence],
) -> list[Range]:
    """The offsets of these ranges at which not all replicas have what is left of one operation."""
    gone = superseded(evidence, side)
    alike: list[Range] = []
    for one in acknowledged(evidence, side) if ranges and gone else ():
        cleaned = gone.get(one.operation, [])
        found: list[Range] = [(one.base_offset, one.last_offset)]
        for replica in replicas:
            there = held(replica.batches, one, lambda _, offset, at=cleaned: is_in(offset, at))
            found = common(found, [*there, *cleaned])
        alike += found
    return without(ranges, alike)


def is_in(offset: int, ranges: Iterable[Range]) -> bool:
    """Whether one of the ranges has the offset."""
    return any(first <= offset <= last for first, last in ranges)


def held(
    batches: Sequence[BatchEvidence],
    operation: Operation,
    may_be_gone: _IsSuperseded = lambda _operation, _offset: False,
) -> Iterator[Range]:
    """Yields the operation's offsets at which the batches hold its records.

    Of a batch that lacks all records that may be gone, and no other, only those that are there.
    """
    within = (operation.base_offset, operation.last_offset)
    for batch in inside(batches, within):
        span = (batch.base_offset, batch.last_offset)
        if span[0] < within[0] or span[1] > within[1]:
            # No produce of one batch lies inside another batch; a read may end anywhere.
            if operation.function == "read":
                yield max(span[0], within[0]), min(span[1], within[1])
            continue
        offsets = range(span[0], span[1] + 1)
        left = [one for one in offsets if not may_be_gone(operation, one)]
        if batch.payload == _joined(operation, offsets):
            yield span
        elif len(left) < len(offsets) and batch.payload == _joined(operation, left):
            yield from ((one, one) for one in left)


def _joined(operation: Operation, offsets: Iterable[int]) -> str:
    return join_payload_digests(
        (operation.payloads[one - operation.base_offset], 1) for one in offsets
    )


def _key(operation: Operation, offset: int) -> str:
    return operation.keys[offset - operation.base_offset] if operation.keys else ""
