"""Shared sequences: equal by their items, whichever way they came to be, and nothing is copied."""

from kchaos.checkers.model.values.shared import Shared
from tests.support.work import calls_of


def added(total: int, item: int) -> int:
    return total + item


def test_sequences_with_the_same_items_are_equal_whichever_way_they_came_to_be() -> None:
    grown = Shared((1, 2)).with_items((3,))
    cut = grown.with_items((4, 5)).first(3)
    other = Shared((1, 2, 3))

    assert grown == cut == other
    assert hash(grown) == hash(cut) == hash(other)
    assert grown != Shared((1, 2, 4))
    assert grown != grown.first(2)
    assert grown != (1, 2, 3)


def test_a_sequence_never_changes_when_others_grow_out_of_it() -> None:
    begun = Shared((1, 2))
    one, other, one_again = (begun.with_items((item,)) for item in (3, 4, 3))
    from_nothing = [Shared[int]().with_items((item,)) for item in (1, 2)]

    assert [*begun] == [1, 2]
    assert ([*one], [*other]) == ([1, 2, 3], [1, 2, 4])
    assert one == one_again
    assert [[*each] for each in from_nothing] == [[1], [2]]


def test_items_and_slices_are_those_of_a_tuple() -> None:
    items, longer = (10, 20, 30, 40), Shared((10, 20, 30, 40, 50))
    shared = longer.first(4)

    for start, stop, step in ((None, None, None), (-1, None, None), (1, 3, None), (None, None, -2)):
        assert shared[start:stop:step] == items[start:stop:step]
    assert (shared[0], shared[-1], len(shared)) == (10, 40, 4)
    assert [shared.place(offset, abs) for offset in (5, 20, 45, 55)] == [0, 1, 4, 4]


def test_a_fold_of_a_longer_sequence_takes_only_the_steps_that_are_new() -> None:
    shared = Shared(range(100))

    assert shared.fold("sum", 0, added) == sum(range(100))
    longer = shared.with_items((7,))
    assert calls_of(lambda: longer.fold("sum", 0, added)) < 5
    assert longer.fold("sum", 0, added) == sum(range(100)) + 7
    assert shared.first(3).fold("sum", 0, added) == 3
    assert shared.with_items((9,)).fold("sum", 0, added) == sum(range(100)) + 9
