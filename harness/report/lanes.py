"""A lane: one replica's log along the offset axis, as spans that can be drawn."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.segments.batch import Batch

MOST_SPANS = 2000
"""A lane with more batches than this is drawn in joined spans, and says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """One stretch of a lane.

    Attributes:
        first_offset: Inclusive.
        last_offset: Inclusive.
        leader_epoch: -1 before magic 2; None where no batch is.
        batches: How many batches it stands for; 0 where none is.
        differs: Whether the lane beside it does not hold the same there.
        cleaned: Whether a log cleaner went there, so that no batch need be.
    """

    first_offset: int
    last_offset: int
    leader_epoch: int | None
    batches: int = 1
    differs: bool = False
    cleaned: bool = False

    @property
    def is_hole(self) -> bool:
        """Whether no batch is there, though no log cleaner went there."""
        return self.leader_epoch is None and not self.cleaned


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLane:
    """Spans in offset order.

    Attributes:
        spans: Batches and the holes between them.
        batches: How many batches the log has.
        joined: Whether spans stand for more than one batch.
    """

    spans: tuple[LogSpan, ...]
    batches: int
    joined: bool


def lane_of(
    batches: Sequence[Batch | PredictedBatch],
    other: Sequence[Batch | PredictedBatch] | None,
    *,
    log_end_offset: int,
    cleaned_until: int = 0,
    most_spans: int = MOST_SPANS,
) -> LogLane:
    """Return the lane of one log, with the differences from `other` marked.

    Args:
        batches: In offset order.
        other: What is drawn beside it, or None if there is nothing to compare with.
        log_end_offset: Exclusive; what lies between the last batch and it is a hole.
        cleaned_until: Exclusive; below it a log cleaner may have left nothing of a batch.
        most_spans: Above this many, neighbours are joined.
    """
    same = None if other is None else {identity(batch) for batch in other}
    spans = [
        LogSpan(
            first_offset=batch.base_offset,
            last_offset=batch.last_offset,
            leader_epoch=batch.leader_epoch,
            differs=same is not None and identity(batch) not in same,
        )
        for batch in batches
    ]
    spans = [
        replace(span, cleaned=span.last_offset < cleaned_until and not span.differs)
        if span.is_hole
        else span
        for span in _with_holes(spans, log_end_offset, other)
    ]
    joined = len(spans) > most_spans
    if joined:
        spans = join_equal(spans)
        if len(spans) > most_spans:
            spans = _joined_by_width(spans, most_spans)
    return LogLane(spans=tuple(spans), batches=len(batches), joined=joined)


def join_equal(spans: Iterable[LogSpan]) -> list[LogSpan]:
    """Join neighbouring spans with the same epoch and mark; keep holes."""
    joined: list[LogSpan] = []
    for span in spans:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.last_offset + 1 == span.first_offset
            and (last.leader_epoch, last.differs, last.cleaned)
            == (span.leader_epoch, span.differs, span.cleaned)
        ):
            batches = last.batches + span.batches
            joined[-1] = replace(last, last_offset=span.last_offset, batches=batches)
        else:
            joined.append(span)
    return joined


def identity(batch: Batch | PredictedBatch) -> tuple[int, int, int, int, str | None]:
    """Return the values in which equal batches agree."""
    place = (batch.base_offset, batch.last_offset, batch.leader_epoch)
    return (*place, batch.magic, batch.payload)


def _with_holes(
    spans: Sequence[LogSpan], log_end_offset: int, other: Sequence[Batch | PredictedBatch] | None
) -> list[LogSpan]:
    """Add a span wherever offsets are missing, marked where `other` has a batch."""
    held = [] if other is None else [(b.base_offset, b.last_offset) for b in other]
    filled: list[LogSpan] = []
    expected = spans[0].first_offset if spans else log_end_offset
    for span in spans:
        if span.first_offset > expected:
            filled.append(_hole(expected, span.first_offset - 1, held))
        filled.append(span)
        expected = max(expected, span.last_offset + 1)
    if log_end_offset > expected:
        filled.append(_hole(expected, log_end_offset - 1, held))
    return filled


def _hole(first: int, last: int, held: Iterable[tuple[int, int]]) -> LogSpan:
    differs = any(base <= last and first <= end for base, end in held)
    return LogSpan(
        first_offset=first, last_offset=last, leader_epoch=None, batches=0, differs=differs
    )


def _joined_by_width(spans: Sequence[LogSpan], most: int) -> list[LogSpan]:
    """Return at most about `most` spans of equal width, each marked for any difference in it."""
    first, last = spans[0].first_offset, spans[-1].last_offset
    width = max(1, -(-(last + 1 - first) // most))
    buckets: dict[int, list[LogSpan]] = {}
    for span in spans:
        buckets.setdefault((span.first_offset - first) // width, []).append(span)
    return [
        LogSpan(
            first_offset=members[0].first_offset,
            last_offset=members[-1].last_offset,
            leader_epoch=next((s.leader_epoch for s in members if s.batches), None),
            batches=sum(member.batches for member in members),
            differs=any(member.differs for member in members),
            cleaned=all(member.cleaned for member in members),
        )
        for members in buckets.values()
    ]


def ticks(first: int, last: int, most: int = 12) -> tuple[int, ...]:
    """Round offsets between both ends, inclusive: at most about `most`, 1, 2 or 5 times 10**n."""
    step, factors = 1, itertools.cycle((2, 2.5, 2))
    while (last - first) / step > most:
        step = int(step * next(factors))
    start = -(-first // step) * step
    return tuple(range(start, last + 1, step))
