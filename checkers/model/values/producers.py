"""Producers with ids: what a batch says of the one that sent it, and what a log makes of that.

Read from kafka.log.ProducerStateManager and ProducerAppendInfo, 0.11.0.0, 1.1.1, 2.3.1, 2.8.2 and
3.8.0.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from kchaos.checkers.json_form import SOMETIMES
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.shared import Shared

NO_EPOCH = -1
NO_SEQUENCE = -1
_LARGEST_SEQUENCE = (1 << 31) - 1
MOST_REMEMBERED = 5
"""So many batches of a producer the releases know that remember the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMark:
    """A batch's mark of its producer, or of the transaction that it ends (magic 2).

    Attributes:
        base_sequence: Of its first record; -1 in a marker.
        is_transactional: Whether it belongs to a transaction, as markers do.
        coordinator_epoch: In a marker, the epoch of the transaction coordinator; None elsewhere.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int = field(default=NO_SEQUENCE, metadata=SOMETIMES)
    is_transactional: bool = field(default=False, metadata=SOMETIMES)
    coordinator_epoch: int | None = field(default=None, metadata=SOMETIMES)

    @property
    def is_marker(self) -> bool:
        """Whether the batch ends a transaction."""
        return self.coordinator_epoch is not None

    def __str__(self) -> str:
        """Return the words of `checkers.segments.batch.Batch.marks`."""
        words = (
            "transactional" if self.is_transactional else "",
            "control" if self.is_marker else "",
            f"producer {self.producer_id}, {self.producer_epoch}, {self.base_sequence}",
        )
        return ", ".join(filter(None, words))


class MarkedBatch(Protocol):
    """A batch in a log, as far as producers are concerned."""

    @property
    def base_offset(self) -> int:
        """Inclusive."""

    @property
    def last_offset(self) -> int:
        """Inclusive."""

    @property
    def producer(self) -> ProducerMark | None:
        """None where no producer has an id."""


_Batch = TypeVar("_Batch", bound=MarkedBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """One batch that a log remembers of a producer; sequences and offsets are inclusive."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A log's knowledge of one producer.

    Attributes:
        producer_epoch: Of its last batch or marker, -1 where the log has none.
        batches: The last ones of that epoch, in their order, `MOST_REMEMBERED` at most.
        coordinator_epoch: Of its last marker, or -1.
        first_offset: Where its transaction began that has not ended here, or None.
    """

    producer_epoch: int = NO_EPOCH
    batches: tuple[SentBatch, ...] = ()
    coordinator_epoch: int = -1
    first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        """Of its last record in that epoch, -1 where there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def follows(self, base_sequence: int) -> bool:
        """Return whether a batch that begins so is the next."""
        last = self.last_sequence
        return base_sequence == (0 if last == _LARGEST_SEQUENCE else last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSnapshot:
    """Producers that a broker's process found beside a log when it began.

    A process that ends writes it, or one that recovers a log. Left out is that a roll writes one
    too, which a truncation reads, and that a running process looks every ten minutes who expired.

    Attributes:
        end_offset: Where the log ended then, exclusive.
        states: By producer id.
    """

    end_offset: int = 0
    states: tuple[tuple[int, ProducerState], ...] = ()


NO_SNAPSHOT = ProducerSnapshot()


def loaded_snapshot(
    batches: Shared[_Batch], before: ProducerSnapshot, end_offset: int, *, forgets_fenced: bool
) -> ProducerSnapshot:
    """Return what a process that begins knows: of each producer one batch, the last.

    Read from writeSnapshot and loadFromSnapshot of kafka.log.ProducerStateManager.

    `before` is the previous process's snapshot, and `end_offset` the log end offset. With
    `forgets_fenced`, producers are omitted of whose epoch the log has no batch.
    """
    if before.end_offset > end_offset:
        before = NO_SNAPSHOT
    known = {batch.producer.producer_id for batch in batches if batch.producer is not None}
    states = []
    for producer_id in sorted({producer_id for producer_id, _ in before.states} | known):
        state = producer_state(batches, producer_id, before)
        if state.batches or not forgets_fenced:
            states.append((producer_id, replace(state, batches=state.batches[-1:])))
    return ProducerSnapshot(end_offset=end_offset, states=tuple(states)) if known else before


def producer_state(
    batches: Shared[_Batch], producer_id: int, snapshot: ProducerSnapshot = NO_SNAPSHOT
) -> ProducerState:
    """Return what a log with these batches knows of a producer (ProducerStateManager.update)."""
    begin = dict(snapshot.states).get(producer_id, ProducerState())
    step = partial(_after, producer_id=producer_id, since=snapshot.end_offset)
    return batches.fold((producer_id, snapshot), begin, step)


def _after(
    state: ProducerState, batch: MarkedBatch, *, producer_id: int, since: int
) -> ProducerState:
    mark = batch.producer
    if mark is None or mark.producer_id != producer_id or batch.base_offset < since:
        return state
    known = state.batches if mark.producer_epoch == state.producer_epoch else ()
    if mark.coordinator_epoch is not None:
        return ProducerState(
            producer_epoch=mark.producer_epoch,
            batches=known,
            coordinator_epoch=mark.coordinator_epoch,
        )
    sent = SentBatch(
        first_sequence=mark.base_sequence,
        last_sequence=_last_sequence(mark.base_sequence, batch),
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
    )
    is_first = mark.is_transactional and state.first_offset is None
    return ProducerState(
        producer_epoch=mark.producer_epoch,
        batches=(*known[1 - MOST_REMEMBERED :], sent),
        coordinator_epoch=state.coordinator_epoch,
        first_offset=batch.base_offset if is_first else state.first_offset,
    )


def _last_sequence(base_sequence: int, batch: MarkedBatch) -> int:
    return (base_sequence + batch.last_offset - batch.base_offset) & _LARGEST_SEQUENCE


def sent_before(
    state: ProducerState, mark: ProducerMark, records: int, remembered: int
) -> SentBatch | None:
    """Return the batch of which this one is a duplicate (ProducerStateEntry.findDuplicateBatch).

    `remembered` is the number of batches of a producer that the release keeps.
    """
    if mark.is_marker or mark.producer_epoch != state.producer_epoch:
        return None
    last = (mark.base_sequence + records - 1) & _LARGEST_SEQUENCE
    for sent in state.batches[-remembered:]:
        if (sent.first_sequence, sent.last_sequence) == (mark.base_sequence, last):
            return sent
    return None
