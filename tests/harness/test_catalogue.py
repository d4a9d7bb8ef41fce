"""Every entry of the catalogue, as CI plays it: see `tests.support.plays_of_ci`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.run_line import line_of
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.catalogue import CATALOGUE, entry_named, in_order, scenario_of
from kchaos.harness.errors import UsageError
from kchaos.harness.run.runner import play
from kchaos.harness.run.scenario import Scenario, with_points
from kchaos.harness.steps.scenario_steps import Tell
from tests.golden import stored
from tests.support.drivers import play_options
from tests.support.plays_of_ci import (
    ENTRIES_PLAYED,
    ON_NEW_JVMS,
    STORED_ENTRIES,
    Cell,
    in_one_process,
    scenario_of_cell,
    showing,
)

PLAYED = [
    pytest.param(*cell, id="-".join(cell), marks=in_one_process(cell)) for cell in ENTRIES_PLAYED
]


def conformance_of(scenario: Scenario) -> bool:
    """A KRaft run that is safe and has findings has them about conformance."""
    assert scenario.expectation is not None
    if not scenario.cluster.is_kraft:
        return True
    return not (scenario.expectation["safe"] and scenario.expectation["findings"])


@pytest.mark.cluster
@pytest.mark.parametrize(("name", "case", "release"), PLAYED)
def test_an_entry_gives_what_it_says_and_conforms(
    name: str,
    case: str,
    release: str,
    tmp_path: Path,
    played_with_processes: dict[Cell, dict[str, Any]],
):
    said: list[str] = []
    scenario = scenario_of(entry_named(name), case, release)
    options = play_options(tmp_path, new_jvms=(name, case, release) in ON_NEW_JVMS)
    run = play(scenario, options=options, say=said.append)
    played = judged(run, said.append)
    shown = "\n".join([str(played.unknown), played.reason, *map(str, played.findings)])
    assert scenario.expectation is not None
    assert played.conforms is conformance_of(scenario), shown
    assert played.safe is scenario.expectation["safe"], shown
    assert played.expected is True, shown
    assert played.expectation_from == "scenario"
    assert all(witness.found for witness in played.witness)
    assert said, "nothing was told while it happened"
    played_with_processes[name, case, release] = line_of(played).to_json()


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED_ENTRIES)
def test_the_stored_run_is_one_of_the_entry_as_it_stands_and_gives_what_it_says(
    name: str, tmp_path: Path
):
    folder = STORED_ENTRIES[name]
    run = stored.unpacked(folder.name, tmp_path, runs=folder.parent)
    of_run = Scenario.from_json(run.read("scenario.json"))
    assert of_run.release is not None
    scenario = scenario_of(entry_named(name), of_run.case, of_run.release)
    cluster = with_points(scenario.cluster, scenario.steps)
    as_written = json.loads(json.dumps(replace(scenario, cluster=cluster).to_json()))

    results = stored.judged_as_stored(folder.name, tmp_path / "judged", runs=folder.parent)

    assert (name, of_run.case, of_run.release) in showing(name)
    assert _without_words(of_run) == _without_words(Scenario.from_json(as_written))
    assert results.conforms is conformance_of(scenario)
    assert (results.expected, results.expectation_from) == (True, "scenario")
    assert results.witness
    assert all(witness.found for witness in results.witness)


def _without_words(scenario: Scenario) -> Scenario:
    """Return a scenario without title and story, which may become plainer without a new run."""
    steps = [replace(step, text="") if isinstance(step, Tell) else step for step in scenario.steps]
    return replace(scenario, title="", steps=tuple(steps))


def test_a_scenario_survives_being_written_and_read():
    for entry in CATALOGUE.values():
        for case, release in entry.expectations:
            scenario = scenario_of_cell((entry.name, case, release))
            assert Scenario.from_json(scenario.to_json()) == scenario


def test_an_entry_says_its_source_and_its_releases_once():
    entry = entry_named("KAFKA-7128")
    assert {expectation.source for expectation in entry.expectations.values()} == {entry.source}
    assert entry.default_releases == ("2.0.0", "2.0.1")
    with pytest.raises(ValueError, match="KAFKA-7128: no expectation names a release"):
        replace(entry, expectations={}, default_releases=())


def test_entries_are_in_the_order_of_their_tickets_and_no_two_have_one_name():
    entry = entry_named("KAFKA-7128")
    later, family = replace(entry, name="KAFKA-10706"), replace(entry, name="KAFKA-7128-again")
    names = [*in_order([later, family, entry, entry])]
    assert names == ["KAFKA-7128", "KAFKA-7128-again", "KAFKA-10706"]
    with pytest.raises(ValueError, match="two entries are named 'KAFKA-7128'"):
        in_order([entry, replace(entry, title="another")])


def test_an_unknown_entry_is_refused_with_those_that_may_have_been_meant():
    with pytest.raises(UsageError, match=r"did you mean KAFKA-6361\b.* kchaos list shows them all"):
        entry_named("KAFKA-636")
    with pytest.raises(UsageError, match=r"^no bug .*'KAFKA-9999' in the catalogue; kchaos list"):
        entry_named("KAFKA-9999")


def test_an_unknown_case_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="n15, n20, n25, one-record"):
        scenario_of(entry_named("kafka-6361"), "n16", "1.1.1")


@pytest.mark.parametrize(
    ("entry", "case", "release", "why"),
    [
        ("KAFKA-12315", "twice", "2.0.1", "nearest release that can show it is 2.1.1"),
        ("KAFKA-12686", "next-epoch", "2.7.2", "does not log the wish .* nearest is 2.8.2"),
        ("KAFKA-12686", "next-epoch", "4.1.2", "no clusters with zookeeper: .* is 3.9.1"),
        ("KAFKA-14010", "session-ends", "2.6.3", "write the ISR themselves .* nearest is 2.7.2"),
        ("KAFKA-7601-new-format-again", "sessions-end", "2.8.2", "nobody follows O's old format"),
        ("KIP-380-upgrade-window", "first-roll", "2.1.1", "nearest release that can show it is 2"),
        ("KIP-380-upgrade-window", "two-rolls", "2.8.2", "from 2.1.1 to 2.2.2: run it on 2.2.2"),
        ("KIP-380-missed-bounce", "killed", "0.10.2.2", "case killed is 0.11.0.3"),
        ("KAFKA-7601-mixed-default", "rolled-to-3.0", "2.8.2", "no protocol 3.0; .* is 3.9.1"),
        ("KAFKA-19996", "with-zookeeper", "4.4.0", "no clusters with zookeeper; 3.9.1 has both"),
        ("KAFKA-7601-mixed-default", "default-protocol", "3.9.1", "at its own protocol; .* 2.8.2"),
    ],
)
def test_a_release_that_cannot_show_a_case_is_refused_with_the_nearest_that_can(
    entry: str, case: str, release: str, why: str
):
    with pytest.raises(UsageError, match=why):
        scenario_of(entry_named(entry), case, release)
