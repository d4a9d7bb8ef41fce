"""Explores a system breadth first, within bounds, in one process or several."""

import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from kchaos.checkers.garbage import no_garbage_collection
from kchaos.studies.explorer.errors import BoundsError
from kchaos.studies.explorer.part import StateSpacePart
from kchaos.studies.explorer.system import Component, System, Value
from kchaos.studies.explorer.team import Team

# So many states of a level for each process make it worth starting them.
STATES_TO_SHARE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A shortest way to a state in which an invariant does not hold.

    Attributes:
        invariant: Its name.
        message: What it says.
        trace: The labels of the moves that lead there.
        states: The initial state and the state after each move.
    """

    invariant: str
    message: str
    trace: tuple[Hashable, ...]
    states: tuple[Mapping[Component, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of an exploration.

    Attributes:
        distinct: States so far.
        generated: States so far, each as often as it was found.
        depth: The level that is being found, as in `Exploration`.
        states_per_second: Distinct states, since the beginning.
    """

    distinct: int
    generated: int
    depth: int
    states_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """Result of an exploration.

    A level in which there is a violation is finished, so that counts and the state that is reported
    do not depend on the number of processes; where a bound ends a level, they do.

    Attributes:
        distinct: How many states there are; with a symmetry, how many that are not alike.
        generated: How many states were found, each as often as it was found, the first included.
        depth: How many states are on the longest of the shortest ways to each state: 1 where there
            is only the initial one, and with a violation the number of states on the way there. TLC
            counts like that.
        runs: How often a body ran, of moves and invariants, in all processes. Where that is not far
            fewer than the states, bodies read more than they need, or read it too early.
        seconds: How long it took.
        is_complete: Whether all states were found.
        violation: None where every invariant holds in every state that was found.
        limit: The name of the bound that ended the exploration, or "".
    """

    distinct: int
    generated: int
    depth: int
    runs: int
    seconds: float
    is_complete: bool
    violation: Violation | None
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    most_states: int
    most_depth: int | None
    most_memory_mib: int | None
    processes: int

    def check(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise BoundsError(f"{name} is {value}; it must be 1 or more")


def explore(
    system: System,
    *,
    most_states: int,
    most_depth: int | None = None,
    processes: int = 1,
    progress: Callable[[Progress], object] | None = None,
    most_memory_mib: int | None = None,
) -> Exploration:
    """Return what can happen in a system, up to the first level in which an invariant is broken.

    Args:
        system: What is explored.
        most_states: How many distinct states are kept at most.
        most_depth: How many levels are looked at at most, the initial state's included.
        processes: How many processes explore. More than one need a system that is large: they
            begin when there is something to share.
        progress: Is called many times a second.
        most_memory_mib: Exploring ends when this process and those that explore hold more than
            this many MiB of memory together.

    Raises:
        BoundsError: A bound or the number of processes is zero or less.
        RuleError: A move, an invariant or a symmetry is not well formed.
        ProcessError: A process that explores has ended.
    """
    bounds = _Bounds(
        most_states=most_states,
        most_depth=most_depth,
        most_memory_mib=most_memory_mib,
        processes=processes,
    )
    bounds.check()
    with no_garbage_collection():
        return _Exploring(system, bounds, progress).run()


class _Exploring:
    def __init__(
        self, system: System, bounds: _Bounds, progress: Callable[[Progress], object] | None
    ) -> None:
        self._begin = time.monotonic()
        self._bounds = bounds
        self._progress = progress
        self._first = StateSpacePart(system)
        self._all: StateSpacePart | Team = self._first
        self._depth = 1

    def run(self) -> Exploration:
        """Find level after level."""
        with ExitStack() as stack:
            while self._all.remaining and self._all.broken is None:
                if self._depth == self._bounds.most_depth:
                    return self._exploration("most_depth")
                if self._all is self._first and self._is_worth_sharing():
                    self._all = stack.enter_context(Team(self._first, self._bounds.processes))
                limit = self._find_level()
                if limit:
                    return self._exploration(limit)
                if self._all.descend():
                    self._depth += 1
            return self._exploration("")

    def _is_worth_sharing(self) -> bool:
        processes = self._bounds.processes
        return processes > 1 and self._first.remaining >= processes * STATES_TO_SHARE

    def _find_level(self) -> str:
        """Find the states of the next level; return the bound that ended it, or ""."""
        bounds = self._bounds
        while self._all.remaining:
            if self._all.round(bounds.most_states - self._all.distinct):
                return "most_states"
            most_mib = bounds.most_memory_mib
            if most_mib is not None and self._all.memory_mib() > most_mib:
                return "most_memory_mib"
            if self._progress is not None:
                self._progress(self._so_far())
        return ""

    def _so_far(self) -> Progress:
        seconds = time.monotonic() - self._begin
        return Progress(
            distinct=self._all.distinct,
            generated=self._all.generated,
            depth=self._depth + self._all.has_next,
            states_per_second=self._all.distinct / max(seconds, 1e-9),
        )

    def _exploration(self, limit: str) -> Exploration:
        broken, violation = self._all.broken, None
        if broken is not None:
            trace, states = self._first.replay(self._all.way(broken))
            violation = Violation(
                invariant=broken.invariant, message=broken.message, trace=trace, states=states
            )
        return Exploration(
            distinct=self._all.distinct,
            generated=self._all.generated,
            depth=self._depth + self._all.has_next,
            runs=self._all.runs,
            seconds=time.monotonic() - self._begin,
            is_complete=violation is None and not limit,
            violation=violation,
            limit=limit,
        )
