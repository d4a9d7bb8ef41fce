"""A sequence of which many states hold a part: to append to it or to cut its end copies nothing.

Equality and hash are those of the items, and the hash of each beginning is kept.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

Item = TypeVar("Item")
Folded = TypeVar("Folded")


class _Backbone:
    """Items that sequences share, each of which has a beginning of them.

    Attributes:
        hashes: Of each beginning; that of the empty one first.
        folds: By name, how long beginnings are and what they fold to.
    """

    __slots__ = ("folds", "hashes", "items")

    def __init__(self, items: Iterable[Any] = (), hashes: Iterable[int] = (0,)) -> None:
        self.items = [*items]
        self.hashes = [*hashes]
        self.folds: dict[Any, tuple[list[int], list[Any]]] = {}


class Shared(Sequence[Item]):
    """An immutable sequence.

    One that grows shares the items of the one before, unless that is empty. Where two grow apart
    the later one gets a copy, and each item after that is shared again.
    """

    __slots__ = ("_backbone", "_length")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._backbone = _Backbone()
        self._length = 0
        self._append(items)

    def _append(self, items: Iterable[Item]) -> None:
        for item in items:
            backbone, length = self._backbone, self._length
            if length < len(backbone.items):
                if backbone.items[length] == item:
                    self._length += 1
                    continue
                backbone = _Backbone(backbone.items[:length], backbone.hashes[: length + 1])
                self._backbone = backbone
            backbone.items.append(item)
            backbone.hashes.append(hash((backbone.hashes[-1], item)))
            self._length += 1

    def with_items(self, items: Iterable[Item]) -> "Shared[Item]":
        """Return the sequence with further items at its end."""
        if not self._length:
            return Shared(items)
        longer = self.first(self._length)
        longer._append(items)
        return longer

    def first(self, count: int) -> "Shared[Item]":
        """Return the first `count` items, which are all or fewer."""
        shorter = Shared.__new__(Shared)
        shorter._backbone, shorter._length = self._backbone, count
        return shorter

    def place(self, value: Any, key: Callable[[Item], Any]) -> int:
        """Return the index of the first item whose key is `value` or more; keys ascend."""
        return bisect_left(self._backbone.items, value, hi=self._length, key=key)

    def fold(self, name: object, begin: Folded, step: Callable[[Folded, Item], Folded]) -> Folded:
        """Return what `step` makes of `begin` and all items, one after the other.

        Values of beginnings are kept, so that an item that was appended is one more step. `name`
        stands for `begin` and `step`.
        """
        lengths, values = self._backbone.folds.setdefault(name, ([0], [begin]))
        place = bisect_right(lengths, self._length)
        done = lengths[place - 1]
        value: Folded = values[place - 1]
        if done < self._length:
            for item in self._backbone.items[done : self._length]:
                value = step(value, item)
            lengths.insert(place, self._length)
            values.insert(place, value)
        return value

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        """Return an item, or a tuple of some."""
        if isinstance(index, slice):
            places = range(self._length)[index]
            if places.step == 1:
                return tuple(self._backbone.items[places.start : places.stop])
            return tuple(self._backbone.items[place] for place in places)
        if not -self._length <= index < self._length:
            raise IndexError(index)
        item: Item = self._backbone.items[index if index >= 0 else self._length + index]
        return item

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shared) or self._length != other._length:
            return False
        if self._backbone is other._backbone:
            return True
        return hash(self) == hash(other) and self[:] == other[:]

    def __hash__(self) -> int:
        return self._backbone.hashes[self._length]

    def __repr__(self) -> str:
        return f"Shared({self[:]!r})"
