"""Fingerprints of findings: plays of an entry share them, two entries never do."""

import dataclasses
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.evidence.about import Outcome, ScenarioAbout
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.fingerprint import fingerprints_of, with_fingerprints
from kchaos.checkers.json_form import from_json
from kchaos.checkers.observations import SettleOutcome
from kchaos.checkers.results import read_judgement, write_judgement
from tests.golden.stored import BORDERS, RELEASES, unpacked

DIVERGENCE = k.Finding(kind="divergence", topic="t", partition=0, brokers=(0, 1), message="")
SAME_STEPS = {"KIP-279-3", "KIP-279-old-protocol"}
"""The second plays the first's steps on a fixed jar: what it would find is the same bug."""
DIVERGING = [release for release in RELEASES if release.startswith(("1.0", "1.1", "0.11"))]


def described(scenario: Any) -> ScenarioAbout:
    data = json.loads(json.dumps(scenario.to_json()))
    return from_json(ScenarioAbout, data, allow_more=True)


def fingerprint(scenario: ScenarioAbout, finding: k.Finding = DIVERGENCE, **settled: Any) -> str:
    outcome = Outcome(finished=True, settle=SettleOutcome(state="converged", reasons=(), **settled))
    return fingerprints_of(scenario, outcome).of(finding)


@pytest.mark.slow
def test_the_stored_plays_of_a_scenario_share_the_fingerprint_of_each_kind(tmp_path: Path):
    seen: dict[str, set[str]] = defaultdict(set)
    plays = [unpacked(release, tmp_path) for release in DIVERGING]
    plays.append(unpacked("whole-1.1.1", tmp_path))
    for run in plays:
        for finding in k.judge(run).findings:
            seen[finding.kind].add(finding.fingerprint)
    assert len(plays) > 5
    assert {kind: len(each) for kind, each in seen.items()} == {
        "divergence": 1,
        "permitted-loss": 1,
    }
    assert seen["divergence"] != seen["permitted-loss"]


@pytest.mark.slow
def test_stored_runs_of_two_scenarios_share_no_fingerprint(tmp_path: Path):
    of_scenario: dict[str, set[str]] = defaultdict(set)
    for name, runs in (
        ("1.1.1", None),
        ("2.8.2", None),
        ("points-2.8.2", None),
        ("forged-2.0.1", None),
        ("list-offsets-2.8.2", None),
        ("kafka-9491-2.4.0", BORDERS),
        ("diverging-2.8.0-at-2.6", BORDERS),
        ("diverging-2.7.1-at-2.6", BORDERS),
    ):
        run = unpacked(name, tmp_path, runs=runs)
        scenario = RunEvidence(run).scenario
        of_scenario[scenario.entry] |= {finding.fingerprint for finding in k.judge(run).findings}
    assert len(of_scenario) == 7
    for first, second in itertools.combinations(of_scenario, 2):
        assert of_scenario[first], first
        assert not of_scenario[first] & of_scenario[second], (first, second)


@pytest.mark.slow
def test_no_two_entries_of_the_catalogue_share_a_fingerprint():
    entries: dict[str, set[str]] = defaultdict(set)
    for entry in k.CATALOGUE.values():
        for case, release in itertools.product(entry.cases, entry.default_releases):
            if not entry.cannot_show(case, release):
                entries[fingerprint(described(k.scenario_of(entry, case, release)))].add(entry.name)
    assert {name for names in entries.values() for name in names} == set(k.CATALOGUE)
    assert [names for names in entries.values() if len(names) > 1 and names != SAME_STEPS] == []


def test_the_number_of_records_and_the_release_change_no_fingerprint():
    entry = k.CATALOGUE["KAFKA-6361"]
    made = {
        fingerprint(described(k.scenario_of(entry, case, release)))
        for case in ("n15", "n20", "n25")
        for release in ("1.1.1", "2.0.1")
    }
    assert len(made) == 1


def test_other_numbers_of_brokers_change_no_fingerprint_and_other_roles_do():
    scenario = described(k.scenario_of(k.CATALOGUE["KAFKA-6361"], "n20", "1.1.1"))
    renamed = from_json(ScenarioAbout, _renamed(json.loads(json.dumps(_plain(scenario)))))
    assert renamed != scenario
    alone = dataclasses.replace(DIVERGENCE, brokers=(0,))
    moved = dataclasses.replace(DIVERGENCE, brokers=(1, 2))
    assert fingerprint(renamed, moved) == fingerprint(scenario)
    assert fingerprint(scenario, alone) != fingerprint(scenario)


@pytest.mark.parametrize("changed", [{"kind": "hole"}, {"evidence": {"what": "produce"}}])
def test_another_kind_or_subject_is_another_bug(changed: dict[str, Any]):
    scenario = described(k.scenario_of(k.CATALOGUE["KAFKA-6361"], "n20", "1.1.1"))
    other = dataclasses.replace(DIVERGENCE, **changed)
    assert fingerprint(scenario, other) != fingerprint(scenario)


def test_offsets_messages_and_snapshots_are_of_one_run_only():
    scenario = described(k.scenario_of(k.CATALOGUE["KAFKA-6361"], "n20", "1.1.1"))
    other = dataclasses.replace(
        DIVERGENCE, first_offset=7, last_offset=9, snapshot="final", message="generation 59, not 58"
    )
    assert fingerprint(scenario, other) == fingerprint(scenario)


def test_a_drawn_schedule_counts_by_the_roles_that_brokers_have_at_the_end():
    walk = ScenarioAbout(entry="chaos", steps=({"step": "Inject", "name": "a"},))
    other = ScenarioAbout(entry="chaos", steps=({"step": "Heal", "name": "b"},))
    shrunk = dataclasses.replace(walk, entry="shrunk")
    led = {"t-0": {"leader": 0, "isr": [0, 1]}}
    swapped = {"t-0": {"leader": 1, "isr": [0, 1]}}
    left = {"t-0": {"leader": 0, "isr": [0]}}
    assert fingerprint(walk, last_seen=led) == fingerprint(other, last_seen=swapped)
    assert fingerprint(walk, last_seen=led) != fingerprint(walk, last_seen=left)
    assert fingerprint(walk, last_seen=led) != fingerprint(shrunk, last_seen=led)


@pytest.mark.slow
def test_a_judgement_keeps_the_fingerprints(tmp_path: Path):
    run = unpacked("1.1.1", tmp_path)
    results = k.judge(run)
    write_judgement(run, results)
    stored = read_judgement(run, run.judgements()[-1])
    assert [finding.fingerprint for finding in stored.findings] == [
        finding.fingerprint for finding in results.findings
    ]
    assert all(len(finding.fingerprint) == 12 for finding in stored.findings)


def test_no_findings_have_no_fingerprints():
    assert with_fingerprints((), ScenarioAbout(), Outcome()) == ()


def _plain(scenario: ScenarioAbout) -> dict[str, Any]:
    return dataclasses.asdict(scenario)


def _renamed(value: Any, key: str = "") -> Any:
    """The scenario with brokers 0, 1 and 2 called 1, 2 and 0, and the topic by another name."""
    is_broker = key in ("id", "source", "target", "broker", "leader", "isr", "replicas")
    is_broker = is_broker or key in ("assignment", "brokers", "follower")
    match value:
        case dict():
            return {name: _renamed(value[name], name) for name in value}
        case list():
            return [_renamed(each, key) for each in value]
        case int() if is_broker and not isinstance(value, bool):
            return (value + 1) % 3
        case str() if key == "topic":
            return "other"
        case _:
            return value
