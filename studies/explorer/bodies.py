"""Runs bodies of moves and invariants in a state, and remembers what they read."""

from collections.abc import Mapping
from typing import TypeAlias

from kchaos.studies.explorer.decision_trees import Recording
from kchaos.studies.explorer.errors import RuleError
from kchaos.studies.explorer.interning import Interning, State
from kchaos.studies.explorer.system import Component, Invariant, Move, Value

# What a move does wherever its reads are the same: the xor that it makes to the fingerprint, the
# changes as slots with numbers, and the place of the move.
Step: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int]


class _Reading:
    """The `read` of one body in one state."""

    def __init__(self, name: str, interning: Interning, state: State) -> None:
        self.name = name
        self._interning = interning
        self._state = state
        self.slots: dict[int, None] = {}

    def read(self, component: Component) -> Value:
        slot = self.slot(component, "reads")
        return self._interning.values[slot][self._state[slot]]

    def slot(self, component: Component, verb: str) -> int:
        """Return a component's slot and note that what happens depends on its value."""
        slot = self._interning.slots.get(component)
        if slot is None:
            raise RuleError(
                f"{self.name} {verb} component {component!r}, which the system does not have; "
                f"it has {', '.join(map(repr, self._interning.components))}"
            )
        self.slots[slot] = None
        return slot


def run_move(interning: Interning, move: Move, place: int, state: State) -> Recording[Step]:
    """Return what a move reads in a state and the step that it makes.

    Raises:
        RuleError: It reads or changes a component that the system does not have, or its body fails.
    """
    reading = _Reading(name_of(move), interning, state)
    try:
        changes = move.body(reading.read)
    except (RuleError, MemoryError):
        raise
    except Exception as error:
        raise _failed(reading, interning, state, error) from error
    if changes is None:
        return tuple(reading.slots), None
    step = _step(reading, interning, state, changes, place)
    return tuple(reading.slots), step


def run_invariant(
    interning: Interning, name: str, invariant: Invariant, state: State
) -> Recording[tuple[str, str]]:
    """Return what an invariant reads in a state and, where it does not hold, its name and message.

    Raises:
        RuleError: It reads a component that the system does not have, or it fails.
    """
    reading = _Reading(f"invariant {name!r}", interning, state)
    try:
        message = invariant(reading.read)
    except (RuleError, MemoryError):
        raise
    except Exception as error:
        raise _failed(reading, interning, state, error) from error
    return tuple(reading.slots), (name, message) if message else None


def name_of(move: Move) -> str:
    """Return what errors call a move."""
    return f"move {move.label!r}"


def _step(
    reading: _Reading,
    interning: Interning,
    state: State,
    changes: Mapping[Component, Value],
    place: int,
) -> Step:
    """Return the changes as numbers. What is changed counts as read, so that the xor is fixed."""
    xor = 0
    numbers = []
    for component, value in changes.items():
        slot = reading.slot(component, "changes")
        number = interning.number(slot, value)
        if number != state[slot]:
            fingerprints = interning.fingerprints[slot]
            xor ^= fingerprints[state[slot]] ^ fingerprints[number]
            numbers.append((slot, number))
    return xor, tuple(numbers), place


def _failed(reading: _Reading, interning: Interning, state: State, error: Exception) -> RuleError:
    return RuleError(
        f"{reading.name} failed with {error!r} in the state {interning.mapping(state)}"
    )
