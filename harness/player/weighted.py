"""Weighted choice of the next move or step, where only some are possible."""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TypeVar

_Drawn = TypeVar("_Drawn")
_EAGER = 2.5
"""Factor of eager kinds: writes where records of a leader epoch are still missing, since only
replicas with such records can come to differ."""


def drawn_move(
    random: Random,
    possible: Mapping[str, Iterable[_Drawn]],
    weights: Mapping[str, float],
    *,
    eager: Container[str] = (),
) -> _Drawn | None:
    """Return a move: a kind as its weight says, of which any move is as likely as the others.

    Returns None where none is possible. Of a kind that is not drawn no second move is looked for:
    each may take a simulation.

    Args:
        random: Draws.
        possible: What is possible now, by kind; a kind of which nothing is possible has no moves.
        weights: By kind, relative to the others.
        eager: Kinds that are drawn more often than their weight says.
    """
    moves = {kind: iter(of_kind) for kind, of_kind in possible.items()}
    first = {kind: move for kind, rest in moves.items() for move in islice(rest, 1)}
    if not first:
        return None
    kind = drawn_kind(random, tuple(first), weights, eager)
    return random.choice([first[kind], *moves[kind]])


def drawn_kind(
    random: Random, kinds: Sequence[str], weights: Mapping[str, float], eager: Container[str] = ()
) -> str:
    """Return one of the kinds, each as likely as its weight says, an eager one more so."""
    chances = [weights[kind] * (_EAGER if kind in eager else 1) for kind in kinds]
    (kind,) = random.choices(kinds, chances)
    return kind
