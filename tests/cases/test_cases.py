"""Discoveries on real brokers, one small file a case, judged by the model.

A case is a module of this folder with `RELEASES` (each with whether the run is safe), `STEPS` or
`steps(release)`, `seen(run, release)`, which asserts what the brokers did, from the evidence alone,
and where they differ from the usual `PROPERTIES`, `BROKERS`, `FIRST_BROKER`, the controller,
`KAFKA`, the releases of single brokers, `BROKER_PROPERTIES`, likewise, `LOG_DIRECTORIES`, how many
each broker has, and `LOGS`, an expression for the lines of brokers' logs that `seen` looks at. The
most telling ones are `late_leader_and_isr`, `one_way_cut_of_fetches` and `kafka_13141`.

A run of a case is stored (`python -m tests.golden.make --case NAME` plays its newest release) and
judged by every test run. CI plays the cases without one, and those that do what nothing else there
does (`tests.support.plays_of_ci`); `make cases` plays each case on each release. Stored runs show
both sides of each border (`tests/golden/borders`).
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.harness.run.runner import play
from kchaos.harness.run.scenario import Scenario, with_points
from tests.cases.plays import CASES, STORED_CASES, check, scenario_of_case
from tests.golden import stored
from tests.support.drivers import play_options
from tests.support.plays_of_ci import CASES_PLAYED, scenario_of_cell

CELLS = [
    pytest.param(name, release, id=f"{name}-{release}")
    for name, case in CASES.items()
    for release in case.RELEASES
]
PLAYED = [
    cell for cell in CELLS if cell.values in CASES_PLAYED or os.environ.get("KCHAOS_ALL_CASES")
]


@pytest.mark.cluster
@pytest.mark.parametrize(("name", "release"), PLAYED)
def test_brokers_do_what_the_case_says_and_what_the_model_predicts(
    name: str, release: str, tmp_path: Path
):
    run = play(scenario_of_case(name, release), options=play_options(tmp_path), say=lambda _: None)
    check(run, name, release)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED_CASES)
def test_the_stored_run_of_a_case_shows_what_it_says_and_what_the_model_predicts(
    name: str, tmp_path: Path
):
    results = stored.judged_as_stored(name, tmp_path / "judged", runs=stored.CASES)
    run = stored.unpacked(name, tmp_path, runs=stored.CASES)
    check(run, name, run.read("run.json")["release"], results)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED_CASES)
def test_the_stored_run_is_one_of_the_case_as_it_stands(name: str, tmp_path: Path):
    run = stored.unpacked(name, tmp_path, runs=stored.CASES)
    scenario = scenario_of_case(name, run.read("run.json")["release"])
    cluster = with_points(scenario.cluster, scenario.steps)
    as_written = json.loads(json.dumps(replace(scenario, cluster=cluster).to_json()))

    assert Scenario.from_json(run.read("scenario.json")) == Scenario.from_json(as_written)


def test_a_case_that_looks_at_logs_says_which_lines_are_stored():
    looking = {name for name, case in CASES.items() if hasattr(case, "log_lines")}
    assert looking == {name for name, case in CASES.items() if hasattr(case, "LOGS")}


def test_every_stored_run_is_of_a_case():
    assert {*STORED_CASES} <= {*CASES}


def test_a_case_is_data():
    for name, case in CASES.items():
        for release in case.RELEASES:
            scenario = scenario_of_cell(("", name, release))
            assert Scenario.from_json(scenario.to_json()) == scenario
