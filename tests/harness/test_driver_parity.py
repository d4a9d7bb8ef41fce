"""The same scenarios with processes and with containers: the same verdicts and findings."""

from pathlib import Path
from typing import Any

import pytest

from harness.catalogue import entry_named, scenario_of
from harness.reproduce import judged
from harness.runner import RunOptions, play
from harness.verdicts import line_of

pytestmark = [pytest.mark.docker, pytest.mark.cluster]

# What differs from run to run, whatever the driver.
_OWN = ("driver", "seconds", "run")


def verdict_of(name: str, case: str, release: str, driver: str, runs: Path) -> dict[str, Any]:
    options = RunOptions(runs_directory=runs / driver, driver=driver)
    scenario = scenario_of(entry_named(name), case, release)
    one = judged(play(scenario, options=options, say=print), print)
    line = line_of(one.results)
    assert line["driver"] == driver
    assert all(witness.found for witness in one.results.witness)
    return {key: value for key, value in line.items() if key not in _OWN}


@pytest.mark.parametrize(
    ("name", "case", "release"),
    [
        ("KAFKA-6361", "n20", "1.1.1"),
        ("KAFKA-6361", "n20", "2.0.1"),
        ("KIP-101-2", "power-loss", "0.10.2.2"),
        ("KIP-101-2", "power-loss", "0.11.0.3"),
    ],
)
def test_both_drivers_give_the_same_verdict_and_findings(
    name: str, case: str, release: str, tmp_path: Path
) -> None:
    containers = verdict_of(name, case, release, "docker", tmp_path)
    processes = verdict_of(name, case, release, "local", tmp_path)
    assert containers == processes
    assert containers["expected"] is True
