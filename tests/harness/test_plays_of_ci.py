"""Plays of CI: nothing that entries and cases have is left out; the rest can be measured."""

import ast
from pathlib import Path

import pytest

from kchaos.faults import FAULTS
from kchaos.harness.campaign.cases import cells
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.steps.scenario_steps import Inject
from tests.cases.plays import CASES, STORED_CASES, newest_release
from tests.golden.kraft_scenarios import kraft_scenario
from tests.support.parsing import parsed
from tests.support.plays_of_ci import (
    BORDERS,
    CASES_PLAYED,
    ENTRIES_PLAYED,
    PERFORMED_BY_TESTS,
    PLAYED,
    SHARED,
    STORED_ENTRIES,
    Cell,
    all_cells,
    exercised,
    is_green,
    measured_cells,
    scenario_of_cell,
    showing,
)

_TESTS = Path(__file__).parents[1]


def exercised_by(plays: list[Cell]) -> set[str]:
    return set().union(*(exercised(scenario_of_cell(cell)) for cell in plays))


def test_every_entry_is_played_or_stored_that_has_more_than_long_cases():
    short = {name for name, entry in CATALOGUE.items() if {*entry.cases} - {*entry.measured_only}}

    assert short <= {*STORED_ENTRIES, *(entry for entry, _, _ in ENTRIES_PLAYED)}
    assert len(set(PLAYED)) == len(PLAYED)
    not_stored = {name for name, _, _ in ENTRIES_PLAYED} - {*STORED_ENTRIES}
    assert [name for name in not_stored if not {*showing(name)} & {*PLAYED}] == []


@pytest.mark.parametrize("name", BORDERS.values())
def test_of_the_entry_of_a_seed_the_last_red_and_the_first_green_are_played(name: str):
    played = [cell for cell in ENTRIES_PLAYED if cell[0] == name]

    assert {is_green(cell) for cell in played} == {True, False}


def test_every_step_and_fault_that_can_be_played_is():
    assert exercised_by(all_cells()) <= exercised_by(list(PLAYED)) | {*PERFORMED_BY_TESTS}


def test_a_case_is_played_on_a_release_that_other_tests_start():
    assert {release for _, release in CASES_PLAYED} <= {*SHARED}


@pytest.mark.parametrize("name", PERFORMED_BY_TESTS)
def test_what_no_play_has_to_go_through_is_performed_by_a_test_on_a_cluster(name: str):
    assert name in made_on_clusters(_TESTS / PERFORMED_BY_TESTS[name])


def made_on_clusters(file: Path) -> set[str]:
    """Return the names that a file of tests on clusters calls, as it does faults and steps.

    It is empty for a file that has no such test.
    """
    text = file.read_text()
    if "pytest.mark.cluster" not in text:
        return set()
    called = [node.func for node in ast.walk(parsed(text)) if isinstance(node, ast.Call)]
    return {ast.unparse(function).removeprefix("k.") for function in called}


@pytest.mark.slow
def test_a_fault_that_no_entry_and_no_case_has_is_injected_by_a_test_on_a_cluster():
    injected = set().union(*map(made_on_clusters, _TESTS.rglob("test_*.py")))
    played = kraft_scenario("3.9.1-voters-changed")
    injected |= {type(each.fault).__name__ for each in played.steps if isinstance(each, Inject)}

    measured = exercised_by(measured_cells())
    assert set(FAULTS) - exercised_by(list(PLAYED)) - measured <= injected


def test_a_play_that_is_left_out_of_ci_can_be_measured():
    entries = list(CATALOGUE.values())
    measured = {(entry.name, case, release) for entry, case, release in cells(entries)}

    assert set(ENTRIES_PLAYED) < measured
    assert measured == {
        (name, *side) for name, entry in CATALOGUE.items() for side in entry.expectations
    }


def test_a_case_is_played_or_judged_from_its_stored_run():
    not_stored = {(name, newest_release(name)) for name in CASES if name not in STORED_CASES}
    assert not_stored - {*CASES_PLAYED} == set()
