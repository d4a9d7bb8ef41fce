"""States as tuples of small numbers: a slot for each component, a number for each of its values."""

import struct
from collections.abc import Callable
from typing import TypeAlias

from kchaos.studies.explorer.errors import RuleError
from kchaos.studies.explorer.fingerprints import fingerprint
from kchaos.studies.explorer.system import Component, Permutation, System, Value

State: TypeAlias = tuple[int, ...]
_FIELD_BITS = 64


class Interning:
    """The numbers of components and values, and what they add to a state's fingerprint.

    With a symmetry, a state has a fingerprint for itself and one for each permutation of it, side
    by side in one int, so that one xor changes them all; the least of them is the state's key.

    Attributes:
        slots: Component to its place in a state.
        values: For each slot the values by their numbers.
        fingerprints: For each slot the fingerprints by the numbers of the values.
    """

    def __init__(self, system: System) -> None:
        self.components = tuple(system.initial)
        self.slots = {component: slot for slot, component in enumerate(self.components)}
        self.values: list[list[Value]] = [[] for _ in self.components]
        self.fingerprints: list[list[int]] = [[] for _ in self.components]
        self._numbers: list[dict[Value, int]] = [{} for _ in self.components]
        self._permutations = tuple(system.symmetry)
        for permutation in self._permutations:
            self._check(permutation)
        self.initial: State = tuple(
            self.number(slot, value) for slot, value in enumerate(system.initial.values())
        )

    def number(self, slot: int, value: Value) -> int:
        """Return the number of a value in a slot; a new value gets the next one."""
        numbers = self._numbers[slot]
        try:
            number = numbers.get(value)
        except TypeError as error:
            raise RuleError(
                f"component {self.components[slot]!r} was given {value!r}, which is not immutable"
            ) from error
        if number is None:
            self.fingerprints[slot].append(self._fingerprint(self.components[slot], value))
            number = numbers[value] = len(self.values[slot])
            self.values[slot].append(value)
        return number

    def fingerprint(self, state: State) -> int:
        """Return the fingerprints of a state, side by side."""
        whole = 0
        for slot, number in enumerate(state):
            whole ^= self.fingerprints[slot][number]
        return whole

    def mapping(self, state: State) -> dict[Component, Value]:
        """Return the components of a state with their values."""
        return {component: self.values[slot][state[slot]] for component, slot in self.slots.items()}

    def least(self) -> Callable[[int], int] | None:
        """Return what makes a key of fingerprints side by side; None where they are the key."""
        if not self._permutations:
            return None
        count = 1 + len(self._permutations)
        size, unpack = count * _FIELD_BITS // 8, struct.Struct(f"<{count}Q").unpack
        return lambda whole: int(min(unpack(whole.to_bytes(size, "little"))))

    def _fingerprint(self, component: Component, value: Value) -> int:
        whole = fingerprint(component, value)
        for place, permutation in enumerate(self._permutations, start=1):
            permuted = permutation.component(component), permutation.value(component, value)
            whole |= fingerprint(*permuted) << _FIELD_BITS * place
        return whole

    def _check(self, permutation: Permutation) -> None:
        images = [permutation.component(component) for component in self.components]
        if set(images) != set(self.components):
            missing = sorted(map(repr, set(self.components) - set(images)))
            unknown = sorted(map(repr, set(images) - set(self.components)))
            raise RuleError(
                "a permutation must map the components one to one to themselves; nothing is "
                f"mapped to {missing}, and these are none: {unknown}"
            )
