"""Bodies as trees of decisions, so that each runs only for values that it has not read before.

A body that first reads A and then, depending on its value, B, is a path A, B in a tree; at its end
stands the outcome. Bodies that have read the same so far and read the same component next share
the branch, and those for which nothing comes of it are dropped there: so a hundred moves whose
guards read the state of one broker cost one look at it.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from checkers.explorer.errors import RuleError
from checkers.explorer.interning import State

Outcome = TypeVar("Outcome")

# What a body did in one state: the slots that it read, each once, in the order in which it read
# them first; and what came of it, None where nothing did.
Recording: TypeAlias = tuple[tuple[int, ...], Outcome | None]


class _Branch(Generic[Outcome]):
    """Bodies that have read the slots of `path`, with the same values, and now read `slot`."""

    __slots__ = ("bodies", "forks", "path", "slot")

    def __init__(self, path: tuple[int, ...], slot: int, bodies: tuple[int, ...]) -> None:
        self.path = path
        self.slot = slot
        self.bodies = bodies
        self.forks: dict[int, _Fork[Outcome]] = {}


# Where one value leads: to branches that ask further, and to outcomes.
_Fork: TypeAlias = tuple[Sequence[_Branch[Outcome]], Sequence[Outcome]]


class Decisions(Generic[Outcome]):
    """The tree of some bodies, which grows as states are met.

    Args:
        names: For each body what errors call it.
        run: Runs the body of that place in a state.
        initial: Any state.
    """

    def __init__(
        self,
        names: Sequence[str],
        run: Callable[[int, State], Recording[Outcome]],
        initial: State,
    ) -> None:
        self._names = names
        self._run = run
        self._roots, self._always = self._recorded((), range(len(names)), initial)

    def outcomes(self, state: State) -> list[Outcome]:
        """Return what comes of the bodies in this state, always in the same order."""
        found = list(self._always)
        branches = list(self._roots)
        for branch in branches:  # Grows meanwhile.
            try:
                further, ended = branch.forks[state[branch.slot]]
            except KeyError:
                path = (*branch.path, branch.slot)
                further, ended = self._recorded(path, branch.bodies, state)
                branch.forks[state[branch.slot]] = further, ended
            if further:
                branches += further
            if ended:
                found += ended
        return found

    def _recorded(
        self, path: tuple[int, ...], bodies: Sequence[int], state: State
    ) -> _Fork[Outcome]:
        """Run bodies that have read the path, and return where that leads, grown to its ends."""
        recordings = []
        for body in bodies:
            slots, outcome = self._run(body, state)
            if slots[: len(path)] != path:
                raise RuleError(
                    f"{self._names[body]} is not pure: it has read the same values as before and "
                    "then read something else"
                )
            recordings.append((body, slots, outcome))
        return self._fork(len(path), recordings, state)

    def _fork(
        self,
        depth: int,
        recordings: list[tuple[int, tuple[int, ...], Outcome | None]],
        state: State,
    ) -> _Fork[Outcome]:
        readers: dict[int, list[tuple[int, tuple[int, ...], Outcome | None]]] = {}
        ended = []
        for recording in recordings:
            _, slots, outcome = recording
            if len(slots) > depth:
                readers.setdefault(slots[depth], []).append(recording)
            elif outcome is not None:
                ended.append(outcome)
        further: list[_Branch[Outcome]] = []
        for slot, reading in readers.items():
            bodies = tuple(body for body, _, _ in reading)
            branch: _Branch[Outcome] = _Branch(reading[0][1][:depth], slot, bodies)
            branch.forks[state[slot]] = self._fork(depth + 1, reading, state)
            further.append(branch)
        return further or (), ended or ()
