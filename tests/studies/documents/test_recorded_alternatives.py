"""Alternatives of a document, laid over a recorded run."""

from pathlib import Path

import pytest

from kchaos.checkers import acts
from kchaos.checkers.errors import CheckError, ComparisonError
from kchaos.studies.documents import Result
from kchaos.studies.documents.kip_279 import compare_run
from tests.support.kafka_6361_runs import kafka_6361
from tests.support.run_builder import RunBuilder


def silent(text: str) -> None:
    pass


def test_a_run_of_kafka_6361_is_put_right_by_every_alternative(tmp_path: Path):
    differences = compare_run(kafka_6361(tmp_path / "run", "n20", "1.1.1").path, silent)
    (row,) = differences.rows
    wrong = [key for key, cell in row.cells.items() if cell.result is Result.WRONG]
    assert wrong == ["KIP-101", "released"]
    assert {key: cell.numbers["rounds"] for key, cell in row.cells.items()} == {
        "KIP-101": 1,
        "proposal": 1,
        "alt. 1": 2,
        "alt. 2": 1,
        "clean 1": 1,
        "released": 1,
    }


def test_on_a_release_with_the_fix_what_was_released_is_right_too(tmp_path: Path):
    differences = compare_run(kafka_6361(tmp_path / "run", "n20", "2.0.1").path, silent)
    assert differences.cell("t-0", "KIP-101").result is Result.WRONG
    assert differences.cell("t-0", "released").result is Result.RIGHT


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path):
    with pytest.raises(CheckError):
        compare_run(tmp_path, silent)


def test_a_run_without_a_snapshot_or_with_a_broker_that_changes_is_refused(tmp_path: Path):
    def begun(name: str) -> RunBuilder:
        build = RunBuilder(tmp_path / name, expectation=None, release="1.1.1")
        build.act(acts.StartBroker(broker=0, release="1.1.1"), zxid=0)
        return build

    with pytest.raises(ComparisonError, match="no snapshot"):
        compare_run(begun("empty").seal(settle="converged").path, silent)
    changed = begun("changed")
    changed.act(acts.StartBroker(broker=0, release="2.0.1"))
    changed.snapshot("final", {})
    with pytest.raises(ComparisonError, match="broker 0"):
        compare_run(changed.seal(settle="converged").path, silent)
