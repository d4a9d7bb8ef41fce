"""Compacted logs: records that log cleaners may have removed, and those that must be left.

Kafka promises the last record of each key. A cleaner removes a record that has a later one of its
key, the last one of a key if that has no value, delete.retention.ms after it was written, and what
belongs to an aborted transaction (kafka.log.Cleaner; org.apache.kafka.storage.internals.log.Cleaner
from 4.0 on). Markers of transactions go too, and a batch without records may stay to keep its
producer's state. Each replica is cleaned by its own broker, when that likes to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import (
    OBSERVED,
    PREDICTED,
    BatchEvidence,
    EarlierReplica,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
)
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.rules.foreign import is_foreign
from kchaos.checkers.rules.offsets import Range, common, covered, in_words, inside, merged, without
from kchaos.checkers.segments.batch import join_payload_digests

IN_DOUBT = "in-doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Work of log cleaners that may have changed the records of one operation.

    Attributes:
        removable: Offsets of its records with a later one of the same key where cleaners went, in
            the order in which they are removed: a later record may go only with those before.
        expired: Offsets of its records that may go without a later one.
        superseded: Offsets of both whose later record, if they need one, some in-sync replica has:
            they are not lost. What was removed because of a record that is gone too is.
        in_doubt: Offsets whose key may have been written again, by whom nobody knows.
    """

    removable: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()
    superseded: tuple[Range, ...] = ()
    in_doubt: tuple[Range, ...] = ()

    def left(self, span: Range, record_count: int) -> Iterator[list[Range]]:
        """Yield each choice of a batch's offsets that cleaners may have kept, given their number.

        As many as the span has stand for an unknown number, which predicted batches have.
        """
        gone = span[1] - span[0] + 1 - record_count
        superseded = [offset for offset in self.removable if span[0] <= offset <= span[1]]
        expired = [offset for offset in self.expired if span[0] <= offset <= span[1]]
        for also in ([], expired) if expired else ([],):
            order = [offset for offset in superseded if offset not in also]
            for count in (gone - len(also),) if gone else range(len(order) + 1):
                if 0 <= count <= len(order):
                    taken = (*order[:count], *also)
                    yield without([span], [(offset, offset) for offset in taken])


NOT_CLEANED = Cleaned()
_Key = tuple[str, int]


class Compaction:
    """Work that log cleaners may have done on the records of a partition, on one side.

    Attributes:
        operations: Those that were acknowledged, and those that lie on a disk all the same.
    """

    def __init__(self, evidence: PartitionEvidence, side: Side) -> None:
        self._until = evidence.cleaned_until
        self.operations = [*acknowledged(evidence, side)]
        self._by_operation: dict[_Key, Cleaned] = {}
        if self._until:
            unplaced = [*_unplaced(evidence)] if side == OBSERVED else []
            located = [*_located(evidence, unplaced)]
            self.operations += located
            named = {operation.operation for operation in located}
            doubts = _Doubts.of(
                evidence, [each for each in unplaced if each.operation not in named], side
            )
            self._note(evidence, side, doubts)

    def of(self, operation: Operation) -> Cleaned:
        """Return what cleaners may have done to one of the operations."""
        return self._by_operation.get(_key(operation), NOT_CLEANED)

    def differences(
        self, ranges: Iterable[Range], replicas: Sequence[ReplicaEvidence | EarlierReplica]
    ) -> tuple[list[Range], list[Range]]:
        """Return those offsets at which not all replicas have what is left, by no cleaner's work.

        Returns:
            The offsets of `ranges` at which a cleaner can have removed nothing, and those at which
            nobody knows.
        """
        ranges = merged(ranges)
        if not self._until or not ranges:
            return ranges, []
        alike, in_doubt = [*self._without_records(replicas)], list[Range]()
        for operation in self.operations:
            by_cleaner = self.of(operation)
            shared: list[Range] = [(operation.base_offset, operation.last_offset)]
            spans: list[Range] = []
            for replica in replicas:
                batches = [*_own_batches(replica.batches, operation, by_cleaner)]
                own = [span for span, _ in batches]
                others = without(covered(replica.batches), own)
                there = [each for _, left in batches for each in left]
                shared = common(shared, [*there, *without(by_cleaner.superseded, others)])
                spans += own
            # What lies there must be the operation's, for a cleaner to have removed it elsewhere.
            alike += common(shared, spans)
            in_doubt += by_cleaner.in_doubt
        differing = without(ranges, alike)
        return without(differing, in_doubt), common(differing, in_doubt)

    def _without_records(
        self, replicas: Sequence[ReplicaEvidence | EarlierReplica]
    ) -> Iterator[Range]:
        """Yield spans of markers and empty batches at which no other replica has a record."""
        for replica in replicas:
            empty = [
                batch
                for batch in replica.batches
                if batch.last_offset < self._until
                and (not batch.record_count or "control" in (batch.marks or "").split(", "))
            ]
            others = [
                batch for other in replicas if other is not replica for batch in other.batches
            ]
            yield from without(covered(empty), covered(others))

    def _note(self, evidence: PartitionEvidence, side: Side, doubts: "_Doubts") -> None:
        keyed = [(operation, _keys(operation, self.operations)) for operation in self.operations]
        written: dict[str, list[tuple[int, _Key]]] = {}
        for operation, keys in keyed:
            for offset, key in keys.items():
                if offset < self._until and operation.transaction not in ("aborted", "open"):
                    written.setdefault(key, []).append((offset, _key(operation)))
        for operation, keys in keyed:
            later = {
                offset: [each for each in written.get(key, ()) if each[0] > offset]
                for offset, key in keys.items()
            }
            order = sorted((min(each)[0], offset) for offset, each in later.items() if each)
            self._by_operation[_key(operation)] = Cleaned(
                removable=tuple(offset for _, offset in order),
                expired=tuple(self._expired(evidence, operation)),
                in_doubt=tuple(merged(doubts.ranges(operation, keys, self._until))),
            )
        kept = {
            _key(operation): merged(
                span
                for replica in evidence.in_sync(side)
                for span in held(replica.batches, operation, self.of(operation))
            )
            for operation in self.operations
        }
        for operation, keys in keyed:
            by_cleaner = self.of(operation)
            superseded = [
                offset
                for offset in by_cleaner.removable
                if any(
                    later > offset and is_in(later, kept[writer])
                    for later, writer in written[keys[offset]]
                )
            ]
            self._by_operation[_key(operation)] = replace(
                by_cleaner,
                superseded=tuple(
                    merged((offset, offset) for offset in (*superseded, *by_cleaner.expired))
                ),
            )

    def _expired(self, evidence: PartitionEvidence, operation: Operation) -> Iterator[int]:
        age_s = evidence.snapshot_time - operation.invoked_at
        places: Iterable[int] = ()
        if operation.transaction == "aborted":
            places = range(len(operation.payloads))
        elif evidence.delete_retention_s < age_s:
            places = operation.tombstones
        for place in places:
            if operation.base_offset + place < self._until:
                yield operation.base_offset + place


def in_doubt(
    evidence: PartitionEvidence, broker: int, ranges: Iterable[Range]
) -> Iterator[Finding]:
    """Yield a finding for each range that cleaners may have removed, or a fault."""
    for first, last in merged(ranges):
        yield evidence.finding(
            IN_DOUBT,
            brokers=(broker,) if broker >= 0 else (),
            first_offset=first,
            last_offset=last,
            message=f"a log cleaner may have removed {in_words(first, last)} of "
            f"{evidence.topic}-{evidence.partition}, or the records there are lost: whether their "
            "keys were written again is not known",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubts:
    """Keys that may have been written by who knows whom."""

    keys: frozenset[str]
    any_key: bool

    @classmethod
    def of(
        cls, evidence: PartitionEvidence, unplaced: Sequence[Operation], side: Side
    ) -> "_Doubts":
        if side != OBSERVED:
            return cls(keys=frozenset(), any_key=False)
        writes = [each for each in evidence.operations if each.function == "produce"]
        open_ones = [each for each in writes if each.transaction == "open"]
        unknown = [each for each in writes if each.outcome == "ok" and not each.keys]
        unknown += [each for each in unplaced if not each.keys]
        return cls(
            keys=frozenset(key for each in (*unplaced, *open_ones) for key in each.keys),
            any_key=is_foreign(evidence) or any(each.client or each.is_said for each in unknown),
        )

    def ranges(self, operation: Operation, keys: Mapping[int, str], until: int) -> Iterator[Range]:
        """Yield an operation's offsets, if the key of one of them may have been written again.

        All of them, since nobody knows then what should be left of its batches.
        """
        of_others = bool(operation.client) or operation.is_said or operation.function == "read"
        offsets = range(operation.base_offset, min(operation.last_offset + 1, until))
        own_keys = [keys.get(offset) for offset in offsets]
        is_unknown = None in own_keys and of_others
        is_told_late = operation.transaction == "open" or not self.keys.isdisjoint(own_keys)
        if is_unknown or is_told_late or (self.any_key and any(own_keys)):
            yield offsets[0], offsets[-1]


def acknowledged(evidence: PartitionEvidence, side: Side) -> Iterator[Operation]:
    """Yield the acknowledged operations; on the predicted side, the predicted ones."""
    predicted = {produce.operation: produce for produce in evidence.predicted_produces}
    for operation in evidence.operations:
        if side == PREDICTED and operation.function == "produce":
            expected = predicted.get(operation.operation)
            if expected is not None and expected.acknowledged and expected.base_offset >= 0:
                yield replace(
                    operation, base_offset=expected.base_offset, promised=operation.acks == -1
                )
        elif operation.outcome == "ok" and operation.base_offset >= 0 and operation.payloads:
            yield operation


def held(
    batches: Sequence[BatchEvidence], operation: Operation, by_cleaner: Cleaned = NOT_CLEANED
) -> Iterator[Range]:
    """Yield the operation's offsets at which the batches hold its records.

    Of a batch that has all of its records but some that cleaners may have removed, what is left.
    """
    for _, left in _own_batches(batches, operation, by_cleaner):
        yield from left


def _own_batches(
    batches: Sequence[BatchEvidence], operation: Operation, by_cleaner: Cleaned
) -> Iterator[tuple[Range, Sequence[Range]]]:
    """Yield the span of each batch with the operation's records, and their offsets in it."""
    within = (operation.base_offset, operation.last_offset)
    for batch in inside(batches, within):
        span = (batch.base_offset, batch.last_offset)
        if span[0] < within[0] or span[1] > within[1]:
            # No produce of one batch lies inside another batch; a read may end anywhere.
            if operation.function == "read":
                part = (max(span[0], within[0]), min(span[1], within[1]))
                yield part, [part]
            continue
        candidates = ([span], *by_cleaner.left(span, batch.record_count))
        left = next(
            (each for each in candidates if batch.payload == _joined(operation, each)), None
        )
        if left is not None:
            yield span, left


def is_in(offset: int, ranges: Iterable[Range]) -> bool:
    """Return whether one of the ranges has the offset."""
    return any(first <= offset <= last for first, last in ranges)


def _unplaced(evidence: PartitionEvidence) -> Iterator[Operation]:
    """Yield writes that may be in the log at an unknown offset."""
    for operation in evidence.operations:
        is_write = operation.function == "produce" and operation.payloads
        if is_write and operation.base_offset < 0 and operation.outcome != "fail":
            yield operation


def _located(evidence: PartitionEvidence, unplaced: Iterable[Operation]) -> Iterator[Operation]:
    """Yield each of these writes at each base offset at which a replica has all of it."""
    places: dict[str, set[int]] = {}
    replicas: tuple[ReplicaEvidence | EarlierReplica, ...] = (*evidence.replicas, *evidence.earlier)
    for replica in replicas:
        for batch in replica.batches:
            places.setdefault(batch.payload or "", set()).add(batch.base_offset)
    for operation in unplaced:
        whole = join_payload_digests((payload, 1) for payload in operation.payloads)
        for base_offset in sorted(places.get(whole, ())):
            yield replace(operation, base_offset=base_offset, promised=False)


def _keys(operation: Operation, operations: Iterable[Operation]) -> Mapping[int, str]:
    """Return the keys of an operation's records by offset; a read takes the written keys."""
    if operation.function != "read":
        return dict(enumerate(operation.keys, start=operation.base_offset))
    keys: dict[int, str] = {}
    for written in operations:
        if written.function != "read" and written.keys:
            first = max(written.base_offset, operation.base_offset)
            for offset in range(first, min(written.last_offset, operation.last_offset) + 1):
                place, other = offset - operation.base_offset, offset - written.base_offset
                if operation.payloads[place] == written.payloads[other]:
                    keys[offset] = written.keys[other]
    return keys


def _key(operation: Operation) -> _Key:
    return operation.operation, operation.base_offset


def _joined(operation: Operation, ranges: Iterable[Range]) -> str:
    payloads, base_offset = operation.payloads, operation.base_offset
    parts = [payloads[first - base_offset : last - base_offset + 1] for first, last in ranges]
    return _digest(parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts)))


@lru_cache(1 << 17)
def _digest(payloads: tuple[str, ...]) -> str:
    """Return the digest of records, of which each replica and more than one rule asks."""
    return join_payload_digests((payload, 1) for payload in payloads)
