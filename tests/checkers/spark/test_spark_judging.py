"""Spark and the plain judge say the same, run by run."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from kchaos.checkers.errors import CheckError, SparkError
from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results, results_to_json
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.spark import job, judge_runs
from kchaos.checkers.spark.rows import RESULT_TABLE, arrow_schema
from tests.support.planted_runs import all_runs

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Both:
    """Every run, judged both ways."""

    plain: dict[str, Any]
    spark: dict[str, Any]
    output: Path
    told: list[tuple[int, int]]
    """What was told of its progress."""


def comparable(results: Any) -> Any:
    """As JSON; of a crash only that it was there, since its traceback says where it ran."""
    if results is None:
        return None
    told = json.loads(json.dumps(results))
    return told | {"crashes": len(told["crashes"])}


def as_json(results: Results) -> Any:
    return results_to_json(results) if results.judged_by else None


def plainly(path: Path) -> Any:
    try:
        return results_to_json(judge(RunDirectory.open(path)))
    except CheckError:
        return None


@pytest.fixture(scope="module")
def both(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Both:
    runs = all_runs(tmp_path_factory.mktemp("runs"))
    told: list[tuple[int, int]] = []
    judgement = judge_runs(runs, progress=lambda *counts: told.append(counts))
    assert [result.path for result in judgement.results] == runs
    assert isinstance(judgement.output, Path)
    return Both(
        plain={path.name: comparable(plainly(path)) for path in runs},
        spark={result.run: comparable(as_json(result)) for result in judgement.results},
        output=judgement.output,
        told=told,
    )


def parquet(folder: Path) -> list[dict[str, Any]]:
    from pyarrow import dataset

    rows: list[dict[str, Any]] = dataset.dataset(folder).to_table().to_pylist()
    return rows


def test_results_are_equal_for_every_run(both: Both):
    assert both.spark == both.plain


def test_every_run_has_one_row_of_results_and_what_is_judged_is_told_before_the_end(both: Both):
    rows = parquet(both.output / "results")
    assert sorted(row["position"] for row in rows) == list(range(len(both.plain)))
    tables = {"batches", "findings", "results"}
    assert {path.name for path in both.output.iterdir()} - {"spark.log"} == tables
    # How often it is told depends on the machine's speed.
    assert all(0 < ended <= runs == len(both.plain) for ended, runs in both.told)


def test_the_runs_are_as_different_as_they_were_built(both: Both):
    def answers(run: str) -> tuple[Any, ...]:
        told = both.spark[run]
        return told["conforms"], told["safe"], told["expected"]

    assert answers("n20-1.1.1") == (True, False, True)
    assert answers("n20-2.0.1") == (True, True, True)
    assert answers("as-expected") == (True, False, True)
    assert answers("corrupt-batch")[1] is False
    assert answers("written-by-others") == (None, False, False)
    assert answers("deleted-by-others") == (None, None, False)
    assert answers("kraft-with-a-loss") == (None, False, False)
    assert answers("kraft-without-definitions") == (None, None, False)
    assert answers("torn-segment-before-the-last")[1] is False


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("unsealed", "not sealed"),
        ("changed-after-the-seal", "is not what was sealed"),
        ("segment-without-an-offset", "copy-of-a-segment.log"),
        ("reason-without-a-kind", "outcome.json: settle: reasons: no finding is named None"),
        (
            "setting-of-another-type",
            "the rules failed: zookeeper/: topic t has min.insync.replicas",
        ),
        ("act-of-another-type", "actions.jsonl:6: action: min_insync_replicas is no whole"),
    ],
)
def test_what_cannot_be_judged_is_unknown_and_the_others_go_on(both: Both, run: str, why: str):
    told = both.spark[run]

    assert (told["conforms"], told["safe"], told["expected"]) == (None, None, False)
    assert why in told["unknown"]


def test_a_high_watermark_that_the_model_excludes_is_not_as_predicted(both: Both):
    told = both.spark["impossible-high-watermarks"]

    assert (told["conforms"], told["safe"]) == (False, True)
    chosen = [finding for finding in told["findings"] if "was seen at 99" in finding["message"]]
    assert {each["kind"] for each in chosen} == {"not-as-predicted"}
    assert sorted(each["brokers"] for each in chosen) == [[0], [7]]


def test_a_follower_that_was_dropped_while_it_waited_makes_its_run_unsafe(both: Both):
    told = both.spark["follower-dropped-while-it-waits"]

    chosen = [(finding["kind"], finding["brokers"]) for finding in told["findings"]]
    assert ("offline-partition", [1]) in chosen


def test_a_model_that_fails_leaves_only_conformance_unknown(both: Both):
    told = both.spark["impossible-action"]

    assert (told["conforms"], told["safe"]) == (None, True)
    assert "the model failed: ModelError" in told["unknown"]


def test_what_goes_wrong_between_generations_is_found(both: Both):
    told = both.spark["late-request-obeyed"]

    assert told["safe"] is False
    kinds = {(finding["kind"], tuple(finding["brokers"])) for finding in told["findings"]}
    planted = {
        ("stale-request-accepted", (1,)),
        ("generation-not-initialised", (1,)),
        ("offline-partition", ()),
    }
    assert planted <= kinds
    clean = {finding["kind"] for finding in both.spark["two-topics"]["findings"]}
    assert clean.isdisjoint(kind for kind, _ in planted)


def test_what_is_no_run_at_all_is_an_unknown_row(both: Both):
    (row,) = (row for row in parquet(both.output / "results") if row["run"] == "nothing")

    assert both.spark["nothing"] is None
    assert (row["conforms"], row["safe"], row["expected"]) == (None, None, False)
    assert "run.json is missing" in row["unknown"]


def test_findings_and_batches_of_both_sides_lie_in_parquet(both: Both):
    findings = parquet(both.output / "findings")
    batches = parquet(both.output / "batches")

    mine = [row for row in findings if row["run"] == "n20-1.1.1" and row["role"] == "found"]
    assert sorted(row["kind"] for row in mine) == sorted(
        finding["kind"] for finding in both.plain["n20-1.1.1"]["findings"]
    )
    sides = {row["side"] for row in batches if row["run"] == "n20-1.1.1"}
    assert sides == {"observed", "predicted"}
    final = [
        (row["broker"], row["base_offset"], row["leader_epoch"])
        for row in batches
        if (row["run"], row["snapshot"], row["side"]) == ("n20-1.1.1", "final", "observed")
    ]
    assert sorted(final) == [
        *[(0, 0, 1), (0, 11, 1), (0, 21, 3), (0, 31, 3)],
        *[(1, 0, 1), (1, 11, 2), (1, 21, 3), (1, 31, 3)],
    ]


def test_a_judgement_is_never_written_over(both: Both, spark: Any, tmp_path: Path):
    (tmp_path / "there").mkdir()

    with pytest.raises(SparkError, match="never written over"):
        judge_runs([tmp_path / "run"], output=tmp_path / "there")

    assert both.output.parent.name == "judgements-spark"
    assert [each.name for each in both.output.parent.iterdir()] == ["0001"]


def test_results_are_read_from_the_tables_as_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "results").mkdir()
    tasks = (0, 2, 4, 6), (1, 3, 5), (7,)
    for number, positions in enumerate(tasks):
        rows = [
            {"position": position, "run": str(position), "path": "/", "expected": False}
            for position in positions
        ]
        table = pyarrow.Table.from_pylist(rows, schema=arrow_schema(RESULT_TABLE))
        pyarrow.parquet.write_table(table, tmp_path / "results" / f"part-{number}.parquet")
    monkeypatch.setattr(job, "_ROWS_TOGETHER", 1)
    read: list[Path] = []
    rows_in = job._rows_in

    def counted(file: Path) -> Iterator[dict[str, Any]]:
        for row in rows_in(file):
            read.append(file)
            yield row

    monkeypatch.setattr(job, "_rows_in", counted)
    results = job.SparkJudgement(output=tmp_path).results

    assert read == []
    assert [(result.run, len(read)) for result in results] == [
        # One row of each task, and then one for each that was given.
        *(("0", 3), ("1", 4), ("2", 5), ("3", 6), ("4", 7), ("5", 8), ("6", 8), ("7", 8))
    ]


def test_spark_draws_no_bar_into_its_log(spark: Any):
    assert spark.sparkContext.getConf().get("spark.ui.showConsoleProgress") == "false"


def test_shares_of_tasks_have_each_run_once_in_order_and_get_smaller():
    runs = [(number, f"/runs/{number}") for number in range(1000)]

    shares = [*job._shares(runs, at_a_time=2)]

    assert [run for share in shares for run in share] == runs
    sizes = [len(share) for share in shares]
    assert sizes[:7] == [125, 125, 125, 125, 125, 93, 70]
    assert sizes[-7:] == [1] * 7
    assert sizes == sorted(sizes, reverse=True)


def test_few_runs_are_a_task_each():
    runs = [(number, f"/runs/{number}") for number in range(3)]

    assert [*job._shares(runs, at_a_time=2)] == [runs[:1], runs[1:2], runs[2:]]


def test_two_runs_of_one_name_are_refused(tmp_path: Path):
    with pytest.raises(SparkError, match="the same name"):
        judge_runs([tmp_path / "a" / "run", tmp_path / "b" / "run"])


def test_no_run_is_refused():
    with pytest.raises(SparkError, match="no run to judge"):
        judge_runs([])
