"""Plays of CI: nothing that entries and cases have is left out; the rest can be measured."""

import ast
from pathlib import Path

import pytest

from kchaos.checkers.model.releases.versions import parse_version
from kchaos.clusters.releases import KNOWN_RELEASES, LINES
from kchaos.faults import FAULTS
from kchaos.harness.campaign.cases import cells
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.steps.scenario_steps import STEPS
from tests.cases.plays import CASES, STORED_CASES, newest_release
from tests.support.parsing import parsed
from tests.support.plays_of_ci import (
    BORDERS,
    BOTH_DRIVERS,
    CASES_PLAYED,
    ENTRIES_PLAYED,
    IN_CONTAINERS,
    ON_NEW_JVMS,
    PERFORMED_BY_TESTS,
    PLAYED,
    SEEDS,
    SHARED,
    STARTED_WITH_KRAFT,
    STORED_ENTRIES,
    Cell,
    all_cells,
    exercised,
    is_green,
    measured_cells,
    plays_of_seed,
    scenario_of_cell,
    showing,
    started_by_tests,
)

_TESTS = Path(__file__).parents[1]


def exercised_by(plays: list[Cell]) -> set[str]:
    return set().union(*(exercised(scenario_of_cell(cell)) for cell in plays))


def test_every_entry_is_played_or_stored_that_has_more_than_long_cases() -> None:
    short = {name for name, entry in CATALOGUE.items() if {*entry.cases} - {*entry.measured_only}}

    assert short <= {*STORED_ENTRIES, *(entry for entry, _, _ in ENTRIES_PLAYED)}
    assert len(set(PLAYED)) == len(PLAYED)
    not_stored = {name for name, _, _ in ENTRIES_PLAYED} - {*STORED_ENTRIES}
    assert [name for name in not_stored if not {*showing(name)} & {*PLAYED}] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_of_every_seed_red_and_green_are_played_on_new_jvms(seed: str) -> None:
    played = ON_NEW_JVMS & {*plays_of_seed(seed)}

    assert {is_green(cell) for cell in played} == {True, False}


@pytest.mark.parametrize("name", BORDERS.values())
def test_of_the_entry_of_a_seed_the_last_red_and_the_first_green_are_played(name: str) -> None:
    played = [cell for cell in ENTRIES_PLAYED if cell[0] == name]

    assert {is_green(cell) for cell in played} == {True, False}


def test_every_step_and_fault_that_can_be_played_is() -> None:
    assert exercised_by(all_cells()) <= exercised_by(list(PLAYED)) | {*PERFORMED_BY_TESTS}


def test_a_case_is_played_on_a_release_that_other_tests_start() -> None:
    assert {release for _, release in CASES_PLAYED} <= {*SHARED}


@pytest.mark.parametrize("name", PERFORMED_BY_TESTS)
def test_what_no_play_has_to_go_through_is_performed_by_a_test_on_a_cluster(name: str) -> None:
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
def test_a_fault_that_no_entry_and_no_case_has_is_injected_by_a_test_on_a_cluster() -> None:
    injected = set().union(*map(made_on_clusters, _TESTS.rglob("test_*.py")))

    measured = exercised_by(measured_cells())
    assert set(FAULTS) - exercised_by(list(PLAYED)) - measured <= injected


def test_a_play_that_is_left_out_of_ci_can_be_measured() -> None:
    entries = list(CATALOGUE.values())
    measured = {(entry.name, case, release) for entry, case, release in cells(entries)}

    assert set(ENTRIES_PLAYED) < measured
    assert measured == {
        (name, *side) for name, entry in CATALOGUE.items() for side in entry.expectations
    }


def test_what_is_played_in_containers_is_played_with_processes_too() -> None:
    assert set(IN_CONTAINERS) <= set(ENTRIES_PLAYED)


@pytest.mark.parametrize("name", BOTH_DRIVERS)
def test_an_entry_is_played_in_containers_for_what_no_other_there_exercises(name: str) -> None:
    others = exercised_by([cell for cell in IN_CONTAINERS if cell[0] != name])

    assert {*STEPS, *FAULTS} & exercised_by([c for c in IN_CONTAINERS if c[0] == name]) - others


def test_the_oldest_and_the_newest_release_are_started_and_all_if_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = started_by_tests(KNOWN_RELEASES)
    with_kraft = started_by_tests(STARTED_WITH_KRAFT, is_kraft=True)

    assert (started[0], started[-1]) == (KNOWN_RELEASES[0], KNOWN_RELEASES[-1])
    assert with_kraft == [STARTED_WITH_KRAFT[0], STARTED_WITH_KRAFT[-1]]
    monkeypatch.setenv("KCHAOS_ALL_RELEASES", "1")
    assert started_by_tests(KNOWN_RELEASES) == [*KNOWN_RELEASES]
    assert started_by_tests(STARTED_WITH_KRAFT, is_kraft=True) == [*STARTED_WITH_KRAFT]


def test_of_every_line_with_kraft_alone_the_newest_release_can_be_started() -> None:
    newest = {line.known[-1] for line in LINES if line.modes == ("kraft",)}

    assert newest <= {*STARTED_WITH_KRAFT}
    assert max(newest, key=parse_version) == STARTED_WITH_KRAFT[-1]


def test_a_case_is_played_or_judged_from_its_stored_run() -> None:
    not_stored = {(name, newest_release(name)) for name in CASES if name not in STORED_CASES}
    assert not_stored - {*CASES_PLAYED} == set()
