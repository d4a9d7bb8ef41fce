"""The same scenarios with processes and with containers: the same verdicts and findings."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.run_line import line_of
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.run.runner import RunOptions, play
from tests.support.drivers import play_options
from tests.support.plays_of_ci import (
    IN_CONTAINERS,
    ON_NEW_JVMS,
    Cell,
    in_one_process,
    scenario_of_cell,
)

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("docker_base")]

# What differs from run to run, whatever the driver. Coverage is among it: whether a follower asks
# for an epoch before its leader knows that it leads is a matter of moments.
_OWN = ("driver", "seconds", "service", "run", "started_at", "report", "played_by")
_COVERAGE = ("occasions", "points")


def played_line(cell: Cell, options: RunOptions) -> dict[str, Any]:
    played = judged(play(scenario_of_cell(cell), options=options, say=print), print)
    assert all(witness.found for witness in played.witness)
    return line_of(played).to_json()


def compared(line: Mapping[str, Any]) -> dict[str, Any]:
    """What is the same for both drivers."""
    left_out = {*_OWN, *_COVERAGE}
    same = {key: copy.deepcopy(value) for key, value in line.items() if key not in left_out}
    # Which errors a broker logs while others start and end is a matter of moments.
    same["findings"] = [each for each in same["findings"] if each["kind"] != "broker-error"]
    for each in (*same["findings"], *same["witness"]):
        # Times and folders that a log line has.
        for name in {"message", "seen"} & each.keys():
            del each[name]
    return same


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, id="-".join(cell), marks=in_one_process(cell)) for cell in IN_CONTAINERS],
)
def test_both_drivers_give_the_same_verdict_and_findings(
    cell: Cell, tmp_path: Path, played_with_processes: dict[Cell, dict[str, Any]]
):
    containers = played_line(cell, RunOptions(runs_directory=tmp_path, driver="docker"))
    # A second try plays both.
    options = play_options(tmp_path, new_jvms=cell in ON_NEW_JVMS)
    processes = played_with_processes.pop(cell, None) or played_line(cell, options)
    assert containers["driver"] == "docker"
    assert processes["driver"] == options.driver != "docker"
    assert compared(containers) == compared(processes)
    assert containers["expected"] is True
