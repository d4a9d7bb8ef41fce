"""One replica's log: batches as they are on disk, and an end offset that may differ from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.producers import NO_SNAPSHOT, ProducerMark, ProducerSnapshot
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.shared import Shared
from kchaos.checkers.segments.batch import Record, join_payload_digests, payload_digest

_BASE_OFFSET = attrgetter("base_offset")
_LAST_OFFSET = attrgetter("last_offset")


class OffsetOutOfRange(Exception):
    """The read began before the log's start offset or beyond its end offset."""


class UnexpectedAppendOffset(Exception):
    """A follower was given a batch that begins before its log end offset.

    Kafka's UnexpectedAppendOffsetException (1.0.2, 1.1.1 and later; an IllegalArgumentException
    "Out of order offsets found" before).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The batches of one replica, in offset order; every change is a new value.

    Attributes:
        batches: What the segment files hold.
        log_start_offset: Inclusive; also where an empty log begins.
        log_end_offset: Exclusive. A truncation inside a batch removes the whole batch but sets this
            to its target, so that a hole opens when the next append begins there.
        segment_starts: Where segments begin that were rolled because a rule says so, ascending;
            what size and time roll is not modelled.
        local_start_offset: Where what is on the local disk begins, at least. What lies before was
            deleted, or of a tiered log is in the remote tier, and part of the log.
        producers: What the broker's process found of producers when it began.
    """

    batches: Shared[PredictedBatch] = field(default_factory=Shared)
    log_start_offset: int = 0
    log_end_offset: int = 0
    segment_starts: tuple[int, ...] = ()
    local_start_offset: int = 0
    producers: ProducerSnapshot = NO_SNAPSHOT

    def append(self, batches: Sequence[PredictedBatch], rolls: Sequence[int] = ()) -> "Log":
        """Return the log with batches appended as they are; it ends after the last of them.

        Args:
            batches: In offset order.
            rolls: Base offsets of those of them that begin a new segment.

        Raises:
            UnexpectedAppendOffset: The first begins before the log end offset. Magic 0 and 1 are
                compared by their last offset, which for a compressed wrapper is all that Kafka
                looks at (kafka.log.Log.append and analyzeAndValidateRecords, 1.1.1).
        """
        if not batches:
            return self
        first = batches[0]
        offset = first.base_offset if first.magic >= 2 else first.last_offset
        if offset < self.log_end_offset:
            raise UnexpectedAppendOffset(
                f"first offset {offset} is less than the next offset {self.log_end_offset}"
            )
        return Log(
            batches=self.batches.with_items(batches),
            log_start_offset=self.log_start_offset,
            log_end_offset=batches[-1].last_offset + 1,
            segment_starts=(*self.segment_starts, *rolls),
            local_start_offset=self.local_start_offset,
            producers=self.producers,
        )

    def segments(self) -> tuple[tuple[PredictedBatch, ...], ...]:
        """Return the batches of each segment."""
        edges = [0, *self.segment_starts]
        segments = []
        for edge, following in zip(edges, [*edges[1:], self.log_end_offset], strict=True):
            segments.append(
                tuple(batch for batch in self.batches if edge <= batch.base_offset < following)
            )
        return tuple(segments)

    def local_batches(self) -> tuple[PredictedBatch, ...]:
        """Return what is on the local disk."""
        if not self.local_start_offset:
            return self.batches[:]
        return tuple(
            batch for batch in self.batches if batch.base_offset >= self.local_start_offset
        )

    def read(self, offset: int) -> tuple[PredictedBatch, ...]:
        """Return every whole batch whose last offset is `offset` or more (kafka.log.Log.read).

        The first may begin before `offset`.

        Raises:
            OffsetOutOfRange: `offset` lies before the log start or beyond the log end offset.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}"
            )
        if offset == self.log_end_offset:
            return ()
        return self.batches[self.batches.place(offset, _LAST_OFFSET) :]

    def between(self, begin: int, end: int) -> tuple[PredictedBatch, ...]:
        """Return the batches whose base offset is `begin` or more, and less than `end`."""
        place = self.batches.place
        return self.batches[place(begin, _BASE_OFFSET) : place(end, _BASE_OFFSET)]

    def before(self, offset: int) -> Shared[PredictedBatch]:
        """Return the batches that end before an offset."""
        return self.batches.first(self.batches.place(offset, _LAST_OFFSET))

    def truncate_to(self, target_offset: int) -> "Log":
        """Return the log without the batches that reach to or beyond the target, ending there.

        The same log when the target is the log end offset or beyond. Read from
        kafka.log.Log.truncateTo, 1.1.1, 2.8.2 and LocalLog.truncateTo, 3.9.
        """
        if target_offset >= self.log_end_offset:
            return self
        return Log(
            batches=self.before(target_offset),
            log_start_offset=min(self.log_start_offset, target_offset),
            log_end_offset=target_offset,
            segment_starts=tuple(start for start in self.segment_starts if start < target_offset),
            local_start_offset=min(self.local_start_offset, target_offset),
            producers=self.producers if self.producers.end_offset <= target_offset else NO_SNAPSHOT,
        )

    def truncate_fully_and_start_at(self, offset: int) -> "Log":
        """Return an empty log that starts and ends at `offset`."""
        return Log(log_start_offset=offset, log_end_offset=offset)

    def lose_tail(self, log_end_offset: int) -> "Log":
        """Return the log without its batches from an offset on, as a power loss leaves it."""
        return replace(self, batches=self.before(log_end_offset)).reload()

    def reload(self) -> "Log":
        """Return the log with the end offset that is on disk, as a broker finds it at its start."""
        return replace(self, log_end_offset=self.end_offset_on_disk())

    def end_offset_on_disk(self) -> int:
        """Return the offset after the last batch, or the log start offset of an empty log."""
        return self.batches[-1].last_offset + 1 if self.batches else self.log_start_offset


EMPTY_LOG = Log()


def unlike(first: Log, other: Log) -> set[PredictedBatch]:
    """Return the batches that only one of two logs has, from the later log start on."""
    if first.batches == other.batches:
        return set()
    start = max(first.log_start_offset, other.log_start_offset)
    unequal = {*first.batches} ^ {*other.batches}
    return {batch for batch in unequal if batch.last_offset >= start}


def missing(log: Log, promised: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return what was promised and a log does not have; what it has deleted was not lost.

    Args:
        log: Where it must be.
        promised: (offset, payload) of each batch.
    """
    present = {(batch.base_offset, batch.payload) for batch in log.batches}
    return {
        (offset, payload)
        for offset, payload in promised
        if (offset, payload) not in present and offset >= log.log_start_offset
    }


@lru_cache(maxsize=1024)
def _joined(digests: tuple[str, ...]) -> str:
    """Return the payload digest of records; a search asks for that of a produce several times."""
    return join_payload_digests((digest, 1) for digest in digests)


def records_of(values: Sequence[str], keys: Sequence[str] = ()) -> tuple[Record, ...]:
    """Return records with these values; without keys all of theirs are null."""
    named: Sequence[bytes | None] = [key.encode() for key in keys] or [None] * len(values)
    return tuple(
        Record(offset=-1, timestamp=-1, key=key, value=value.encode())
        for value, key in zip(values, named, strict=True)
    )


def batches_of(
    records: Sequence[str],
    *,
    base_offset: int,
    leader_epoch: int,
    magic: int,
    codec: str,
    keys: Sequence[str] = (),
    is_digested: bool = False,
    producer: ProducerMark | None = None,
) -> tuple[PredictedBatch, ...]:
    """Return what a leader writes for one produced batch of records with these values and keys.

    Of records that somebody else sent there may be the payload digests alone, in place of values.

    Magic 2 gives one batch. Magic 0 and 1 know no leader epoch, and give one entry a record when
    they are not compressed, else one wrapper.
    """
    if is_digested:
        digests = [*records]
    else:
        digests = [payload_digest([record]) for record in records_of(records, keys)]
    whole = magic >= 2 or codec != "none"
    groups = [digests] if whole else [[digest] for digest in digests]
    batches = []
    for group in groups:
        batches.append(
            PredictedBatch(
                base_offset=base_offset,
                last_offset=base_offset + len(group) - 1,
                leader_epoch=leader_epoch if magic >= 2 else -1,
                magic=magic,
                payload=_joined(tuple(group)),
                producer=producer if magic >= 2 else None,
            )
        )
        base_offset += len(group)
    return tuple(batches)
