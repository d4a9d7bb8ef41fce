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
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.run_directory import RunDirectory
from tests.support.clean_runs import clean_run, clean_snapshot

TOLD = ("zxid", "step", "codec")


def _edit(run: RunDirectory, name: str, lines: list[dict[str, Any]]) -> None:
    (run.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _without_place(run: RunDirectory) -> list[TimedEvent]:
    return [replace(timed, read_at="") for timed in RunEvidence(run).actions]


def test_a_produce_that_only_the_actions_have_is_refused(tmp_path: Path) -> None:
    build = clean_snapshot(clean_run(tmp_path / "run"))
    sent = Produce(operation="more", broker=0, topic="t", partition=0, records=("x",), acks=1)
    build.act(sent)

    with pytest.raises(ScenarioDataError, match="has the produce 'more'"):
        _ = RunEvidence(build.run).actions


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


def test_keys_of_some_records_alone_are_refused_with_their_line(tmp_path: Path) -> None:
    run = clean_run(tmp_path / "run").run
    invoked, ended = run.read_lines("history.jsonl")

    _edit(run, "history.jsonl", [invoked | {"keys": ["k"]}, ended])

    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:1 has 1 keys for 11 records"):
        _ = RunEvidence(run).actions


def test_actions_are_in_the_order_of_their_zxids_and_times(tmp_path: Path) -> None:
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    in_order = _without_place(run)

    _edit(run, "actions.jsonl", list(run.read_lines("actions.jsonl"))[::-1])

    assert _without_place(run) == in_order


@pytest.mark.parametrize(("records", "is_refused"), [(["both-0"], False), (["ghost"], True)])
def test_a_consumer_gets_only_records_that_somebody_sent(
    records: list[str], is_refused: bool, tmp_path: Path
) -> None:
    build = clean_run(tmp_path / "run")
    read = {"function": "read", "broker": 0, "topic": "t", "partition": 0}
    ended = {"records": records, "base_offset": 0, "promised": True}
    build.history("r", "invoke", **read).history("r", "ok", **read, **ended)
    run = clean_snapshot(build).seal()

    refused = [text for text in client_disagreements(RunEvidence(run)) if "no producer" in text]

    assert bool(refused) is is_refused
