"""Where the page goes, and what it leaves alone."""

from pathlib import Path

import pytest

from kchaos.harness.errors import HarnessError
from kchaos.harness.report import render, write_report
from tests.support.report_runs import diverged, judge_as, judged


def test_it_goes_beside_the_results_of_the_newest_judgement(tmp_path: Path) -> None:
    run = judge_as(judged(tmp_path / "run"), conforms=False)

    written = write_report(run)

    assert written == run.path / "judgements/0002/report.html"
    assert written.read_text(encoding="utf-8") == render(run)
    assert not (run.path / "judgements/0001/report.html").exists()


def test_an_earlier_report_is_never_overwritten(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    first = write_report(run)
    first.write_text("mine")

    assert write_report(run).name == "report-2.html"
    assert write_report(run).name == "report-3.html"
    assert first.read_text() == "mine"


def test_the_evidence_stays_as_it_was_sealed(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    write_report(run)

    assert run.verify() == ()
    assert run.judgements() == ("0001",)


def test_a_run_without_a_judgement_gets_a_report_and_no_judgement(tmp_path: Path) -> None:
    run = diverged(tmp_path / "run").seal()

    assert write_report(run) == run.path / "judgements/report.html"
    assert run.verify() == ()
    assert run.judgements() == ()


def test_where_nothing_can_be_written_the_error_names_the_place(tmp_path: Path) -> None:
    run = diverged(tmp_path / "run").seal()
    (run.path / "judgements").write_text("in the way")

    with pytest.raises(HarnessError, match=r"cannot be written to .*judgements"):
        write_report(run)
