"""Delta debugging: steps of a schedule are left out while it still shows the same.

Halves first, then smaller and smaller parts, until no single step can go. Of a schedule all words,
and then all gates, are tried at once before that; what makes no sense without a step that is left
out goes with it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import kchaos as k

Steps = tuple[k.Step, ...]
Part = TypeVar("Part")
Showing = Callable[[Sequence[tuple[Part, ...]]], int | None]
"""Plays schedules at once; the index of the first that shows the same, or None."""


class PlaysUsedUp(Exception):
    """No further schedule may be played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk(Generic[Part]):
    """The smallest schedule that was found.

    Attributes:
        is_minimal: Whether no step of it can be left out; else the runs were used up.
    """

    steps: tuple[Part, ...]
    is_minimal: bool


def shrink(
    steps: Steps,
    showing: Showing[k.Step],
    *,
    at_once: int = 1,
    is_legal: Callable[[Steps], bool] = lambda _: True,
) -> Shrunk[k.Step]:
    """Leave out steps of a schedule, declarations and gates first; see `minimised`."""
    return minimised(
        steps,
        showing,
        at_once=at_once,
        is_legal=is_legal,
        kinds=(_is_word, _is_gate),
        mended=coherent,
    )


def minimised(
    steps: tuple[Part, ...],
    showing: Showing[Part],
    *,
    at_once: int = 1,
    is_legal: Callable[[tuple[Part, ...]], bool] = lambda _: True,
    kinds: Sequence[Callable[[Part], bool]] = (),
    mended: Callable[[Sequence[Part]], tuple[Part, ...]] = tuple,
) -> Shrunk[Part]:
    """Leave out steps until none can be left out, or `showing` raises PlaysUsedUp.

    Args:
        steps: They show it.
        showing: See `Showing`; one that does not show it now is never asked about again.
        at_once: How many schedules `showing` gets.
        is_legal: What is not is not played.
        kinds: Steps of each kind are first left out all at once.
        mended: The steps without those that make no sense any more.
    """
    search = _Search(
        steps=steps, showing=showing, at_once=at_once, is_legal=is_legal, kinds=kinds, mended=mended
    )
    try:
        search.run()
    except PlaysUsedUp:
        return Shrunk(steps=search.steps, is_minimal=False)
    return Shrunk(steps=search.steps, is_minimal=True)


def coherent(steps: Sequence[k.Step]) -> Steps:
    """Return the steps without references to topics, faults or produces that no step makes.

    Gates about a hold need it to be the hold of that name.
    """
    kept: list[k.Step] = []
    topics, faults, holds, operations = set(), set(), set(), set()
    for step in steps:
        inner = step.do if isinstance(step, k.IfPossible) else step
        fault = inner.fault if isinstance(inner, k.Inject) else None
        of_topic = getattr(fault or inner, "topic", None)
        match inner:
            case k.CreateTopic(topic=topic):
                topics.add(topic)
            case _ if of_topic is not None and of_topic not in topics:
                continue
            case k.Inject(name=name):
                faults.add(name)
                if isinstance(fault, k.HoldRequests):
                    holds.add(name)
            case k.Produce(operation=operation):
                operations.add(operation)
            case k.Heal(name=name) if name not in faults:
                continue
            case k.AwaitHeld(name=name) if name not in holds:
                continue
            case k.AwaitAnswer(operation=operation) if operation not in operations:
                continue
        kept.append(step)
    return tuple(kept)


@dataclass(slots=True, kw_only=True)
class _Search(Generic[Part]):
    steps: tuple[Part, ...]
    showing: Showing[Part]
    at_once: int
    is_legal: Callable[[tuple[Part, ...]], bool]
    kinds: Sequence[Callable[[Part], bool]]
    mended: Callable[[Sequence[Part]], tuple[Part, ...]]
    _asked: set[tuple[Part, ...]] = field(default_factory=set)

    def run(self) -> None:
        for goes in self.kinds:
            self._try(tuple(step for step in self.steps if not goes(step)))
        part = max(1, len(self.steps) // 2)
        while True:
            while self._leave_out(part):
                part = min(part, max(1, len(self.steps) // 2))
            if part == 1:
                return
            part = max(1, part // 2)

    def _try(self, steps: tuple[Part, ...]) -> None:
        if self._is_worth_a_play(steps) and self.showing([steps]) is not None:
            self.steps = steps

    def _leave_out(self, part: int) -> bool:
        """Leave out parts of that size; return whether any was left out."""
        has_left_out = False
        end = len(self.steps)
        while end > 0:
            batch = self._next(part, end)
            if not batch:
                return has_left_out
            index = self.showing([steps for _, steps in batch])
            if index is None:
                end = batch[-1][0]
            else:
                has_left_out = True
                start, self.steps = batch[index]
                end = min(start, len(self.steps))
        return has_left_out

    def _next(self, part: int, end: int) -> list[tuple[int, tuple[Part, ...]]]:
        """Return the next untried candidates, from the end of the schedule on.

        Returns:
            Where each one's part began, and what is left.
        """
        batch: list[tuple[int, tuple[Part, ...]]] = []
        for start, steps in self._without(part, end):
            if self._is_worth_a_play(steps):
                batch.append((start, steps))
            if len(batch) == self.at_once:
                break
        return batch

    def _without(self, part: int, end: int) -> Iterator[tuple[int, tuple[Part, ...]]]:
        while end > 0:
            start = max(0, end - part)
            yield start, self.mended((*self.steps[:start], *self.steps[end:]))
            end = start

    def _is_worth_a_play(self, steps: tuple[Part, ...]) -> bool:
        """Return whether the steps are fewer, legal and not yet tried."""
        is_new = steps not in self._asked and 0 < len(steps) < len(self.steps)
        if not is_new or not self.is_legal(steps):
            return False
        self._asked.add(steps)
        return True


def _is_word(step: k.Step) -> bool:
    return isinstance(step, k.Tell)


def _is_gate(step: k.Step) -> bool:
    inner = step.do if isinstance(step, k.IfPossible) else step
    return type(inner).__name__.startswith("Await") and not isinstance(inner, k.AwaitAnswer)
