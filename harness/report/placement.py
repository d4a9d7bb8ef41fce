"""Boxes on the page: where they go along an axis, and in which row, so that no label is covered."""

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")

EPOCH_COLOURS = 7
"""So many colours follow one another; an epoch has the colour of its number modulo this."""
PERCENT_PER_LETTER = 1.25
"""Width of a letter of a label, in percent of a narrow page's lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A stretch of a lane or a bar of the time line.

    Attributes:
        x: Left edge in percent of the width.
        width: In percent of the width.
        row: From 0.
        label: What is written on it; "" where there is no room.
        at: Where the label goes: "in" the box, to its "right", or to its "left".
        title: What it is, in full.
        style: Names for the style sheet.
    """

    x: float
    width: float
    row: int = 0
    label: str = ""
    at: str = "in"
    title: str = ""
    style: str = ""


def style_of_epoch(leader_epoch: int | None) -> str:
    """Return the style sheet's name for a leader epoch's colour."""
    if leader_epoch is None:
        return "hole"
    return f"e{leader_epoch % EPOCH_COLOURS}" if leader_epoch >= 0 else "no-epoch"


def label_width(label: str) -> float:
    """Return the width of a label, in percent of a narrow page."""
    return len(label) * PERCENT_PER_LETTER + 1.0 if label else 0.0


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Times to percent of the width. Waits are squeezed, so that what is dense can be read.

    A gap counts 1 plus the logarithm of its milliseconds, so order is always kept and a second
    of waiting takes about three times the room of a millisecond.
    """

    times: tuple[float, ...]
    places: tuple[float, ...]

    def place(self, time: float) -> float:
        """Return the place of a time, in percent of the width."""
        at = bisect.bisect_right(self.times, time)
        if at == 0:
            return self.places[0]
        if at == len(self.times):
            return self.places[-1]
        before, after = self.times[at - 1], self.times[at]
        part = (time - before) / (after - before)
        return self.places[at - 1] + part * (self.places[at] - self.places[at - 1])

    def marks(self, most: int = 12) -> tuple[tuple[float, float], ...]:
        """Return times and places of labels below the axis, at least 100 / `most` apart."""
        chosen: list[tuple[float, float]] = []
        for time, place in zip(self.times, self.places, strict=True):
            if not chosen or place - chosen[-1][1] >= 100 / most:
                chosen.append((time, place))
        return tuple(chosen)


def time_axis(times: Iterable[float]) -> TimeAxis:
    """Return the axis with all these times, from the first at 0 to the last at 100 percent."""
    ordered = sorted(set(times)) or [0.0]
    weights = [0.0]
    for before, after in itertools.pairwise(ordered):
        weights.append(weights[-1] + 1 + math.log10(1 + (after - before) * 1000))
    total = weights[-1] or 1.0
    return TimeAxis(tuple(ordered), tuple(100 * weight / total for weight in weights))


def in_rows(items: Sequence[T], extent: Callable[[T], tuple[float, float]]) -> list[tuple[int, T]]:
    """Return each item with the first row, from 0, where its extent (from, to) is free."""
    ends: list[float] = []
    placed = []
    for item in items:
        start, end = extent(item)
        row = next((index for index, taken in enumerate(ends) if taken <= start), len(ends))
        if row == len(ends):
            ends.append(end)
        else:
            ends[row] = end
        placed.append((row, item))
    return placed


def pack(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Put each box into the first row where neither it nor its label overlaps another.

    A label that does not fit into its box goes to the right of it, and where the page ends there,
    to the left.
    """
    ready = [replace(box, at=_side(box)) for box in boxes]
    placed = in_rows(sorted(ready, key=lambda box: _extent(box)[0]), _extent)
    return tuple(replace(box, row=row) for row, box in placed)


def _side(box: Box) -> str:
    needed = label_width(box.label)
    if needed <= box.width:
        return "in"
    return "right" if box.x + box.width + needed <= 100 else "left"


def _extent(box: Box) -> tuple[float, float]:
    needed = label_width(box.label) if box.at != "in" else 0.0
    start = box.x - needed if box.at == "left" else box.x
    end = box.x + box.width + (needed if box.at == "right" else 0.0)
    return start, end + 0.4
