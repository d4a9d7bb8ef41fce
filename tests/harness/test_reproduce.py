"""Plays of `kchaos reproduce` and `measure`: in turn or at once, and how progress is told."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.run_line import RunLine, line_at
from kchaos.harness.campaign import children
from kchaos.harness.campaign.campaign import judged, time_left
from kchaos.harness.campaign.cases import due_cases, measure, play_cases
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.catalogue import entry_named, with_brokers
from kchaos.harness.commands import judge_runs
from kchaos.harness.commands.cli import run
from kchaos.harness.exits import exit_code_for_lines
from tests.golden.stored import unpacked
from tests.support.processes import MARK, command_line, descendants, marked


@pytest.mark.parametrize(
    ("spent_s", "done", "wanted", "told"),
    [
        (0.0, 0, 8, ""),
        (12.0, 1, 1, ""),
        (12.0, 1, 4, " (about 36 s left)"),
        (60.0, 2, 8, " (about 3 min left)"),
    ],
)
def test_the_time_left_is_told_once_something_is_done(
    spent_s: float, done: int, wanted: int, told: str
):
    assert time_left(spent_s, done, wanted) == told


def test_of_plays_at_once_no_time_is_told_until_so_many_are_over():
    assert time_left(20.0, 1, 4, at_once=2) == ""
    assert time_left(22.0, 2, 4, at_once=2) == " (about 22 s left)"


def test_an_unknown_release_is_refused_before_the_first_cluster_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a cluster was started")

    monkeypatch.setattr("kchaos.harness.campaign.campaign.play", refuse)
    words = ["reproduce", "KAFKA-6361", "--kafka", "1.1.1", "--kafka", "7.0.0"]
    assert run([*words, "--side-by-side", "1", "--runs-dir", str(tmp_path)]) == 64
    assert "7.0.0" in capsys.readouterr().err


def test_single_brokers_of_an_entry_may_run_another_release():
    plain = k.scenario_of(k.CATALOGUE["KAFKA-6361"], "n20", "1.1.1")
    assert plain.expectation is not None
    mixed = with_brokers(plain, {1: "2.0.1"})
    kafkas = {broker.id: broker.kafka for broker in mixed.cluster.brokers}
    assert kafkas == {0: "1.1.1", 1: "2.0.1", 2: "1.1.1"}
    assert mixed.expectation is None
    assert mixed.steps == plain.steps


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["7=2.0.1"], "KAFKA-6361 n20 has no broker 7; its brokers are 0, 1, 2"),
        (["x=2.0.1"], "'x=2.0.1' is not like 1=2.0.1"),
        (["1="], "'1=' is not like 1=2.0.1"),
        (["1=2.0.1", "1=1.1.1"], "broker 1 is named twice"),
        (["1=9.0.0"], "'9.0.0' is no known Kafka release"),
    ],
)
def test_a_mixed_cluster_that_cannot_be_is_refused_before_one_starts(
    tmp_path: Path, named: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    brokers = [word for value in named for word in ("--broker", value)]
    command = ["reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1", *brokers]
    assert run([*command, "--runs-dir", str(tmp_path / "runs")]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


class StoredRuns(AbstractContextManager[Any]):
    """In place of children: each play has a stored run, which the scenario's release and case tell.

    The first play ends last. What is in `errors`, by case, is raised.
    """

    lines: dict[str, RunLine]
    errors: dict[str, Exception]
    others_ended: threading.Event
    stopped: int

    def __init__(self, **_options: Any) -> None: ...

    def play(self, scenario: k.Scenario) -> RunLine:
        if scenario.case == "n20" and scenario.release == "1.1.1":
            assert self.others_ended.wait(30)
        if error := self.errors.get(scenario.case):
            raise error
        return self.lines[scenario.release]

    def stop(self) -> None:
        type(self).stopped += 1

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[StoredRuns]:
    lines = {}
    for release in ("1.1.1", "2.0.1"):
        golden = unpacked("2.8.2", tmp_path / release)
        (golden.path / "judgements").mkdir(exist_ok=True)
        judged(golden, lambda _: None)
        lines[release] = line_at(golden.path)
    StoredRuns.lines, StoredRuns.errors, StoredRuns.stopped = lines, {}, 0
    StoredRuns.others_ended = threading.Event()
    monkeypatch.setattr(children, "Children", StoredRuns)
    return StoredRuns


def played_at_once() -> tuple[list[RunLine], list[str]]:
    """The lines in the order that was asked for, and what was said."""
    said: list[str] = []
    ended: list[int] = []

    def done(number: int, _line: RunLine) -> None:
        ended.append(number)
        if len(ended) == 3:
            StoredRuns.others_ended.set()

    options = k.RunOptions(offline=True)
    due = due_cases(
        entry_named("KAFKA-6361"),
        cases=("n20", "n15"),
        kafkas=("1.1.1", "2.0.1"),
        of_brokers={},
        runs=1,
        judged_as=None,
        mode=None,
        options=options,
        say=said.append,
    )
    lines = play_cases(due, side_by_side=4, options=options, say=said.append, done=done)
    assert len(ended) == 4
    return [replace(line, kafka="", drawn_s=None, wall_s=None) for line in lines], said


@pytest.mark.slow
def test_plays_at_once_are_told_as_they_end_and_returned_in_the_order_asked_for(
    stored: type[StoredRuns],
):
    lines, said = played_at_once()
    expected = [stored.lines[release] for release in ("1.1.1", "1.1.1", "2.0.1", "2.0.1")]
    assert lines == expected
    overs = [text for text in said if "is over" in text]
    assert overs[-1].startswith("1 of 4 is over: KAFKA-6361 n20 on 1.1.1: ")
    assert sum(text.startswith("== ") for text in said) == 4


@pytest.mark.slow
def test_a_play_that_was_killed_is_an_unknown_run_among_the_others(stored: type[StoredRuns]):
    stored.errors = {"n15": k.RunUnknown("a run was killed by signal 9")}
    lines, _ = played_at_once()
    whole, killed = lines[0], lines[1]
    assert whole == stored.lines["1.1.1"]
    assert (killed.run, killed.unknown) == ("", "a run was killed by signal 9")
    assert (killed.case, killed.release, killed.expected) == ("n15", "1.1.1", False)
    assert (killed.conforms, killed.safe) == (None, None)


def test_settings_of_a_file_come_beneath_those_of_a_bug_and_leave_the_end_to_the_model(
    tmp_path: Path,
):
    file = tmp_path / "server.properties"
    file.write_text("num.io.threads=16\nreplica.lag.time.max.ms=5\n")
    plain, own = (
        due_cases(
            entry_named("KIP-101-1"),
            cases=("clean-elections",),
            kafkas=("0.10.2.2",),
            of_brokers={},
            runs=1,
            judged_as=None,
            mode=None,
            properties=properties,
            options=k.RunOptions(offline=True),
            say=lambda _text: None,
        )[0].scenario
        for properties in (None, file)
    )
    assert own.cluster.properties == {"num.io.threads": "16", **plain.cluster.properties}
    assert (plain.expectation is None, own.expectation) == (False, None)


def test_a_killed_play_of_a_measurement_is_unknown_and_is_played_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    entry = entry_named("KIP-279-2")
    StoredRuns.errors = dict.fromkeys(entry.cases, k.RunUnknown("a run was killed by signal 9"))
    monkeypatch.setattr(children, "Children", StoredRuns)
    file = tmp_path / "results.jsonl"
    said: list[str] = []
    lines = measure(
        [entry.name],
        runs=2,
        results=file,
        side_by_side=2,
        options=k.RunOptions(offline=True),
        say=said.append,
    )
    assert (exit_code_for_lines(lines), ResultsFile(file).lines) == (2, [])
    assert any("NOT as expected" in text and "killed by signal 9" in text for text in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "raised"),
    [(k.UsageError("no"), k.UsageError), (RuntimeError("a defect"), RuntimeError)],
)
def test_a_play_that_is_refused_ends_the_others(
    error: Exception, raised: type[Exception], stored: type[StoredRuns]
):
    stored.errors = {"n15": error}
    stored.others_ended.set()
    with pytest.raises(raised):
        played_at_once()
    assert stored.stopped == (raised is k.UsageError)


@pytest.mark.cluster
def test_of_two_plays_at_once_the_killed_one_is_unknown_and_the_other_as_expected(tmp_path: Path):
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "kchaos", "reproduce", "KAFKA-6361", "--case", "n20", "--json"]
    command += ["--kafka", "1.1.1", "--kafka", "2.0.1", "--side-by-side", "2"]
    told = subprocess.Popen(
        [*command, "--runs-dir", str(runs)],
        env={**os.environ, MARK: str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    k.await_until(
        lambda: [*runs.glob("KAFKA-6361-n20-2.0.1-*/actions.jsonl")] != [],
        timeout_s=120,
        waiting_for="the play on 2.0.1 to begin",
        last_seen=lambda: [*runs.glob("*")],
    )
    (killed,) = [pid for pid in _plays(told.pid) if _plays_release(pid, "2.0.1")]
    (begun,) = [k.RunDirectory(run) for run in runs.glob("KAFKA-6361-n20-2.0.1-*")]
    assert begun.is_going_on
    os.kill(killed, signal.SIGKILL)
    said, progress = told.communicate(timeout=300)
    lines = {line["release"]: line for line in map(json.loads, said.splitlines())}
    assert told.returncode == 2, progress
    assert "killed by signal 9" in lines["2.0.1"]["unknown"]
    assert lines["2.0.1"]["run"] == ""
    assert not begun.is_going_on
    assert (lines["1.1.1"]["expected"], lines["1.1.1"]["safe"]) == (True, False)
    assert k.RunDirectory.open(Path(lines["1.1.1"]["run"])).verify() == ()
    assert marked(str(tmp_path)) == []


def _plays(pid: int) -> list[int]:
    """The plays below a process."""
    return [child for child in descendants(pid) if b"\0replay\0" in command_line(child)]


def _plays_release(pid: int, release: str) -> bool:
    """Whether brokers of that release are below a process."""
    return any(f"{release}.jar".encode() in command_line(child) for child in descendants(pid))


def test_of_plays_that_were_all_killed_spark_has_none_to_judge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    entry = entry_named("KIP-279-2")
    StoredRuns.errors = dict.fromkeys(entry.cases, k.RunUnknown("a run was killed by signal 9"))
    monkeypatch.setattr(children, "Children", StoredRuns)
    # Neither Kafka nor Java is needed: no play is begun, and there is nothing to judge.
    monkeypatch.setattr(
        "kchaos.harness.campaign.cases.fetch", lambda kafka, **_: SimpleNamespace(release=kafka)
    )
    monkeypatch.setattr(judge_runs, "require_spark", lambda *, offline: Path("java"))
    words = ["reproduce", entry.name, "--runs", "2", "--side-by-side", "2", "--spark", "--offline"]
    assert run([*words, "--runs-dir", str(tmp_path)]) == 2
    assert "Spark judges" not in capsys.readouterr().err
