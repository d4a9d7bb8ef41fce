from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kchaos.studies.explorer import (
    BoundsError,
    Move,
    Permutation,
    Progress,
    Read,
    RuleError,
    System,
    explore,
)
from tests.support.small_systems import counters, exchanged


def one_number(*moves: Move, **invariants: Any) -> System:
    return System({"number": 1, "other": 0}, moves, invariants)


def doubled(read: Read) -> Mapping[Any, Any] | None:
    return {"number": read("number") * 2} if read("number") < 100 else None


def increased(read: Read) -> Mapping[Any, Any] | None:
    return {"number": read("number") + 1} if read("number") < 100 else None


def is_not_18(read: Read) -> str:
    return "it is 18" if read("number") == 18 else ""


def test_a_planted_violation_is_found_on_a_shortest_way():
    system = one_number(Move("increase", increased), Move("double", doubled), planted=is_not_18)
    explored = explore(system, most_states=1000)
    assert explored.violation is not None
    assert (explored.violation.invariant, explored.violation.message) == ("planted", "it is 18")
    assert explored.violation.trace[1:] == ("double", "double", "increase", "double")
    assert [state["number"] for state in explored.violation.states] == [1, 2, 4, 8, 9, 18]
    assert (explored.depth, explored.is_complete, explored.limit) == (6, False, "")


def test_a_space_without_a_violation_is_explored_as_a_whole():
    explored = explore(counters(2, 3, forbidden=(4, 4)), most_states=1000)
    assert (explored.distinct, explored.generated, explored.depth) == (16, 25, 7)
    assert (explored.is_complete, explored.violation, explored.limit) == (True, None, "")


def test_an_initial_state_that_breaks_an_invariant_has_a_trace_without_moves():
    explored = explore(counters(2, 3, forbidden=(0, 0)), most_states=1000)
    assert explored.violation is not None
    assert (explored.violation.trace, explored.violation.states) == ((), ({0: 0, 1: 0},))
    assert (explored.depth, explored.distinct) == (1, 1)


def test_several_moves_of_one_label_go_several_ways():
    coin = System(
        {"coin": "up"},
        [
            Move("toss", lambda read: {"coin": "heads"}),
            Move("toss", lambda read: {"coin": "tails"}),
        ],
        {"not tails": lambda read: "tails" if read("coin") == "tails" else ""},
    )
    explored = explore(coin, most_states=10)
    assert explored.violation is not None
    assert explored.violation.trace == ("toss",)
    assert explore(replace(coin, invariants={}), most_states=10).distinct == 3


def test_a_move_that_changes_nothing_is_counted_as_generated():
    explored = explore(one_number(Move("stay", lambda read: {})), most_states=10)
    assert (explored.distinct, explored.generated, explored.depth, explored.is_complete) == (
        1,
        2,
        1,
        True,
    )


def test_a_component_can_be_changed_without_being_read():
    system = replace(
        counters(2, 3), moves=[*counters(2, 3).moves, Move("reset", lambda read: {0: 0, 1: 0})]
    )
    assert explore(system, most_states=1000).distinct == 16


def test_a_body_runs_once_for_what_it_reads():
    runs = []

    def counted(read: Read) -> Mapping[Any, Any] | None:
        runs.append(read(0))
        return None

    system = counters(3, 4)
    explored = explore(
        replace(system, moves=[*system.moves, Move("counted", counted)]), most_states=1000
    )
    assert explored.distinct == 125
    assert sorted(runs) == [0, 1, 2, 3, 4]
    assert explored.runs == 5 + 3 * 5


def test_what_is_read_next_may_depend_on_what_was_read():
    def chosen(read: Read) -> Mapping[Any, Any] | None:
        return {"sum": read(read("which"))}

    system = System(
        {"which": "a", "a": 1, "b": 2, "sum": 0},
        [Move("choose", lambda read: {"which": "b"}), Move("take", chosen)],
    )
    explored = explore(system, most_states=100)
    assert (explored.distinct, explored.is_complete) == (5, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda read: {"nubmer": 1}, "'planted' changes component 'nubmer'"),
        (lambda read: {"other": read("nubmer")}, "'planted' reads component 'nubmer'"),
        (lambda read: {"number": [1]}, "which is not immutable"),
        (lambda read: {"number": 1.5}, "1.5 is a float, which has no fingerprint"),
        (lambda read: {"number": 1 // (read("number") - 1)}, r"ZeroDivisionError.*'number': 1"),
    ],
    ids=["changes-unknown", "reads-unknown", "mutable", "float", "fails"],
)
def test_a_move_that_does_not_fit_is_an_error_that_says_why(body: Any, words: str):
    with pytest.raises(RuleError, match=words):
        explore(one_number(Move("planted", body)), most_states=10)


def test_an_invariant_that_reads_what_is_not_there_is_an_error():
    with pytest.raises(RuleError, match="invariant 'planted' reads component 'nubmer'"):
        explore(one_number(planted=lambda read: read("nubmer")), most_states=10)


def test_a_body_that_is_not_pure_is_an_error():
    order = [0, 1, 2] * 10

    def unsteady(read: Read) -> Mapping[Any, Any] | None:
        read(order.pop())
        return None

    system = counters(3, 2)
    with pytest.raises(RuleError, match="move 'unsteady' is not pure"):
        explore(replace(system, moves=[*system.moves, Move("unsteady", unsteady)]), most_states=100)


@pytest.mark.parametrize(
    "bounds",
    [
        {"most_states": 0},
        {"most_states": -1},
        {"most_states": 1, "most_depth": 0},
        {"most_states": 1, "processes": 0},
        {"most_states": 1, "most_memory_mib": -5},
    ],
)
def test_a_bound_of_zero_or_less_is_an_error(bounds: dict[str, Any]):
    name, value = list(bounds.items())[-1]
    with pytest.raises(BoundsError, match=f"{name} is {value}; it must be 1 or more"):
        explore(counters(2, 3), **bounds)
    assert issubclass(BoundsError, ValueError)


def test_more_states_than_allowed_end_the_exploration_with_exactly_so_many():
    explored = explore(counters(2, 9), most_states=99)
    assert (explored.distinct, explored.limit, explored.is_complete) == (99, "most_states", False)


def test_a_space_that_just_fits_is_complete():
    explored = explore(counters(2, 9), most_states=100)
    assert (explored.distinct, explored.limit, explored.is_complete) == (100, "", True)


def test_levels_beyond_the_allowed_depth_are_not_looked_at():
    explored = explore(counters(2, 9), most_states=1000, most_depth=3)
    assert (explored.distinct, explored.depth) == (6, 3)
    assert (explored.limit, explored.is_complete) == ("most_depth", False)


def test_a_violation_in_the_last_allowed_level_is_found_and_none_behind_it():
    system = counters(2, 9, forbidden=(1, 1))
    assert explore(system, most_states=1000, most_depth=3).violation is not None
    assert explore(system, most_states=1000, most_depth=2).violation is None


def test_too_much_memory_ends_the_exploration_with_the_counts_so_far():
    explored = explore(counters(4, 40), most_states=10**9, most_memory_mib=1)
    assert (explored.limit, explored.is_complete) == ("most_memory_mib", False)
    assert explored.distinct > 1


def test_states_that_differ_by_an_exchange_of_what_is_alike_count_once():
    explored = explore(replace(counters(2, 3), symmetry=[exchanged(0, 1)]), most_states=1000)
    assert (explored.distinct, explored.depth, explored.is_complete) == (10, 7, True)


def test_a_trace_under_symmetry_is_one_of_real_moves():
    system = replace(counters(2, 3, forbidden=(2, 2)), symmetry=[exchanged(0, 1)])
    explored = explore(system, most_states=1000)
    assert explored.violation is not None
    state = {0: 0, 1: 0}
    moves: tuple[Any, ...] = explored.violation.trace
    for (_, counter), after in zip(moves, explored.violation.states[1:], strict=True):
        state[counter] += 1
        assert after == state
    assert state == {0: 2, 1: 2}


def test_a_permutation_that_is_not_one_to_one_is_an_error():
    onto_0 = Permutation(lambda counter: 0, lambda _, value: value)
    with pytest.raises(RuleError, match=r"nothing is mapped to \['1'\]"):
        explore(replace(counters(2, 3), symmetry=[onto_0]), most_states=10)


def test_progress_tells_the_counts_of_every_round():
    heard: list[Progress] = []
    explored = explore(counters(2, 3), most_states=1000, progress=heard.append)
    assert [(each.distinct, each.depth) for each in heard] == [
        (3, 2),
        (6, 3),
        (10, 4),
        (13, 5),
        (15, 6),
        (16, 7),
        (16, 7),
    ]
    assert (heard[-1].generated, heard[-1].distinct) == (explored.generated, explored.distinct)
    assert all(each.states_per_second > 0 for each in heard)
