"""Judging folders of runs, comparing with Spark, and which error means which exit code."""

import errno
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.judge import judge as real_judge
from kchaos.checkers.run_line import FindingLine, RunLine, line_at
from kchaos.harness.commands import judge_runs
from kchaos.harness.commands.judge_runs import judge_paths, spark_agrees
from kchaos.harness.exits import exit_code_for_lines, exit_code_of, machine_error_in, refusal_text
from kchaos.harness.run.directories import find_runs
from tests.support.kafka_6361_runs import kafka_6361
from tests.support.run_lines import found


def finished_run(path: Path) -> Path:
    """A sealed run that conforms, is safe, and has one finding: a permitted loss."""
    return kafka_6361(path, "n20", "2.0.1").path


def judged(*paths: Path) -> tuple[list[RunLine], list[str]]:
    """The object of `--json` for each run, and what was said."""
    said: list[str] = []
    lines = judge_paths(paths, spark=False, master=None, output=None, offline=True, say=said.append)
    return list(lines), said


# -- which runs ---------------------------------------------------------------------------------


def test_a_folder_gives_its_runs_by_name_each_once_and_nothing_else(tmp_path: Path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "judgements-spark").mkdir()
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "latest").symlink_to("b")
    both = [tmp_path / "a", tmp_path / "b"]
    assert find_runs([tmp_path]) == both
    assert find_runs([tmp_path / "b", tmp_path, tmp_path / "latest"]) == [both[1], both[0]]


@pytest.mark.parametrize("mark", ["run.json", "scenario.json", "actions.jsonl", "manifest.json"])
def test_a_torn_run_counts_by_whatever_file_is_left(tmp_path: Path, mark: str):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / mark).write_text("")
    assert find_runs([tmp_path]) == find_runs([tmp_path / "torn"]) == [tmp_path / "torn"]


@pytest.mark.parametrize("name", ["empty", "none", "file"])
def test_a_path_without_runs_is_refused_by_name(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "run.json").write_text("{}")
    with pytest.raises(k.UsageError, match=f"{name} is no run directory, and holds none"):
        find_runs([tmp_path / "good", tmp_path / name])


# -- plain Python -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_damaged_run_among_good_ones_is_an_unknown_line_and_hides_no_other(tmp_path: Path):
    finished_run(tmp_path / "a")
    finished_run(tmp_path / "b")
    finished_run(tmp_path / "c")
    (tmp_path / "b" / "run.json").unlink()
    lines, said = judged(tmp_path)
    answers = [(line.conforms, line.safe, line.expected) for line in lines]
    assert answers == [(True, True, True), (None, None, False), (True, True, True)]
    assert [Path(line.run).name for line in lines] == ["a", "b", "c"]
    (complaint,) = [line for line in said if "cannot be judged" in line]
    assert complaint.startswith(f"{tmp_path / 'b'} ")
    assert "run.json is missing" in complaint
    assert exit_code_for_lines(lines) == 2


def test_the_verdict_is_said_once_by_the_line_of_the_run(tmp_path: Path):
    lines, said = judged(finished_run(tmp_path / "run"))

    assert (lines[0].conforms, lines[0].safe) == (True, True)
    assert [line.strip() for line in said if "conforms" in line] == []
    assert any("permitted-loss" in line for line in said)


def test_a_judgement_that_the_machine_refuses_to_keep_makes_no_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = finished_run(tmp_path / "run")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(run))

    with monkeypatch.context() as patched:
        patched.setattr("kchaos.checkers.run_directory.held", refuse)
        with pytest.raises(OSError, match="Read-only file system"):
            judged(run)

    # What has the folder's name is this run's alone.
    (run / "judgements").rmdir()
    (run / "judgements").write_text("")
    lines, _ = judged(run)
    assert (lines[0].safe, "no judgement can be written" in str(lines[0].unknown)) == (None, True)


@pytest.mark.slow
def test_each_run_is_told_before_the_next_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a", "b"):
        finished_run(tmp_path / name)
    begun: list[str] = []

    def judge(run: k.RunDirectory) -> k.Results:
        begun.append(run.name)
        return real_judge(run)

    monkeypatch.setattr(judge_runs, "judge", judge)
    lines = judge_paths(
        [tmp_path], spark=False, master=None, output=None, offline=True, say=lambda _: None
    )

    assert [(Path(next(lines).run).name, len(begun)) for _ in range(2)] == [("a", 1), ("b", 2)]
    assert next(lines, None) is None


def test_evidence_that_changed_after_the_seal_is_unknown(tmp_path: Path):
    finished_run(tmp_path / "a")
    segment = tmp_path / "a/snapshots/final/broker-0/t-0/00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    (line,), said = judged(tmp_path)
    assert (line.conforms, line.safe, line.expected) == (None, None, False)
    assert exit_code_for_lines([line]) == 2
    assert any("unknown: " in each for each in said)


def test_one_damaged_run_alone_is_refused(tmp_path: Path):
    finished_run(tmp_path / "a")
    (tmp_path / "a" / "run.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"run\.json is missing"):
        judged(tmp_path)


# -- Spark beside plain Python ------------------------------------------------------------------


def agreement(
    runs: Path, monkeypatch: pytest.MonkeyPatch, changed: Mapping[str, dict[str, Any]]
) -> tuple[bool, list[str]]:
    """Whether both agree when Spark gives plain Python's lines, changed for some runs."""
    lines, _ = judged(runs)
    spark = [replace(line, **changed.get(Path(line.run).name, {})) for line in lines]

    def in_tasks(_runs: Any, **_options: Any) -> Any:
        return spark

    monkeypatch.setattr(judge_runs, "_with_spark", in_tasks)
    said: list[str] = []
    return spark_agrees([runs], offline=True, say=said.append), said


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"conforms": False},
        {"safe": None},
        {"safe": False, "expected": False},
        {"expected": None},
        {"findings": (found("divergence"),)},
        {"findings": ()},
    ],
    ids=["conforms", "unknown", "unsafe", "expected", "other-finding", "no-finding"],
)
def test_spark_that_says_anything_else_does_not_agree_and_the_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
):
    finished_run(tmp_path / "a")
    finished_run(tmp_path / "b")
    agrees, said = agreement(tmp_path, monkeypatch, {"b": changed})
    assert not agrees
    complaint, count = said
    assert complaint.startswith("Spark and plain Python disagree on b: ")
    assert count == "Spark agrees with plain Python on 1 of 2 runs"


def test_spark_that_says_the_same_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    finished_run(tmp_path / "a")
    agrees, said = agreement(tmp_path, monkeypatch, {})
    assert (agrees, said) == (True, ["Spark agrees with plain Python on 1 of 1 runs"])


def test_findings_are_the_same_in_any_order_and_other_ones_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    finished_run(tmp_path / "a")
    first, other = found("divergence"), found("divergence", first_offset=7)
    judged(tmp_path)
    plain = replace(line_at(tmp_path / "a"), findings=(first, other))
    monkeypatch.setattr(judge_runs, "line_at", lambda _: plain)

    def agrees(*findings: FindingLine) -> bool:
        return agreement(tmp_path, monkeypatch, {"a": {"findings": findings}})[0]

    assert agrees(other, first)
    assert not agrees(first, first)
    for more in ({"kind": "hole"}, {"brokers": (0, 2)}, {"last_offset": 3}):
        assert not agrees(first, replace(other, **more))


# -- exit codes ---------------------------------------------------------------------------------

AWAITED = k.AwaitTimeout(waited_for="x", last_seen="y", remedy="", timeout_s=1)
EXITED = k.BrokerExited(name="broker 0", exit_code=1, last_lines=(), log="server.log")
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (k.ReleaseError("0.7"), 64),
        (k.UsageError("no such case"), 64),
        (k.ScenarioError("two snapshots"), 64),
        (RunDirectoryError("no run.json"), 64),
        (k.MachineError("no Java"), 69),
        (FULL, 69),
        (AWAITED, 2),
        (EXITED, 2),
        (k.ClusterError("odd"), 2),
        (k.FaultError("odd"), 2),
        (k.NoEffect("nothing came of it"), 2),
        (k.CheckError("odd"), 2),
        (OSError(errno.ENOENT, "No such file"), None),
        (ValueError("a defect"), None),
        (ExceptionGroup("several", [ValueError("a defect")]), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_error_has_the_exit_code_of_its_kind_and_a_defect_has_none(
    error: BaseException, code: int | None
):
    assert exit_code_of(error) == code


def chained(error: Exception, cause: Exception, *, explicit: bool) -> Exception:
    """The error as it is when it was raised from the cause, or while that was handled."""
    if explicit:
        error.__cause__ = cause
    error.__context__ = cause
    return error


@pytest.mark.parametrize("explicit", [True, False], ids=["cause", "context"])
def test_a_full_disk_is_found_behind_the_errors_that_it_caused(explicit: bool):
    full = OSError(errno.ENOSPC, "No space left on device")
    first = chained(RunDirectoryError("cannot write"), full, explicit=explicit)
    second = chained(k.HarnessError("cannot go on"), first, explicit=explicit)
    assert machine_error_in(second) is full
    assert exit_code_of(second) == 69


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some"),
        (errno.EROFS, "that you may read and write"),
        (errno.EACCES, "that you may read and write"),
        (errno.EMFILE, "limits"),
    ],
)
def test_what_the_machine_refuses_is_told_with_its_place_and_a_remedy(number: int, remedy: str):
    said = refusal_text(OSError(number, os.strerror(number), "/runs/x"))
    assert said.startswith(f"{os.strerror(number)} at /runs/x: ")
    assert remedy in said
    assert ("free some" in said) is (number == errno.ENOSPC)


def test_no_machine_error_is_seen_where_there_is_none():
    missing = OSError(errno.ENOENT, "No such file")
    error = chained(k.CheckError("cannot read"), missing, explicit=True)
    assert machine_error_in(error) is None
    assert machine_error_in(None) is None
    assert exit_code_of(error) == 2


def test_few_runs_are_judged_in_plain_python_and_many_or_when_asked_by_spark(
    monkeypatch: pytest.MonkeyPatch,
):
    said: list[str] = []
    required: list[bool] = []

    def require_spark(*, offline: bool) -> None:
        required.append(offline)

    monkeypatch.setattr(judge_runs, "require_spark", require_spark)

    def with_spark(wanted: bool | None, runs: int) -> bool:
        return judge_runs.with_spark(wanted, runs=runs, offline=True, say=said.append)

    few, many = judge_runs.SPARK_FROM - 1, judge_runs.SPARK_FROM
    monkeypatch.setattr(judge_runs, "_missing_for_spark", lambda: "")
    assert [with_spark(None, few), with_spark(None, many)] == [False, True]
    assert [with_spark(True, 1), with_spark(False, many)] == [True, False]
    assert len(required) == 2
    monkeypatch.setattr(judge_runs, "_missing_for_spark", lambda: "pyspark")
    assert with_spark(None, few) is False
    assert said == []
    assert with_spark(None, many) is False
    assert "pyspark is not installed" in said[0]
