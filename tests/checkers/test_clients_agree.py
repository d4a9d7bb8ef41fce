"""Writes of clients: in the history alone, and as the steps of the scenario ask for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.cross_checks.clients import client_disagreements
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.run_directory import RunDirectory
from tests.support.clean_runs import clean_run, clean_snapshot, cluster_of_two, unknown_of

TOLD = ("zxid", "step", "codec")


def _edit(run: RunDirectory, name: str, lines: list[dict[str, Any]]) -> None:
    (run.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _without_told(run: RunDirectory) -> None:
    lines = list(run.read_lines("history.jsonl"))
    kept = [{key: line[key] for key in line.keys() - set(TOLD)} for line in lines]
    _edit(run, "history.jsonl", kept)


def _without_place(run: RunDirectory) -> list[TimedEvent]:
    return [replace(timed, read_at="") for timed in RunEvidence(run).actions]


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
def test_a_produce_that_its_step_does_not_ask_for_is_refused(
    other: dict[str, Any], said: str, tmp_path: Path
) -> None:
    build = clean_run(tmp_path / "other")
    build.steps[0] |= other
    assert said in unknown_of(judge(clean_snapshot(build).seal()))


def test_a_produce_is_what_its_step_asks_for(tmp_path: Path) -> None:
    build = clean_run(tmp_path / "run")
    build.steps[0] |= {"topic": "t", "partition": 0, "broker": 0, "records": 11}
    assert judge(clean_snapshot(build).seal()).expected


def _named(line: dict[str, Any], step: str) -> dict[str, Any]:
    is_first = line["kind"] == "step" and line["step"] == 0
    return {"name": step} if is_first else {}


@pytest.mark.parametrize(
    ("step", "defines", "said"),
    [
        ("WriteInTurn", ["WriteInTurn"], ""),
        ("WriteInTurn", ["Another"], "belongs to step 0, which is no such Produce"),
        ("Produce", ["Produce"], "belongs to step 0, which is no such Produce"),
        ("Tell", ["Tell"], "belongs to step 0, which is no such Produce"),
        ("Tell", ["Tell"], "my_bug.py defines Tell, which is a step of kchaos"),
    ],
    ids=["own", "not defined", "a write of kchaos", "a step of kchaos", "its name"],
)
def test_what_a_step_of_ones_own_writes_is_judged_and_not_compared_with_its_fields(
    step: str, defines: list[str], said: str, tmp_path: Path
) -> None:
    def with_parts(run: RunDirectory) -> None:
        file = run.path / "scenario.json"
        parts = [{"name": "my_bug.py", "defines": defines, "source": "raise SystemExit"}]
        file.write_text(json.dumps(json.loads(file.read_text()) | {"parts": parts}))
        seen = list(run.read_lines("observations.jsonl"))
        _edit(run, "observations.jsonl", [line | _named(line, step) for line in seen])

    build = clean_run(tmp_path / "run")
    build.steps[0] = {"step": step, "operation": "turns", "topic": "t"}

    results = judge(clean_snapshot(build).seal(before=with_parts))

    if said:
        assert said in unknown_of(results)
    else:
        assert (results.conforms, results.safe, results.unknown) == (True, True, None)


def test_a_produce_that_only_the_actions_have_is_refused(tmp_path: Path) -> None:
    build = clean_snapshot(clean_run(tmp_path / "run"))
    sent = Produce(operation="more", broker=0, topic="t", partition=0, records=("x",), acks=1)
    build.act(sent)

    with pytest.raises(ScenarioDataError, match="has the produce 'more'"):
        _ = RunEvidence(build.run).actions


def test_a_produce_without_what_the_model_is_told_makes_the_run_unknown(tmp_path: Path) -> None:
    run = clean_snapshot(clean_run(tmp_path / "run")).seal(before=_without_told)

    said = unknown_of(judge(run))

    assert "history.jsonl:1 lacks 'zxid'" in said
    assert "the model is not told of produce 'both'" in said


@pytest.mark.parametrize(
    "told", [{"zxid": 3}, {"step": 0}, {"codec": "none"}, {"zxid": 3, "step": 0, "codec": "none"}]
)
def test_only_a_line_that_invokes_a_produce_is_told_to_the_model(
    told: dict[str, Any], tmp_path: Path
) -> None:
    run = clean_run(tmp_path / "run").run
    invoked, ended = run.read_lines("history.jsonl")

    _edit(run, "history.jsonl", [invoked, ended | {"records": ["x"]} | told])
    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:2 .* invokes no produce"):
        _ = RunEvidence(run).actions

    read = {"time": invoked["time"], "operation": "r", "type": "invoke", "function": "read"}
    fields = {"broker": 0, "topic": "t", "partition": 0}
    _edit(run, "history.jsonl", [invoked, ended, read | fields | told])
    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:3 .* invokes no produce"):
        _ = RunEvidence(run).actions


def test_a_produce_that_the_model_alone_is_told_of_is_named(tmp_path: Path) -> None:
    evidence = RunEvidence(clean_snapshot(clean_run(tmp_path / "run")).seal())
    assert list(client_disagreements(evidence)) == []
    sent = next(timed for timed in evidence.actions if isinstance(timed.event, Produce))
    assert isinstance(sent.event, Produce)

    more = replace(sent, step=1, event=replace(sent.event, operation="more"))
    evidence.actions = (*evidence.actions, more)

    assert list(client_disagreements(evidence)) == [
        "the model is told of produce 'more', which history.jsonl does not invoke"
    ]


def test_keys_of_some_records_alone_are_refused_with_their_line(tmp_path: Path) -> None:
    run = clean_run(tmp_path / "run").run
    invoked, ended = run.read_lines("history.jsonl")

    _edit(run, "history.jsonl", [invoked | {"keys": ["k"]}, ended])

    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:1 has 1 keys for 11 records"):
        _ = RunEvidence(run).actions


def _disagreements(path: Path, numbers: list[str], step: dict[str, Any]) -> list[str]:
    """What is said of a step `m` whose produces have these numbers."""
    build = cluster_of_two(path)
    for offset, number in enumerate(numbers):
        build.produce(f"m.{number}", 0, [f"m-{number}"], acks=-1, base_offset=offset)
        asked = build.steps.pop()
    build.steps.append(asked | {"operation": "m"} | step)
    return list(client_disagreements(RunEvidence(build.seal())))


def test_produces_are_numbered_as_their_step_has_batches(tmp_path: Path) -> None:
    batches = {"records": 5, "one_record_batches": True}
    first = ["0", "1", "2", "3"]
    assert _disagreements(tmp_path / "each", [*first, "4"], batches) == []

    for number in ("77", "5", "04", "-1", "x"):
        assert _disagreements(tmp_path / number, [*first, number], batches) == [
            f"produce 'm.{number}' belongs to step 0, which is no such Produce"
        ]


def test_a_produce_is_numbered_only_if_its_step_sends_each_record_alone(tmp_path: Path) -> None:
    together = {"records": 5, "one_record_batches": False}
    assert _disagreements(tmp_path / "numbered", ["3"], together) == [
        "produce 'm.3' belongs to step 0, which is no such Produce"
    ]

    build = clean_run(tmp_path / "together")
    build.steps[0] |= {"records": 11, "one_record_batches": True}
    said = list(client_disagreements(RunEvidence(build.seal())))
    assert "produce 'both' belongs to step 0, which is no such Produce" in said


def test_actions_are_in_the_order_of_their_zxids_and_times(tmp_path: Path) -> None:
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    in_order = _without_place(run)

    _edit(run, "actions.jsonl", list(run.read_lines("actions.jsonl"))[::-1])

    assert _without_place(run) == in_order


@pytest.mark.parametrize(
    ("accepts_error", "is_refused"), [(False, True), (True, False), (None, False)]
)
def test_a_step_that_takes_no_error_has_an_acknowledgement(
    accepts_error: bool | None, is_refused: bool, tmp_path: Path
) -> None:
    build = clean_run(tmp_path / "run")
    build.steps[0] |= {} if accepts_error is None else {"accept_error": accepts_error}
    run = clean_snapshot(build).seal()
    lines = list(run.read_lines("history.jsonl"))
    for line in lines:
        if line["type"] == "ok" and not line["probe"]:
            line |= {"type": "info", "base_offset": None, "promised": False}
    _edit(run, "history.jsonl", lines)

    said = [text for text in client_disagreements(RunEvidence(run)) if "ends the run" in text]

    assert bool(said) is is_refused
