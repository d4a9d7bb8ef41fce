"""Records that a log cleaner may have removed: those whose key was written again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Work of log cleaners that may have changed the records of one operation.

    Attributes:
        removable: Offsets of its records of which a later one with the same key lies below the
            offset up to which a cleaner went.
        superseded: Those of them whose later record some in-sync replica has: they are not lost.
            What was removed because of a record that is gone too is.
    """

    removable: tuple[Range, ...] = ()
    superseded: tuple[Range, ...] = ()


NOT_CLEANED = Cleaned()


def cleaned(evidence: PartitionEvidence, side: Side) -> Mapping[str, Cleaned]:
    """By operation what log cleaners may have done; empty where none was seen at work."""
    if not evidence.cleaned_until:
        return {}
    operations = [operation for operation in acknowledged(evidence, side) if operation.keys]
    written: dict[str, list[int]] = {}
    for operation in operations:
        for offset, key in enumerate(operation.keys, start=operation.base_offset):
            if offset < evidence.cleaned_until:
                written.setdefault(key, []).append(offset)

    def with_later(operation: Operation, there: Iterable[Range]) -> tuple[Range, ...]:
        at = [*there]
        return tuple(
            merged(
                (offset, offset)
                for offset, key in enumerate(operation.keys, start=operation.base_offset)
                if any(later > offset and is_in(later, at) for later in written.get(key, ()))
            )
        )

    removable = {
        operation.operation: with_later(operation, [(0, evidence.cleaned_until)])
        for operation in operations
    }
    kept = [
        span
        for operation in operations
        for replica in evidence.in_sync(side)
        for span in held(replica.batches, operation, removable[operation.operation])
    ]
    return {
        operation.operation: Cleaned(
            removable=removable[operation.operation], superseded=with_later(operation, merged(kept))
        )
        for operation in operations
    }


def acknowledged(evidence: PartitionEvidence, side: Side) -> Iterator[Operation]:
    """The operations that were acknowledged; for the predicted side, that should have been."""
    predicted = {produce.operation: produce for produce in evidence.predicted_produces}
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
    """The offsets of these ranges at which the batches have what is lost if it is gone."""
    by_operation = cleaned(evidence, side)
    excused = [
        span
        for operation in (acknowledged(evidence, side) if by_operation else ())
        if operation.operation in by_operation
        for span in common(held(batches, operation), by_operation[operation.operation].superseded)
    ]
    return without(ranges, excused)


def but_for_cleaning(
    evidence: PartitionEvidence,
    side: Side,
    ranges: Sequence[Range],
    replicas: Iterable[ReplicaEvidence],
) -> list[Range]:
    """The offsets of these ranges at which not all replicas have what is left of one operation."""
    by_operation = cleaned(evidence, side) if ranges else {}
    alike: list[Range] = []
    for operation in acknowledged(evidence, side) if by_operation else ():
        by_cleaner = by_operation.get(operation.operation, NOT_CLEANED)
        shared: list[Range] = [(operation.base_offset, operation.last_offset)]
        for replica in replicas:
            there = held(replica.batches, operation, by_cleaner.removable)
            shared = common(shared, [*there, *by_cleaner.superseded])
        alike += shared
    return without(ranges, alike)


def held(
    batches: Sequence[BatchEvidence], operation: Operation, removable: Sequence[Range] = ()
) -> Iterator[Range]:
    """Yields the operation's offsets at which the batches hold its records.

    Of a batch that has all of its records but the removable ones, those offsets alone.
    """
    within = (operation.base_offset, operation.last_offset)
    for batch in inside(batches, within):
        span = (batch.base_offset, batch.last_offset)
        if span[0] < within[0] or span[1] > within[1]:
            # No produce of one batch lies inside another batch; a read may end anywhere.
            if operation.function == "read":
                yield max(span[0], within[0]), min(span[1], within[1])
            continue
        left = without([span], removable)
        if batch.payload == _joined(operation, [span]):
            yield span
        elif left != [span] and batch.payload == _joined(operation, left):
            yield from left


def is_in(offset: int, ranges: Iterable[Range]) -> bool:
    """Whether one of the ranges has the offset."""
    return any(first <= offset <= last for first, last in ranges)


def _joined(operation: Operation, ranges: Iterable[Range]) -> str:
    return join_payload_digests(
        (payload, 1)
        for first, last in ranges
        for payload in operation.payloads[first - operation.base_offset :][: last - first + 1]
    )
