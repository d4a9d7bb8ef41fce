"""What clients sent is in the history alone, and is what the steps of the scenario ask for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.events import Produce, event_to_json
from kchaos.checkers.run_directory import RunDirectory
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of

TOLD = ("zxid", "step", "codec")


def _edit(run: RunDirectory, name: str, lines: list[dict[str, Any]]) -> None:
    (run.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _without_told(run: RunDirectory) -> None:
    lines = list(run.read_lines("history.jsonl"))
    kept = [{key: line[key] for key in line.keys() - set(TOLD)} for line in lines]
    _edit(run, "history.jsonl", kept)


def _without_place(run: RunDirectory) -> list[TimedEvent]:
    return [replace(timed, read_at="") for timed in RunEvidence(run).actions]


def _older(run: RunDirectory) -> None:
    """The run as format 2 has it: the produces stand among the actions too."""
    about = run.path / "run.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 2}))
    acted = [
        {"time": timed.time, "began": timed.began, "zxid": timed.zxid, "step": timed.step}
        | {"action": event_to_json(timed.event)}
        for timed in RunEvidence(run).actions
    ]
    _edit(run, "actions.jsonl", acted)
    _without_told(run)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"records": 12}, "another records than its step 0"),
        ({"topic": "u"}, "another topic than its step 0"),
        ({"partition": 3}, "another partition than its step 0"),
        ({"broker": 1}, "another broker than its step 0"),
        ({"acks": 1}, "another acks than its step 0"),
        ({"operation": "other"}, "belongs to step 0, which is no such Produce"),
        ({"one_record_batches": True, "records": 11}, "1 produces of step 0, which sent 11"),
    ],
)
def test_a_produce_is_what_its_step_asks_for(
    other: dict[str, Any], said: str, tmp_path: Path
) -> None:
    build = clean_run(tmp_path / "run")
    build.steps[0] |= {"topic": "t", "partition": 0, "broker": 0, "records": 11}
    assert judge(clean_snapshot(build).seal()).expected

    build = clean_run(tmp_path / "other")
    build.steps[0] |= other
    assert said in unknown_of(judge(clean_snapshot(build).seal()))


def test_a_run_of_format_2_is_read_as_one_of_format_3(tmp_path: Path) -> None:
    newer = clean_snapshot(clean_run(tmp_path / "newer")).seal()
    older = clean_snapshot(clean_run(tmp_path / "older")).seal(before=_older)

    assert any(isinstance(timed.event, Produce) for timed in RunEvidence(older).actions)
    assert _without_place(older) == _without_place(newer)
    assert judge(older).expected


def test_a_produce_that_only_the_actions_have_is_refused(tmp_path: Path) -> None:
    build = clean_snapshot(clean_run(tmp_path / "run"))
    sent = Produce(operation="more", broker=0, topic="t", partition=0, records=("x",), acks=1)
    build.act(sent)

    with pytest.raises(ScenarioDataError, match=r"does not leave to it: \['more'\]"):
        _ = RunEvidence(build.run).actions


def test_a_produce_without_what_the_model_is_told_makes_the_run_unknown(tmp_path: Path) -> None:
    run = clean_snapshot(clean_run(tmp_path / "run")).seal(before=_without_told)

    said = unknown_of(judge(run))

    assert "history.jsonl:1 lacks 'zxid'" in said
    assert "the model is not told of produce 'both'" in said
