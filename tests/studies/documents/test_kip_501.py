"""KIP-501's solutions over its own example, and the disadvantages that it names."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import ComparisonError, ModelError
from kchaos.studies.documents import kip_501_courses
from kchaos.studies.documents.comparison import Result
from kchaos.studies.documents.kip_501 import compare, compare_run
from kchaos.studies.documents.kip_501_courses import Course, play
from kchaos.studies.documents.kip_501_example import solution_of, worked_example
from kchaos.studies.documents.kip_501_solutions import (
    FIRST_HALF,
    SECOND_HALF,
    SHIPPED,
    SOLUTION_1,
    SOLUTION_2,
    Solution,
)
from kchaos.studies.documents.searching import SearchBounds
from kchaos.studies.explore.in_sync import FetchRead, Follower
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.slow_reads import slow_reads_run

ENABLE = "follower.fetch.pending.reads.insync.enable"
PROCESS_TIME = "follower.fetch.process.time.max.ms"
ALL = (1001, 1002, 1003)


def course(solution: Solution, *, by_assignment: bool = True, **example: Any) -> Course:
    return play(worked_example(**example), solution, by_assignment=by_assignment)


def told(seen: Course) -> list[tuple[float, int, tuple[int, ...]]]:
    return [(round(state.time, 2), state.leader, state.isr) for state in seen.states[1:]]


def test_shipped_code_drops_both_followers_of_the_example_until_they_fetch_again():
    assert told(course(SHIPPED)) == [
        (10.0, 1001, (1001,)),
        (25.52, 1001, (1001, 1002)),
        (25.52, 1001, ALL),
    ]
    assert told(course(SHIPPED, dies_at=20.0))[-1] == (20.0, -1, (1001,))


def test_the_first_half_alone_keeps_the_example_in_sync_and_the_second_half_alone_does_not() -> (
    None
):
    assert told(course(FIRST_HALF)) == []
    assert told(course(SOLUTION_1)) == []
    assert told(course(SECOND_HALF))[0] == (15.0, 1001, (1001,))


def test_a_course_has_no_leader_that_the_controller_does_not_elect(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kip_501_courses, "elect_for_offline", lambda *_: None)

    assert told(course(SOLUTION_1, dies_at=20.0)) == [(20.0, -1, (1001,))]
    assert told(course(SOLUTION_2, by_assignment=False))[0][1] == 1001


def test_under_solution_1_a_follower_leads_cleanly_when_the_slow_leader_dies():
    assert told(course(SOLUTION_1, dies_at=20.0)) == [(20.0, 1002, (1002, 1003))]


def test_the_second_half_counts_a_slow_read_from_its_end():
    before = Follower(
        log_end_offset=950, leader_log_end_offset=1002, fetched_at=0.0, caught_up_at=-0.5
    )
    fetch = FetchRead(offset=1002, log_end_offset=1100, read_at=0.5)

    assert SHIPPED.counted(before, fetch, 25.5).caught_up_at == 0.0
    assert SOLUTION_1.counted(before, fetch, 25.5).caught_up_at == 25.5


def test_a_fetch_that_waits_in_the_request_queue_keeps_nobody():
    for solution in (SOLUTION_1, SOLUTION_2):
        assert course(solution, dies_at=20.0, queued=True).offline_s > 0


def test_a_follower_that_is_down_is_dropped_under_every_solution():
    for solution in (SHIPPED, FIRST_HALF, SECOND_HALF, SOLUTION_1, SOLUTION_2):
        assert 1002 not in course(solution, down={1002: 0.2}).states[-1].isr


def test_one_that_dies_while_its_fetch_is_pending_stays_as_long_as_the_read_takes():
    dropped = [
        state.time for state in course(SOLUTION_1, down={1002: 1.0}).states if 1002 not in state.isr
    ]
    shipped = [
        state.time for state in course(SHIPPED, down={1002: 1.0}).states if 1002 not in state.isr
    ]

    assert (shipped[0], dropped[0]) == (10.0, 40.0)


def test_solution_2_moves_the_leader_only_if_elections_went_by_the_order_of_the_isr():
    assert {leader for _, leader, _ in told(course(SOLUTION_2))} == {1001}
    assert told(course(SOLUTION_2, by_assignment=False)) == [(1.0, 1002, (1002, 1003, 1001))]


def test_solution_2_goes_round_while_every_broker_is_slow():
    thrashed = course(SOLUTION_2, by_assignment=False, slow=frozenset(ALL))

    assert thrashed.moves == 49
    assert {state.leader for state in thrashed.states} == set(ALL)


def test_the_leadership_goes_round_among_live_brokers_only():
    thrashed = course(SOLUTION_2, by_assignment=False, slow=frozenset(ALL), down={1003: 0.1})

    assert {state.leader for state in thrashed.states} == {1001, 1002}


def test_a_broker_that_gives_up_as_well_is_elected_again_where_it_is_preferred():
    line = replace(worked_example(slow=frozenset(ALL)), assignment=(1002, 1003, 1001))

    assert [leader for _, leader, _ in told(play(line, SOLUTION_2))] == [1002, 1002]


@pytest.mark.parametrize(
    ("properties", "solution"),
    [
        ({}, SHIPPED),
        ({ENABLE: "false"}, SHIPPED),
        ({ENABLE: "true"}, SOLUTION_2),
        ({ENABLE: "true", PROCESS_TIME: "500"}, SOLUTION_2),
    ],
)
def test_the_document_s_properties_have_its_defaults(
    properties: Mapping[str, str], solution: Solution
):
    assert solution_of(properties) == solution


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({ENABLE: "yes"}, "true or false"),
        ({ENABLE: "true", PROCESS_TIME: "0"}, "above 0"),
        ({ENABLE: "true", PROCESS_TIME: "-5"}, "above 0"),
        ({PROCESS_TIME: "500"}, "applies only if"),
    ],
)
def test_what_the_document_does_not_allow_is_refused(properties: Mapping[str, str], why: str):
    with pytest.raises(ModelError, match=why):
        solution_of(properties)


@pytest.mark.slow
def test_the_comparison_says_what_of_the_document_is_reproduced_and_what_is_refuted():
    comparison = compare(SearchBounds(), print)

    assert [claim.holds for claim in comparison.claims] == [
        True,
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    assert comparison.cell("leader dies", "shipped").text == "nobody"
    assert comparison.cell("leader dies", "both").text == "1002"
    assert comparison.cell("down, pending", "both").numbers == {"dropped_at": 40.0}


@pytest.mark.parametrize("is_told", [False, True], ids=["held", "told"])
def test_a_recorded_run_is_played_under_every_rule_and_the_shipped_one_gives_what_was_recorded(
    is_told: bool, tmp_path: Path
):
    differences = compare_run(slow_reads_run(tmp_path / "run", is_told=is_told).seal().path, print)

    (claim,) = differences.claims
    assert claim.holds is True, claim
    name = "t-0 led by 0, epoch 0"
    assert differences.cell(name, "recorded").text.startswith("offline")
    assert differences.cell(name, "shipped").text.startswith("offline")
    assert differences.cell(name, "clock").result is Result.WRONG
    assert differences.cell("- offline", "both").text == "0.0 s"
    assert differences.cell("- gives up", "moves").text == "1"


def test_a_run_whose_leaders_told_nothing_is_refused_with_what_to_do(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()

    with pytest.raises(ComparisonError, match="name the points fetch-counted and isr-check"):
        compare_run(run.path, print)
