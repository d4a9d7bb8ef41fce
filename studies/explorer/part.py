"""The part of a state space that one process explores: all of it, or what it found first."""

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kchaos.studies.explorer.bodies import Step, name_of, run_invariant, run_move
from kchaos.studies.explorer.decision_trees import DecisionTrees
from kchaos.studies.explorer.errors import RuleError
from kchaos.studies.explorer.interning import Interning, State
from kchaos.studies.explorer.memory import resident_mib
from kchaos.studies.explorer.system import Component, System, Value

# A state that was not known: its key, its fingerprints, the place in the frontier of the state that
# it follows from, and the step that leads from there.
Candidate: TypeAlias = tuple[int, int, int, Step]

# How many states are expanded before bounds are looked at: some hundredths of a second.
ROUND_STATES = 4096

# Into how many blocks of states that are alike a frontier is cut, for each part that gets some.
_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A state in which an invariant does not hold; the one with the least key is reported."""

    key: int
    invariant: str
    message: str
    index: int


class StateSpacePart:
    """States, level by level: `expand` finds candidates, `keep` takes those that are new.

    Attributes:
        known: Keys of states that need not be looked at again.
        generated: How many states were found, each as often as it was found.
        distinct: How many states were kept.
        broken: Among the kept states that break an invariant, the one with the least key.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._interning = interning = Interning(system)
        self._least = interning.least()
        initial = interning.initial
        moves, invariants = system.moves, tuple(system.invariants.items())
        self._moves = DecisionTrees[Step](
            [name_of(move) for move in moves],
            lambda place, state: run_move(interning, moves[place], place, state),
            initial,
        )
        self._invariants = DecisionTrees[tuple[str, str]](
            [f"invariant {name!r}" for name, _ in invariants],
            lambda place, state: run_invariant(interning, *invariants[place], state),
            initial,
        )
        self.known: set[int] = set()
        self.generated = 1
        self.distinct = 0
        self.broken: Broken | None = None
        # Of each kept state: the index of the one that it follows from, and the place of the move.
        self._parents = array("I")
        self._steps = array("I")
        self._expanded = 0
        self._first = 0
        self._states: list[State] = []
        self._fingerprints: list[int] = []
        self._next_states: list[State] = []
        self._next_fingerprints: list[int] = []
        self._begin()

    @property
    def remaining(self) -> int:
        """Number of states of this level that are still to be expanded."""
        return len(self._states) - self._expanded

    @property
    def runs(self) -> int:
        """Number of times that a body of a move or an invariant has run."""
        return self._moves.runs + self._invariants.runs

    @property
    def has_next(self) -> bool:
        """Whether the next level has states already."""
        return bool(self._next_states)

    def round(self, room: int) -> bool:
        """Expand some states and keep what is new; return whether that was more than the room."""
        candidates = self.expand()
        self.keep(candidates[:room])
        return len(candidates) > room

    def memory_mib(self) -> float:
        """Return how much memory the exploration holds."""
        return resident_mib()

    def expand(self) -> list[Candidate]:
        """Expand some more states of the level; return the unknown ones, known from now on."""
        begin = self._expanded
        self._expanded = end = min(len(self._states), begin + ROUND_STATES)
        known, least, outcomes = self.known, self._least, self._moves.outcomes
        candidates: list[Candidate] = []
        generated = 0
        for place in range(begin, end):
            fingerprints = self._fingerprints[place]
            steps = outcomes(self._states[place])
            generated += len(steps)
            for step in steps:
                successor = fingerprints ^ step[0]
                key = successor if least is None else least(successor)
                if key not in known:
                    known.add(key)
                    candidates.append((key, successor, place, step))
        self.generated += generated
        return candidates

    def keep(self, candidates: Sequence[Candidate]) -> None:
        """Take candidates as states of the next level, and check the invariants in them."""
        self.distinct += len(candidates)
        states, first, outcomes = self._states, self._first, self._invariants.outcomes
        for key, fingerprints, place, (_, changes, move) in candidates:
            state = after(states[place], changes)
            self._parents.append(first + place)
            self._steps.append(move)
            self._next_states.append(state)
            self._next_fingerprints.append(fingerprints)
            for invariant, message in outcomes(state):
                self._note_broken(key, invariant, message)

    def descend(self) -> bool:
        """Go on with the next level; return whether it has any states."""
        self._first += len(self._states)
        self._states, self._next_states = self._next_states, []
        self._fingerprints, self._next_fingerprints = self._next_fingerprints, []
        self._expanded = 0
        return bool(self._states)

    def way(self, broken: Broken) -> list[int]:
        """Return the places of the moves that lead to a state that breaks an invariant."""
        places: list[int] = []
        index = broken.index
        while index:
            places.append(self._steps[index])
            index = self._parents[index]
        places.reverse()
        return places

    def replay(
        self, places: Sequence[int]
    ) -> tuple[tuple[Hashable, ...], tuple[Mapping[Component, Value], ...]]:
        """Return the labels of the moves at these places, and the states on the way."""
        moves, interning = self._system.moves, self._interning
        states = [interning.initial]
        for place in places:
            _, step = run_move(interning, moves[place], place, states[-1])
            if step is None:
                raise RuleError(f"{name_of(moves[place])} is not pure: it was possible before")
            states.append(after(states[-1], step[1]))
        return tuple(moves[place].label for place in places), tuple(map(interning.mapping, states))

    def take_share(self, number: int, count: int) -> None:
        """Become part `number` of so many: with a share of the frontier, and of the keys.

        What this part keeps is counted from 0 again.
        """
        self.known = {key for key in self.known if owner(key, count) == number}
        first, size = self._first, len(self._states)
        # States that are alike lead to states that are alike, for which the same bodies run; of
        # larger blocks one part would get all that many states come from.
        alike = sorted(range(size), key=self._states.__getitem__)
        block = max(1, size // (count * _BLOCKS))
        places = [place for at, place in enumerate(alike) if at // block % count == number]
        self._first = len(self._parents)
        for place in places:
            self._parents.append(self._parents[first + place])
            self._steps.append(self._steps[first + place])
        self._states = [self._states[place] for place in places]
        self._fingerprints = [self._fingerprints[place] for place in places]
        self.generated = self.distinct = 0

    def _begin(self) -> None:
        initial = self._interning.initial
        whole = self._interning.fingerprint(initial)
        key = whole if self._least is None else self._least(whole)
        self.known.add(key)
        self.distinct = 1
        self._parents.append(0)
        self._steps.append(0)
        self._states.append(initial)
        self._fingerprints.append(whole)
        for invariant, message in self._invariants.outcomes(initial):
            self._note_broken(key, invariant, message)

    def _note_broken(self, key: int, invariant: str, message: str) -> None:
        if self.broken is None or key < self.broken.key:
            index = len(self._parents) - 1
            self.broken = Broken(key=key, invariant=invariant, message=message, index=index)


def owner(key: int, count: int) -> int:
    """Return which of so many parts decides whether a key is new.

    Not by the lowest bits: those are where a set of ints looks first, and keys that have them in
    common would crowd there.
    """
    return (key >> 32) % count


def after(state: State, changes: Sequence[tuple[int, int]]) -> State:
    """Return the state with these slots changed to these numbers."""
    numbers = list(state)
    for slot, number in changes:
        numbers[slot] = number
    return tuple(numbers)
