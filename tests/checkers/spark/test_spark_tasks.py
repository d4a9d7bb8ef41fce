"""Functions of Spark's tasks, without Spark."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.judge import judge
from kchaos.checkers.model.follow.search import PATIENCE
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import results_to_json
from kchaos.checkers.rules import Judged
from kchaos.checkers.spark import tasks
from kchaos.checkers.spark.rows import BATCHES, FINDINGS, RESULTS, TABLES, finding_row
from kchaos.checkers.store import Place, StoredPlace
from tests.golden.stored import unpacked
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.object_store import environment_for


def of_run(position: int, path: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of one run as they are written, by table."""
    made = tasks.rows_of_run(position, path, PATIENCE)
    return {table: rows.to_pylist() for table, rows in tasks._batches_of_runs([made]).items()}


@pytest.mark.slow
def test_a_rule_that_fails_makes_the_run_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    crashed = Judged(crashes=("Traceback\nTypeError: two",))
    monkeypatch.setattr(tasks, "apply_rules", lambda evidence: crashed)

    rows = of_run(0, run.path)

    (result,) = rows[RESULTS]
    assert (result["conforms"], result["safe"], result["expected"]) == (None, None, False)
    assert "a rule failed: TypeError: two" in result["unknown"]
    assert {row["role"] for row in rows[FINDINGS]} == {"crash"}


@pytest.mark.slow
def test_a_task_reads_and_follows_a_run_once_and_says_what_the_judge_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = unpacked("1.1.1", tmp_path)
    plain = judge(run)
    followed: list[Path] = []
    read: list[Path] = []
    read_evidence = RunEvidence.read

    def predict(evidence: RunEvidence, **options: Any) -> Any:
        followed.append(evidence.run.path)
        return predict_run(evidence, **options)

    def reading(evidence: RunEvidence) -> RunEvidence:
        read.append(evidence.run.path)
        return read_evidence(evidence)

    monkeypatch.setattr(tasks, "predict_run", predict)
    monkeypatch.setattr(RunEvidence, "read", reading)

    rows = of_run(3, run.path)

    assert followed == read == [run.path]
    (result,) = rows[RESULTS]
    assert (result["position"], result["safe"], result["conforms"]) == (3, False, True)
    assert json.loads(result["results"])["findings"] == json.loads(
        json.dumps(results_to_json(plain)["findings"])
    )
    chosen = [row["kind"] for row in rows[FINDINGS] if row["role"] == "found"]
    assert sorted(chosen) == sorted(finding.kind for finding in plain.findings)
    told = {row["fingerprint"] for row in rows[FINDINGS] if row["kind"] == chosen[0]}
    assert {finding.fingerprint for finding in plain.findings if finding.kind == chosen[0]} <= told
    assert None not in {row["fingerprint"] for row in rows[FINDINGS] if row["role"] == "found"}
    sides = {row["side"] for row in rows[BATCHES]}
    assert sides == {"observed", "predicted"}


def test_a_finding_without_offsets_has_null_in_its_row():
    finding = Finding(kind="replication-stopped", topic="t", partition=0, brokers=(1,), message="m")
    row = finding_row("a-run", "found", finding)
    assert (row["first_offset"], row["last_offset"], row["fingerprint"]) == (None, None, None)


@pytest.mark.slow
def test_what_is_no_run_is_one_unknown_row(tmp_path: Path):
    rows = of_run(0, tmp_path / "nothing")
    (row,) = rows[RESULTS]
    assert (row["results"], row["safe"]) == (None, None)
    assert "run.json is missing" in row["unknown"]
    assert rows[BATCHES] == rows[FINDINGS] == []


def rows_of(position: int, *, base_offset: int) -> tasks.Rows:
    """Rows of a run of one batch."""
    run = {"run": f"run-{position}"}
    result = run | {"position": position, "path": f"/runs/run-{position}", "expected": True}
    return {BATCHES: [run | {"base_offset": base_offset}], FINDINGS: [], RESULTS: [result]}


@pytest.mark.slow  # An error of pyarrow imports pandas.
def test_a_row_that_arrow_cannot_have_makes_its_run_unknown_and_no_other():
    pytest.importorskip("pyarrow")
    runs = [rows_of(0, base_offset=0), rows_of(1, base_offset=1 << 63), rows_of(2, base_offset=5)]

    made = {table: rows.to_pylist() for table, rows in tasks._batches_of_runs(runs).items()}

    assert [(row["run"], row["base_offset"]) for row in made[BATCHES]] == [
        ("run-0", 0),
        ("run-2", 5),
    ]
    assert [(row["position"], row["path"], row["expected"]) for row in made[RESULTS]] == [
        (0, "/runs/run-0", True),
        (1, "/runs/run-1", False),
        (2, "/runs/run-2", True),
    ]
    (unknown,) = (row["unknown"] for row in made[RESULTS] if row["unknown"] is not None)
    assert "int" in unknown


RUNS = [(number, f"/nowhere/{number}") for number in range(3)]
"""Runs as Spark gives them to a task; there is none at these paths."""


def judged(runs: Iterable[tuple[int, str]], folder: Place) -> list[str]:
    return [*tasks.judge_share((0, runs), patience=PATIENCE, folder=folder)]


@pytest.mark.slow
def test_a_task_counts_each_run_as_it_ends_and_leaves_one_file_of_each_table(tmp_path: Path):
    dataset = pytest.importorskip("pyarrow.dataset")
    counted = []

    def given() -> Iterator[tuple[int, str]]:
        for run in RUNS:
            counted.append(tasks.runs_ended(tmp_path))
            assert not list(tmp_path.glob("*/part-*"))
            yield run

    assert judged(given(), tmp_path) == []
    assert [*counted, tasks.runs_ended(tmp_path)] == [0, 1, 2, 3]
    assert [file.name for file in sorted(tmp_path.glob("*/*.parquet"))] == [
        "part-00000.parquet"
    ] * 3
    table = dataset.dataset(tmp_path / RESULTS).to_table()
    assert table["position"].to_pylist() == [0, 1, 2]


@pytest.mark.slow
def test_a_task_that_is_tried_again_leaves_no_row_twice_and_counts_no_run_twice(tmp_path: Path):
    dataset = pytest.importorskip("pyarrow.dataset")

    def lost() -> Iterator[tuple[int, str]]:
        yield RUNS[0]
        raise OSError("the executor is gone")

    with pytest.raises(OSError, match="the executor is gone"):
        judged(lost(), tmp_path)
    assert not [file for name in TABLES for file in (tmp_path / name).iterdir()]
    for _ in range(2):
        judged(RUNS, tmp_path)
    assert tasks.runs_ended(tmp_path) == 3
    assert dataset.dataset(tmp_path / RESULTS).count_rows() == 3


@pytest.mark.slow
def test_a_store_that_cannot_take_the_tables_is_told_before_a_run_is_judged(
    monkeypatch: pytest.MonkeyPatch,
):
    pytest.importorskip("pyarrow")
    for name, value in environment_for(9).items():
        monkeypatch.setenv(name, value)
    begun: list[tuple[int, str]] = []

    def given() -> Iterator[tuple[int, str]]:
        for run in RUNS:
            begun.append(run)
            yield run

    (why,) = judged(given(), StoredPlace("bucket", "judged"))
    assert "(http://127.0.0.1:9) does not answer" in why
    assert begun == []
