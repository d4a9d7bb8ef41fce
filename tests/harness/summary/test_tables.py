"""Tables of many runs: every column is told, no row is there twice, questions have answers."""

import contextlib
import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.exits import USAGE
from kchaos.harness.summary.tables import NO_DAY, TABLES, append, columns_page, rows_of
from tests.golden.stored import unpacked

pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs/tables.md"
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for number, release in enumerate(("1.1.1", "2.8.2", "tiered-3.9.1")):
        run = unpacked(release, folder)
        # Each in a night of its own.
        started_at = 1_790_000_000.25 + 86_400 * number
        write_judgement(run, replace(judge(run), started_at=started_at))
    (folder / "torn").mkdir()
    (folder / "torn/actions.jsonl").write_text("{")
    return folder


@pytest.fixture(scope="module")
def tables(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    assert kchaos(["tables", str(runs), "--output", str(folder)]) == 0
    return folder


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((folder / table).glob("day=*/rows.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def test_every_column_is_in_the_page_and_in_each_file(tables: Path):
    assert PAGE.read_text().endswith(columns_page())
    for name, columns in TABLES.items():
        for file in (tables / name).glob("day=*/*.parquet"):
            assert pq.read_schema(file).names == [column for column, _, _ in columns]


def test_runs_are_in_the_part_of_their_day_with_what_is_known(tables: Path):
    parts = sorted(path.name for path in (tables / "runs").iterdir())
    assert parts == ["day=2026-09-21", "day=2026-09-22", "day=2026-09-23", f"day={NO_DAY}"]
    by_run = {row["run"]: row for row in rows(tables, "runs")}
    diverged = by_run["golden-1.1.1"]
    assert (diverged["release"], diverged["safe"], diverged["conforms"]) == ("1.1.1", False, True)
    assert diverged["started"].isoformat() == "2026-09-21T14:13:20.250000+00:00"
    assert len(diverged["fingerprints"]) == 1
    assert diverged["build"] is None
    torn = by_run["torn"]
    assert (torn["safe"], torn["started"], torn["judged"]) == (None, None, None)
    assert "cannot be read" in torn["unknown"]


def test_a_run_that_ended_before_its_first_step_has_a_row_and_no_steps(tmp_path: Path):
    fields = {"entry": "x", "case": "", "release": "1.1.1", "driver": "local", "seed": 0}
    scenario: dict[str, Any] = {"expectation": None, "cluster": {"brokers": []}, "steps": []}
    run = RunDirectory.create(tmp_path / "run", run=fields, scenario=scenario)
    write_judgement(run, judge(run))

    assert kchaos(["tables", str(run.path), "--output", str(tmp_path / "tables")]) == 0

    assert [row["safe"] for row in rows(tmp_path / "tables", "runs")] == [None]
    assert rows(tmp_path / "tables", "steps") == []


def test_the_row_of_an_upgrade_names_the_pair(runs: Path, tmp_path: Path):
    def pair(path: Path) -> tuple[Any, Any]:
        _, rows = rows_of(path)
        (run,) = rows["runs"]
        return run["rolled_from"], run["rolled_to"]

    assert pair(unpacked("upgrade-2.1.1", tmp_path).path) == ("2.1.1", "2.2.2")
    assert pair(runs / "golden-1.1.1") == (None, None)


def test_what_there_is_none_of_is_null_and_never_minus_one(tables: Path):
    for name in TABLES:
        for row in rows(tables, name):
            chosen = [column for column, value in row.items() if value in (-1, "")]
            assert chosen == (["acks"] if row.get("acks") == -1 else []), (name, row)
    findings = rows(tables, "findings")
    assert {row["first_offset"] for row in findings} >= {None, 5}
    assert all(row["fingerprint"] for row in findings)


def test_each_table_has_what_the_runs_have(tables: Path, runs: Path):
    counts = {name: len(rows(tables, name)) for name in TABLES}
    assert counts["runs"] == 4
    played = [path for path in runs.iterdir() if path.name != "torn"]
    brokers = [json.loads((path / "run.json").read_text())["brokers"] for path in played]
    assert counts["brokers"] == sum(map(len, brokers))
    assert min(counts[name] for name in ("steps", "faults", "writes", "findings")) > 3
    faults = {row["fault"]: row for row in rows(tables, "faults") if row["run"] == "golden-1.1.1"}
    assert faults["CutLink"]["healed"] > faults["CutLink"]["injected"]
    assert faults["PreferredElection"]["healed"] is None
    assert {row["run"] for row in rows(tables, "witnesses")} <= {
        row["run"] for row in rows(tables, "runs")
    }


def test_a_second_judgement_and_a_second_call_double_no_row(runs: Path, tmp_path: Path):
    copies = tmp_path / "runs"
    shutil.copytree(runs, copies)
    folder = tmp_path / "tables"
    append(map(rows_of, [copies / "golden-1.1.1", copies / "golden-2.8.2"]), folder)
    before = {name: rows(folder, name) for name in TABLES}
    run = unpacked("1.1.1", tmp_path / "again")
    again = copies / "golden-1.1.1"
    started_at = 1_790_000_000.25
    write_judgement(type(run)(again), replace(judge(run), started_at=started_at))
    append([rows_of(again)], folder)
    append([rows_of(again)], folder)
    after = {name: rows(folder, name) for name in TABLES}
    assert {name: len(after[name]) for name in TABLES} == {
        name: len(before[name]) for name in TABLES
    }
    judged = [
        next(row["judged"] for row in told["runs"] if row["run"] == "golden-1.1.1")
        for told in (before, after)
    ]
    assert judged[0] < judged[1]


def test_tables_of_another_version_and_of_another_writer_stay(runs: Path, tmp_path: Path):
    import pyarrow

    file = tmp_path / "runs/day=2026-09-21/rows.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pyarrow.table({"run": ["old"]}), file)
    before = file.read_bytes()
    command = ["tables", str(runs / "golden-1.1.1"), "--output", str(tmp_path)]
    assert kchaos(command) == USAGE
    assert file.read_bytes() == before
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert kchaos(command) == USAGE


def test_the_page_has_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.fixture(scope="module")
def database(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What the page's first snippets make, in a folder with the runs."""
    duckdb = pytest.importorskip("duckdb")
    folder = tmp_path_factory.mktemp("pasted")
    (folder / "kchaos-runs").symlink_to(runs)
    first, second = re.findall(r"```(?:sh|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    with contextlib.chdir(folder):
        command, query = first.splitlines()
        assert kchaos(command.split()[1:]) == 0
        exec(second, {})
    with duckdb.connect(folder / "runs.duckdb", read_only=True) as connection:
        assert connection.sql(query.split('"')[1]).fetchall()
        yield connection


@pytest.mark.parametrize("question", QUESTIONS)
def test_duckdb_answers_each_question(question: str, database: Any):
    answer = database.sql(question)
    assert answer.columns
    answer.fetchall()


def test_no_column_is_a_word_of_sql(database: Any):
    words = database.sql(
        "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
    )
    columns = {column for columns in TABLES.values() for column, _, _ in columns}
    assert columns & {word for (word,) in words.fetchall()} == set()


def test_a_file_that_is_no_database_stays(runs: Path, tmp_path: Path):
    (tmp_path / "no").write_text("a diary")
    command = ["tables", str(runs), "--output", str(tmp_path / "tables"), "--duckdb"]
    assert kchaos([*command, str(tmp_path / "no")]) == USAGE
    assert (tmp_path / "no").read_text() == "a diary"


def test_duckdb_says_which_night_was_unsafe_and_what_was_new(database: Any):
    nights = [row[1:] for row in database.sql(QUESTIONS[0]).fetchall() if row[0] is not None]
    assert nights[:2] == [("1.1.1", 1, 1, 0), ("2.8.2", 1, 0, 0)]
    assert [row[1:3] for row in database.sql(QUESTIONS[1]).fetchall()] == [("divergence", "1.1.1")]


@pytest.mark.spark
def test_spark_answers_each_question(tables: Path, spark: Any):
    for table in TABLES:
        spark.read.parquet(f"{tables}/{table}").createOrReplaceTempView(table)
    answers = [spark.sql(question).collect() for question in QUESTIONS]
    nights = [tuple(row)[1:] for row in answers[0] if row["day"] is not None]
    assert nights[:2] == [("1.1.1", 1, 1, 0), ("2.8.2", 1, 0, 0)]
    assert [(row["kind"], row["release"]) for row in answers[1]] == [("divergence", "1.1.1")]
