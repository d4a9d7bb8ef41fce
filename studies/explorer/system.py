"""Transition systems to explore: components with values, moves that change them, and invariants.

A body gets one function, `read`, and what it reads is remembered: a body runs again only for values
that it has not been seen to read before. So a body must be pure, must ask for its components
through `read` alone, and does well to read first what decides most often that nothing can happen.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Component: TypeAlias = Hashable
Value: TypeAlias = Any
Read: TypeAlias = Callable[[Component], Value]
Body: TypeAlias = Callable[[Read], Mapping[Component, Value] | None]
Invariant: TypeAlias = Callable[[Read], str]


@dataclass(frozen=True, slots=True)
class Move:
    """Something that can happen.

    Attributes:
        label: What a trace shows for it.
        body: Returns the changed components with their new values, or None where the move is not
            possible. A move that is possible and changes nothing returns an empty mapping. What
            can go several ways is several moves.
    """

    label: Hashable
    body: Body


@dataclass(frozen=True, slots=True)
class Permutation:
    """A way to exchange what is alike, such as brokers of one release, that changes no behaviour.

    Attributes:
        component: A component to the one that takes its place; one to one.
        value: A component and a value of it to the value that takes its place. The component is
            the one that had the value before, so that a 1 can be a broker here and a leader epoch
            there.
    """

    component: Callable[[Component], Component]
    value: Callable[[Component, Value], Value]


@dataclass(frozen=True, slots=True)
class System:
    """A state space, as its first state and what can happen.

    Values are immutable and hashable: None, bool, int, str, bytes, enum members, and sequences,
    frozensets and frozen dataclasses of these.

    Attributes:
        initial: Every component with its first value; there are never others.
        moves: What can happen.
        invariants: Names to functions that return what is wrong, or "" where the invariant holds.
        symmetry: Permutations under which states count as one. Identity need not be listed. All
            products of the listed ones should be: a missing one only costs time.
    """

    initial: Mapping[Component, Value]
    moves: Sequence[Move]
    invariants: Mapping[str, Invariant] = field(default_factory=dict)
    symmetry: Sequence[Permutation] = ()
