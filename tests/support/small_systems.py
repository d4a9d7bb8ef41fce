"""Systems whose states can be counted by hand."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from kchaos.studies.explorer import Move, Permutation, Read, System


def counters(count: int, most: int, forbidden: tuple[int, ...] | None = None) -> System:
    """So many counters that each go from 0 to `most`; all states are (most + 1) ** count."""

    def increase(counter: int, read: Read) -> Mapping[Any, Any] | None:
        value = read(counter)
        return {counter: value + 1} if value < most else None

    def differs(read: Read) -> str:
        return "there it is" if tuple(map(read, range(count))) == forbidden else ""

    moves = [Move(("increase", counter), partial(increase, counter)) for counter in range(count)]
    invariants = {"differs": differs} if forbidden is not None else {}
    return System(dict.fromkeys(range(count), 0), moves, invariants)


def exchanged(first: int, second: int) -> Permutation:
    """Two counters take each other's place."""
    places: dict[Any, Any] = {first: second, second: first}
    return Permutation(lambda counter: places.get(counter, counter), lambda _, value: value)
