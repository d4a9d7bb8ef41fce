"""Place of the page, and what writing it leaves alone."""

import json
import os
import shutil
from pathlib import Path

import pytest

from kchaos.checkers.observations import StepBegun
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.errors import HarnessError
from kchaos.harness.report import render, text_report, write_report
from kchaos.harness.report.loading import load
from tests.support.report_runs import DIVERGENCE, Page, diverged, judge_as, judged


def test_a_run_has_one_page_of_its_newest_judgement(tmp_path: Path):
    run = judge_as(judged(tmp_path / "run"), conforms=False)

    written = write_report(run)

    assert written == run.path / "report.html"
    assert written.read_text(encoding="utf-8") == render(run, "0002") != render(run, "0001")


def test_bytes_of_a_path_that_are_no_text_are_shown_escaped(tmp_path: Path):
    run = judged(tmp_path / os.fsdecode(b"\xff"))

    assert "/\\udcff" in write_report(run).read_text(encoding="utf-8")


def test_a_newer_page_takes_the_place_of_the_one_before(tmp_path: Path):
    run = judged(tmp_path / "run")
    write_report(run).write_text("older")

    assert write_report(run).read_text(encoding="utf-8") == render(run)
    assert list(run.path.glob("**/report*")) == [run.path / "report.html"]


def test_the_evidence_stays_as_it_was_sealed(tmp_path: Path):
    run = judged(tmp_path / "run")
    write_report(run)

    assert run.verify() == ()
    assert run.judgements() == ("0001",)


def test_a_run_without_a_judgement_gets_a_report_and_no_judgement(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()

    assert write_report(run) == run.path / "report.html"
    assert run.verify() == ()
    assert run.judgements() == ()


def test_where_nothing_can_be_written_the_error_names_the_place(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    (run.path / "report.html").mkdir()

    with pytest.raises(HarnessError, match=r"cannot be written to .*run"):
        write_report(run)


def test_a_run_whose_evidence_was_cut_off_is_shown_as_it_was_judged_and_says_so_at_the_top(
    tmp_path: Path,
):
    run = judged(tmp_path / "run")
    file = run.path / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-20])

    page = Page(write_report(run).read_text())
    assert page.problems == []
    for shown in (page.text, " ".join(text_report(run).split())):
        before, _, after = shown.partition("The evidence of this run cannot be read")
        assert "divergence" not in before
        assert "is cut off: it has no newline" in after
        assert "history.jsonl is missing or has another size" in after
        assert DIVERGENCE["message"] in after


def test_a_damaged_copy_has_the_name_of_its_run(tmp_path: Path):
    run = judged(tmp_path / "run")
    copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
    file = copy.path / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-20])

    description = copy.read("run.json") | {"name": "the-run"}
    (copy.path / "run.json").write_text(json.dumps(description))
    assert text_report(copy).splitlines()[0] == "the-run"
    (copy.path / "run.json").write_text(json.dumps(description | {"brokers": 3}))
    assert load(copy).name == "copy"


def test_a_run_that_lacks_what_was_sealed_says_so(tmp_path: Path):
    run = judged(tmp_path / "run")
    whole = " ".join(text_report(run).split())
    shutil.rmtree(run.path / "snapshots")

    assert "not as it was sealed" not in whole
    text = " ".join(text_report(run).split())
    assert "! The evidence is not as it was sealed: snapshots/final/" in text
    assert "more files are missing or have another size" in text


@pytest.mark.parametrize("steps", [[], [{"step": "Tell"}]], ids=["no step", "no text"])
def test_a_run_whose_scenario_lacks_what_was_told_has_a_report(
    steps: list[dict[str, str]], tmp_path: Path
):
    build = diverged(tmp_path / "run")
    build.steps = [*steps]
    build.observe(StepBegun(name="Tell"))
    run = build.seal()

    assert "Nobody has judged this run yet" in " ".join(text_report(run).split())
    assert "<h1" in render(run)
