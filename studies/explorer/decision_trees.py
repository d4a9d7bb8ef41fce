"""Bodies as trees of decisions, so that each runs only for values that it has not read before.

A body that first reads A and then, depending on its value, B, is a path A, B in a tree; at its end
stands the outcome. Bodies that have read the same so far and read the same component next share
the branch, and those for which nothing comes of it are dropped there: so a hundred moves whose
guards read the state of one broker cost one look at it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from kchaos.studies.explorer.errors import RuleError
from kchaos.studies.explorer.interning import State

Outcome = TypeVar("Outcome")

# What a body did in one state: the slots that it read, each once, in the order in which it read
# them first; and what came of it, None where nothing did.
Recording: TypeAlias = tuple[tuple[int, ...], Outcome | None]

# A node is either a branch or an end, and both are plain tuples, because looking at nodes is what
# exploring spends most of its time on:
# - a branch: the slot that is read next, a dict of its numbers to the nodes that follow, and a pair
#   of the slots that have been read before and of the bodies that have read them;
# - an end: None, the outcomes, and nothing.
_Node: TypeAlias = tuple[int | None, Any, Any]
_Reading: TypeAlias = tuple[int, tuple[int, ...], Outcome | None]


class DecisionTrees(Generic[Outcome]):
    """The tree of some bodies, which grows as states are met.

    Args:
        names: For each body what errors call it.
        run: Runs the body of that place in a state.
        initial: Any state.

    Attributes:
        runs: How often a body has run.
    """

    def __init__(
        self, names: Sequence[str], run: Callable[[int, State], Recording[Outcome]], initial: State
    ) -> None:
        self._names = names
        self._run = run
        self.runs = 0
        self._roots = self._grow((), range(len(names)), initial)

    def outcomes(self, state: State) -> list[Outcome]:
        """Return what comes of the bodies in this state, always in the same order."""
        outcomes: list[Outcome] = []
        nodes = list(self._roots)
        for slot, content, origin in nodes:  # Grows meanwhile.
            if slot is None:
                outcomes += content
                continue
            try:
                nodes += content[state[slot]]
            except KeyError:
                path, bodies = origin
                content[state[slot]] = following = self._grow((*path, slot), bodies, state)
                nodes += following
        return outcomes

    def _grow(
        self, path: tuple[int, ...], bodies: Sequence[int], state: State
    ) -> tuple[_Node, ...]:
        """Run bodies that have read the path, and return what follows, grown to its ends."""
        self.runs += len(bodies)
        readings: list[_Reading[Outcome]] = []
        for body in bodies:
            slots, outcome = self._run(body, state)
            if slots[: len(path)] != path:
                raise RuleError(
                    f"{self._names[body]} is not pure: it has read the same values as before and "
                    "then read something else"
                )
            readings.append((body, slots, outcome))
        return self._nodes(len(path), readings, state)

    def _nodes(
        self, depth: int, readings: list[_Reading[Outcome]], state: State
    ) -> tuple[_Node, ...]:
        """Return the nodes for bodies that have read the same slots up to this depth."""
        going_on: dict[int, list[_Reading[Outcome]]] = {}
        outcomes = []
        for reading in readings:
            _, slots, outcome = reading
            if len(slots) > depth:
                going_on.setdefault(slots[depth], []).append(reading)
            elif outcome is not None:
                outcomes.append(outcome)
        nodes: list[_Node] = [(None, outcomes, None)] if outcomes else []
        for slot, alike in going_on.items():
            origin = alike[0][1][:depth], tuple(body for body, _, _ in alike)
            nodes.append((slot, {state[slot]: self._nodes(depth + 1, alike, state)}, origin))
        return tuple(nodes)
