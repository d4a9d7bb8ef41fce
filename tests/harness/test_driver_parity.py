"""The same scenarios with processes and with containers: the same verdicts and findings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.results import results_line
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue import entry_named, scenario_of
from kchaos.harness.commands.reproduce import judged
from kchaos.harness.run.runner import RunOptions, play

pytestmark = [pytest.mark.docker, pytest.mark.cluster]

# What differs from run to run, whatever the driver.
_OWN = ("driver", "seconds", "run", "started_at", "report", "played_by")


def verdict_of(name: str, case: str, release: str, driver: str, runs: Path) -> dict[str, Any]:
    options = RunOptions(runs_directory=runs / driver, driver=driver)
    scenario = scenario_of(entry_named(name), case, release)
    one = judged(play(scenario, options=options, say=print), print)
    line = results_line(one.results)
    assert line["driver"] == driver
    assert all(witness.found for witness in one.results.witness)
    # Which errors a broker logs while others start and end is a matter of moments.
    line["findings"] = [one for one in line["findings"] if one["kind"] != "broker-error"]
    for each in (*line["findings"], *line["witness"]):
        # Times and folders that a log line has.
        for name in {"message", "seen"} & each.keys():
            del each[name]
    return {key: value for key, value in line.items() if key not in _OWN}


# One for each way in which a bug shows; `kchaos reproduce --driver docker` plays the others too.
# The agent in containers is tested beside the driver.
ENTRIES = ("KAFKA-6361", "KIP-101-1", "KIP-101-2", "KIP-279-3")
# KRaft's metadata log is evidence from controllers and brokers alike: a loss shows that all came.
WITH_KRAFT = ("KIP-966-last-replica", "4.0.2")


def quick_cells() -> Iterator[tuple[str, str, str]]:
    """An entry's first case, on the last release with the bug; of the first entry, the fix too."""
    for entry in map(entry_named, ENTRIES):
        case = next(iter(entry.cases))
        known = [
            (release_of(release), expectation.is_green)
            for (name, release), expectation in entry.expectations.items()
            if name == case
        ]
        unsafe = [release for release, is_safe in known if not is_safe]
        safe = [release for release, is_safe in known if is_safe]
        fixed = sorted(safe)[:1] if entry.name == ENTRIES[0] else []
        for release in (*sorted(unsafe)[-1:], *fixed):
            yield entry.name, case, release.text
    name, of_kraft = WITH_KRAFT
    yield name, next(iter(entry_named(name).cases)), of_kraft


@pytest.mark.parametrize(("name", "case", "release"), list(quick_cells()))
def test_both_drivers_give_the_same_verdict_and_findings(
    name: str, case: str, release: str, tmp_path: Path
) -> None:
    containers = verdict_of(name, case, release, "docker", tmp_path)
    processes = verdict_of(name, case, release, "local", tmp_path)
    assert containers == processes
    assert containers["expected"] is True
