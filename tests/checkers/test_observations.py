"""Observations are values that read themselves, and no other shape is one."""

import ast
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers import observations
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.observed import OBSERVATIONS, read_observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.observations import KINDS, Noted, observation_in
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.witness import witness_of
from kchaos.harness.play.recorder import Recorder

ROOT = Path(__file__).parents[2]
AT = {"time": 1.0, "step": 0}
LOG_END = {"kind": "log-end", "topic": "t", "partition": 0, "ends": {"0": 4}}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", run={}, scenario={})


@pytest.mark.slow
def test_each_kind_is_written_somewhere():
    names = {
        node.attr
        for room in ("faults", "harness")
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "observations"
    }

    assert {kind.__name__ for kind in KINDS.values()} <= names


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LOG_END | {"ends": {"0": "x"}}, r"ends: 0 is no whole number, but 'x'"),
        (LOG_END | {"ends": {"x": 4}}, "ends has 'x', which is no whole number"),
        (LOG_END | {"partition": None}, "partition is no whole number, but None"),
        ({"kind": "log-end", "topic": "t"}, "partition, ends missing"),
        ({"kind": "step", "name": 3}, "name is no text, but 3"),
        ({"kind": "act", "act": "StopBrocker", "zxid": 1}, "no act is named 'StopBrocker'"),
        ({"kind": "act", "act": "StopBroker", "zxid": 1, "broker": 0}, "clean missing"),
        (
            {"kind": "act", "act": "ReleaseHold", "zxid": 1, "name": "x", "broker": 0},
            "ReleaseHold has no field broker",
        ),
        ({"kind": 3}, "kind is no text, but 3"),
        ({"name": "x"}, "kind is no text, but None"),
    ],
)
def test_a_line_of_another_shape_is_refused_by_place_and_field(
    run: RunDirectory, line: dict[str, Any], said: str
):
    run.append(OBSERVATIONS, AT | LOG_END)
    run.append(OBSERVATIONS, AT | line)

    with pytest.raises(ScenarioDataError, match=rf"observations\.jsonl:2: {said}$"):
        list(read_observed(EvidenceFiles(run)))


def test_a_kind_of_somebody_s_own_is_read_as_it_was_noted(run: RunDirectory):
    noted = Noted(kind="slow-disk", fields={"broker": "x", "seconds": [1, 2]})
    Recorder(run).observed(noted)

    (line,) = run.read_lines(OBSERVATIONS)
    (seen,) = read_observed(EvidenceFiles(run))
    wanted = {"observed": {"kind": "slow-disk", "seconds": [1, 2]}}

    assert line == {"time": seen.time, "step": -1, "kind": "slow-disk", **noted.fields}
    assert seen.what == noted
    assert witness_of(wanted, RunEvidence(run)).found
    assert not witness_of({"observed": {"kind": "slow-disk", "seconds": 1}}, RunEvidence(run)).found


def test_what_kchaos_observes_itself_is_noted_by_nobody_else():
    for kind in KINDS:
        with pytest.raises(ValueError, match=f"kchaos itself observes '{kind}'"):
            Noted(kind=kind)


def test_a_note_has_no_field_that_every_line_has():
    with pytest.raises(ValueError, match="every line has step, time"):
        Noted(kind="mine", fields={"time": 1, "step": 2, "other": 3})


def test_a_witness_finds_an_observation_by_its_fields_as_they_are_in_the_file(run: RunDirectory):
    Recorder(run).observed(observations.LogEnd(topic="t", partition=0, ends={0: 4, 1: 5}))

    def is_there(**fields: Any) -> bool:
        return witness_of({"observed": {"kind": "log-end", **fields}}, RunEvidence(run)).found

    assert is_there(ends={"0": 4, "1": 5}, topic="t")
    assert not is_there(ends={"0": 4})
    assert not is_there(other=None, topic="u")


def test_a_field_that_a_kind_does_not_have_is_passed_over():
    assert observation_in(AT | LOG_END | {"more": 1}) == observations.LogEnd(
        topic="t", partition=0, ends={0: 4}
    )
