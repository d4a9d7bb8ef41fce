"""The summary of a night: what is new, gone and still there, rates, and four forms of it."""

import fcntl
import html
import json
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_line import RunLine, line_of_run
from kchaos.checkers.verdict import NOT_PREDICTED
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.campaign.summary_files import exit_code_of_summary
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.exits import AS_EXPECTED, FINDING, UNKNOWN, USAGE
from kchaos.harness.report import write_report
from kchaos.harness.summary.lines import LINES, LOCK, append_line, lines_in, read_lines
from kchaos.harness.summary.rates import interval
from kchaos.harness.summary.rendering import headline, html_of, json_of, junit_of, markdown_of
from kchaos.harness.summary.summary import Summary, summary_of
from tests.golden.stored import RUNS, unpacked
from tests.support.report_runs import Page
from tests.support.run_lines import found

CLIENTS = RUNS.with_name("clients")


LINE = RunLine(
    entry="chaos",
    case="mixed",
    release="2.8.2",
    seed=1,
    started_at=1.79e9,
    conforms=True,
    safe=True,
    expected=True,
    seconds=3.0,
    waited_s=1.0,
)


def line(run: str = "run-1", **more: Any) -> RunLine:
    return replace(LINE, run=run, **more)


def unsafe(run: str, fingerprint: str = "f1", message: str = "a | <b>", **more: Any) -> RunLine:
    finding = found("divergence", fingerprint=fingerprint, message=message)
    return line(run, safe=False, findings=(finding,), **more)


def statuses(summary: Summary) -> dict[tuple[str, str], str]:
    return {(bug.fingerprint, bug.release): bug.status for bug in summary.bugs}


def test_bugs_are_new_still_there_and_gone():
    night = [unsafe("a", "f1"), unsafe("b", "f1"), unsafe("c", "f2"), line("d")]
    before = [unsafe("x", "f1"), unsafe("y", "f3"), unsafe("z", "f4", seed=2)]
    summary = summary_of(night, baseline=before, fail_on=["new"])
    # Seed 1 was run again without f3; nobody ran seed 2.
    assert statuses(summary) == {
        ("f2", "2.8.2"): "new",
        ("f1", "2.8.2"): "still there",
        ("f3", "2.8.2"): "gone",
        ("f4", "2.8.2"): "not seen",
    }
    assert [failing.run for failing in summary.failing] == ["c"]
    assert summary.answer == "fails"


def test_a_bug_says_in_how_many_of_the_nights_before_it_was_seen(tmp_path: Path):
    day = 86_400.0
    before = [line(f"a{night}", started_at=1.79e9 + night * day) for night in range(30)]
    before += [unsafe(f"b{night}", started_at=1.79e9 + night * day + 600) for night in (3, 3, 20)]
    summary = summary_of([unsafe("x")], baseline=before)
    (bug,) = summary.bugs
    assert (bug.status, bug.history) == ("still there", "2 of 30 nights, last seen 2026-10-11")
    assert "still there (2 of 30 nights, last seen 2026-10-11)" in markdown_of(summary, tmp_path)
    assert bug.history in html_of(summary, tmp_path)


def test_a_night_without_failures_says_so_before_it_says_that_nothing_is_new():
    summary = summary_of([line()], baseline=[line()])
    assert headline(summary) == "1 run: all conform and are safe; 0 new bugs"


def test_a_known_bug_on_another_release_is_new_and_the_page_says_what_was_not_played():
    night = [unsafe("a", "f1", release="3.9.1")]
    summary = summary_of(night, baseline=[unsafe("x", "f1")], fail_on=["new"])
    assert statuses(summary) == {("f1", "3.9.1"): "new"}
    assert "no run of 3.9.1 (it has 2.8.2)" in summary.warnings[0]
    assert "2.8.2 of the baseline was not run" in summary.warnings[1]


@pytest.mark.parametrize(
    ("lines", "fail_on", "code"),
    [
        ([line()], ["unsafe", "not-conforming", "unknown"], AS_EXPECTED),
        ([line(), unsafe("b", expected=True)], ["unsafe"], FINDING),
        ([line(), unsafe("b")], ["not-conforming"], AS_EXPECTED),
        ([line(), line("b", conforms=False)], ["not-conforming"], FINDING),
        ([line(), line("b", safe=None)], ["unknown"], UNKNOWN),
        ([line(), line("b", safe=None)], ["unsafe"], AS_EXPECTED),
        ([line(safe=None)], ["unsafe"], UNKNOWN),
        ([line("a", safe=None), unsafe("b")], ["unsafe", "unknown"], FINDING),
        ([], ["unsafe"], UNKNOWN),
    ],
)
def test_the_exit_code_says_what_was_asked_for(lines: list[Any], fail_on: list[str], code: int):
    assert exit_code_of_summary(summary_of(lines, fail_on=fail_on)) == code


def test_rates_have_intervals_that_know_how_little_was_seen():
    summary = summary_of(
        [*(line(str(number)) for number in range(8)), unsafe("u"), line(safe=None)]
    )
    (rate,) = summary.rates
    assert (rate.runs, rate.safe, rate.unsafe, rate.unknown) == (10, 8, 1, 1)
    low, high = rate.unsafe_between or (0, 0)
    assert (round(low, 3), round(high, 3)) == (0.02, 0.435)
    assert interval(0, 0) is None
    assert (interval(0, 400) or (1, 1))[1] < 0.01 < (interval(0, 4) or (0, 0))[1]


def test_a_release_with_several_mixes_has_a_rate_of_all_of_them(tmp_path: Path):
    runs = [line("a"), line("b", case="walks", safe=False), line("c", release="3.9.1")]
    summary = summary_of(runs)
    (total,) = summary.totals
    assert (total.release, total.mix, total.runs, total.unsafe) == ("2.8.2", "all", 2, 1)
    assert "| 2.8.2 |  | all | 2 | 1 (9-91 %) |" in markdown_of(summary, tmp_path)
    assert html_of(summary, tmp_path).count('<tr class="total">') == 1
    assert [rate["runs"] for rate in json_of(summary, tmp_path)["totals"]] == [2]


def test_a_page_names_the_mode_of_each_run_only_where_there_are_several(tmp_path: Path):
    runs = [line("a", mode="zookeeper"), line("b", mode="zookeeper")]
    heading = '<th scope="col">Mode</th>'
    alike = html_of(summary_of(runs), tmp_path)
    assert "All clusters kept their metadata in ZooKeeper." in alike
    assert heading not in alike
    other = line("c", mode="kraft")
    assert heading in html_of(summary_of([*runs, other]), tmp_path)


def test_the_only_run_of_a_kind_has_seconds_and_no_median(tmp_path: Path):
    summary = summary_of([without_service("a", 0.0, None)])
    assert "| 2.8.2 |  | mixed | 1 | 0.0 |" in markdown_of(summary, tmp_path)
    assert "<summary>1 run</summary>" in html_of(summary, tmp_path)


def without_service(run: str, leader: float | None, stall: float | None, **more: Any) -> RunLine:
    seconds = {"without_leader_s": leader, "without_acknowledged_write_s": None}
    return line(run, service=seconds | {"longest_stall_s": stall}, **more)


def test_seconds_without_service_are_told_by_release_and_what_nobody_measured_is_no_zero(
    tmp_path: Path,
):
    runs = [without_service("a", 0.0, None), without_service("b", 0.4, 0.0)]
    runs += [without_service("c", 7.25, None), line("before that was measured")]
    summary = summary_of([*runs, line("alone", release="3.9.1")])
    (service,) = summary.service
    leader, write, stall = service.seconds.values()
    assert leader is not None
    assert (leader.runs, leader.median_s, leader.longest_s) == (3, 0.4, 7.25)
    assert leader.longest_run.run == "c"
    assert write is None
    assert stall is not None
    assert (stall.runs, stall.longest_s) == (1, 0.0)
    row = "median 0.4 (3 of 4 runs), most 7.2 (c) | median 0.0 (1 of 4 runs) |"
    assert f"| 2.8.2 |  | mixed | 4 | {row}" in markdown_of(summary, tmp_path)
    page = html_of(summary, tmp_path)
    assert "median 0.4 (3 of 4 runs), most " in page
    assert "not measured" not in page
    assert "No run has measured: without acknowledged write." in page
    (told,) = json_of(summary, tmp_path)["service"]
    assert told["without_leader_s"] == {
        "runs": 3,
        "median": 0.4,
        "longest": 7.25,
        "longest_run": "c",
    }
    assert told["without_acknowledged_write_s"] is None


def test_a_kind_that_was_measured_for_another_release_alone_is_said_not_to_be(tmp_path: Path):
    with_stall = without_service("a", 0.0, 1.5)
    summary = summary_of([with_stall, without_service("b", 0.0, None, release="3.9.1")])
    told = markdown_of(summary, tmp_path)
    assert "| 2.8.2 |  | mixed | 1 | 0.0 | 1.5 (a) |" in told
    assert "| 3.9.1 |  | mixed | 1 | 0.0 | not measured |" in told
    assert html_of(summary, tmp_path).count("not measured") == 1


@pytest.mark.slow
def test_a_runs_line_has_the_seconds_that_its_judgement_measured(tmp_path: Path):
    run = unpacked("2.8.2", tmp_path, runs=CLIENTS)
    results = judge(run)
    write_judgement(run, results)
    assert results.availability is not None
    service = line_of_run(run.path).service
    assert service["without_acknowledged_write_s"] == max(
        each.without_acknowledged_write_s or 0 for each in results.availability.partitions
    )
    assert service["without_acknowledged_write_s"] > 10
    assert service["longest_stall_s"] == 0


@pytest.fixture
def night(tmp_path: Path) -> Path:
    folder = tmp_path / "night"
    folder.mkdir()
    for release in ("1.1.1", "2.8.2"):
        run = unpacked(release, tmp_path / "unpacked")
        write_judgement(run, judge(run))
        write_report(run)
        shutil.move(run.path, folder / f"run of {release}")
    (folder / "torn").mkdir()
    (folder / "torn/actions.jsonl").write_text("{")
    return folder


def test_a_run_of_a_cluster_that_nobody_can_predict_is_safe_and_not_said_to_conform(tmp_path: Path):
    with_kraft = line("kraft", conforms=None, unknown=NOT_PREDICTED, mode="kraft")
    alone, beside = summary_of([with_kraft]), summary_of([line(), with_kraft])
    assert (
        headline(alone) == "1 run: all are safe; 1 with KRaft and without links are not predicted"
    )
    assert headline(beside).endswith(
        "1 conform, and 1 with KRaft and without links are not predicted"
    )
    page = markdown_of(beside, tmp_path)
    assert "## Unknown" not in page
    assert "| 2.8.2 | KRaft | mixed | 1 |" in page


@pytest.mark.slow
def test_a_run_that_goes_on_is_told_and_not_counted(
    night: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.rmtree(night / "torn")
    unjudged = unpacked("2.0.1", night)
    unjudged.hold()
    kchaos(["summary", str(night)])
    told = json.loads((night / "summary.json").read_text())
    assert told["counts"]["unknown"] == 0
    assert told["warnings"] == ["still running, and not counted: golden-2.0.1"]
    assert "golden-2.0.1" in capsys.readouterr().err
    kchaos(["runs", "--runs-dir", str(night)])
    assert "it is still running" in capsys.readouterr().out
    unjudged.let_go()
    kchaos(["summary", str(night)])
    told = json.loads((night / "summary.json").read_text())
    assert (told["counts"]["unknown"], told["warnings"]) == (1, [])


@pytest.mark.slow
def test_a_night_that_was_killed_is_unknown_whether_it_left_a_run_or_not(
    night: Path, capsys: pytest.CaptureFixture[str]
):
    def unknown() -> dict[str, str]:
        # Whatever a night is to fail on, one that was killed is never green.
        code = kchaos(["summary", str(night), "--fail-on", "not-conforming"])
        told = json.loads((night / "summary.json").read_text())
        assert told["counts"]["unknown"] == len([line for line in told["lines"] if line["unknown"]])
        assert code == (2 if told["counts"]["unknown"] else 0)
        return {line["run"]: line["unknown"] for line in told["lines"] if line["unknown"]}

    for run in night.glob("run of *"):
        append_line(night / LINES, line_of_run(run))
    # The run that was played when the night was killed is among no lines.
    about = json.loads((night / "run of 1.1.1" / "run.json").read_text())
    (night / "torn/run.json").write_text(json.dumps(about | {"seed": 9}))
    assert unknown() == {"torn": "it did not end: its process was killed"}
    shutil.rmtree(night / "torn")
    assert unknown() == {}
    (night / LOCK).write_text("a night is played")
    (why,) = unknown().values()
    assert why == "the night: it did not end: its process was killed"
    with (night / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert unknown() == {}, "it goes on"


@pytest.mark.slow
def test_where_no_run_has_ended_yet_the_summary_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = unpacked("2.0.1", tmp_path)
    run.hold()
    assert kchaos(["summary", str(tmp_path)]) == USAGE
    assert "golden-2.0.1 goes on" in capsys.readouterr().err
    judged(run, lambda _: None)
    assert kchaos(["summary", str(tmp_path)]) == AS_EXPECTED


@pytest.mark.slow
def test_a_folder_of_runs_becomes_four_files_and_a_torn_run_is_unknown(night: Path):
    code = kchaos(["summary", str(night)])
    told = json.loads((night / "summary.json").read_text())
    assert (code, told["answer"]) == (FINDING, "fails")
    assert told["counts"] == {
        "new": 0,
        "unsafe": 1,
        "not conforming": 0,
        "unknown": 1,
        "failing": 2,
    }
    lines = {line["run"]: line for line in told["lines"]}
    assert "run.json is missing" in lines["torn"]["unknown"]
    of_safety = [each for each in lines["run of 1.1.1"]["findings"] if each["question"] == "safety"]
    assert {each["kind"] for each in of_safety} == {"divergence"}
    assert set(lines["torn"]["service"].values()) == {None}
    assert lines["run of 1.1.1"]["service"]["longest_stall_s"] is None
    assert lines["run of 1.1.1"]["gates"][0][0].startswith("step ")
    assert any(name.startswith("CutLink") for name, _, _ in lines["run of 1.1.1"]["faults"])
    page = (night / "summary.html").read_text()
    assert Page(page).problems == []
    assert "://" not in page
    assert "<script" not in page
    suites = ET.parse(night / "junit.xml").getroot()
    assert sorted(
        (suite.get("name"), suite.get("failures"), suite.get("errors")) for suite in suites
    ) == [("1.1.1", "1", "0"), ("2.8.2", "0", "0"), ("no release known", "0", "1")]
    failure = suites.find(".//failure")
    assert failure is not None
    assert failure.get("type") == "divergence"
    words = suites.findtext(".//testcase/system-out", "")
    assert "Kafka's own: Kafka 1.1.1 does this by its rules" in words
    assert f"[[ATTACHMENT|{night / 'run of 1.1.1' / 'report.html'}]]" in words
    assert "kchaos replay" in words
    (advice,) = told["advice"]
    assert advice["run"] == "run of 1.1.1"
    for text in ((night / "summary.md").read_text(), html.unescape(page)):
        assert advice["lead"] in text
        assert advice["commands"][0] in text
    assert "**divergence**" in (night / "summary.md").read_text()


@pytest.mark.slow
def test_links_lead_to_reports_also_after_the_folder_was_moved(night: Path):
    kchaos(["summary", str(night)])
    moved = night.rename(night.with_name("artefact"))
    links = [run["link"] for run in json.loads((moved / "summary.json").read_text())["lines"]]
    assert sorted(filter(None, links)) == [
        f"run%20of%20{release}/report.html" for release in ("1.1.1", "2.8.2")
    ]
    for link in filter(None, links):
        assert (moved / link.replace("%20", " ")).is_file()
        assert f'href="{link}"' in (moved / "summary.html").read_text()


@pytest.mark.slow
def test_a_night_is_a_baseline_also_when_its_runs_are_deleted(night: Path, tmp_path: Path):
    known = night / "run of 1.1.1"
    before = tmp_path / "before"
    before.mkdir()
    append_line(before / LINES, line_of_run(known))
    for baseline in (before, before / LINES):
        summary = summary_of(lines_in(night), baseline=lines_in(baseline), fail_on=["new"])
        assert [bug.status for bug in summary.bugs] == ["still there"]
    assert kchaos(["summary", str(night), "--baseline", str(before), "--fail-on", "new"]) == 0


@pytest.mark.slow
def test_an_empty_file_is_a_baseline_that_knows_nothing(night: Path, tmp_path: Path):
    (tmp_path / "first.jsonl").touch()
    baseline = lines_in(tmp_path / "first.jsonl")
    assert baseline == []
    summary = summary_of(lines_in(night), baseline=baseline, fail_on=["new"])
    assert [bug.status for bug in summary.bugs] == ["new"]
    assert "the baseline has no run" in summary.warnings[0]


def test_a_cut_off_line_is_left_out_one_without_its_end_is_kept_and_a_wrong_one_is_named(
    tmp_path: Path,
):
    file = tmp_path / LINES
    append_line(file, line("a"))
    with file.open("a") as output:
        output.write('{"run": "b", "rel')
    assert [line.run for line in read_lines(file)] == ["a"]
    append_line(file, line("c"))
    assert [line.run for line in read_lines(file)] == ["a", "c"]
    # An editor may take the end of the last line, and nothing of what it says.
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert [line.run for line in read_lines(file)] == ["a", "c"]
    append_line(file, line("d"))
    assert [line.run for line in read_lines(file)] == ["a", "c", "d"]
    assert file.read_bytes().count(b"\n") == 3
    file.write_text('{"run": 1}\n')
    assert kchaos(["summary", str(file)]) == USAGE


@pytest.mark.parametrize(
    "arguments", [["summary", "."], ["summary", ".", "--fail-on", "new"], ["summary", "nowhere"]]
)
def test_bad_input_is_a_usage_error(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert kchaos(arguments) == USAGE
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_says_is_text_in_every_form(tmp_path: Path):
    hostile = "</td><script>alert(1)</script> | `x` \x1b[2J\x00"
    bad = unsafe("a", message=hostile, release=hostile, case=hostile)
    summary = summary_of([bad, line("b", safe=None, unknown=hostile)])
    assert "<script>" not in html_of(summary, tmp_path)
    assert "<script>" not in markdown_of(summary, tmp_path)
    assert "\x1b" not in markdown_of(summary, tmp_path)
    assert len(ET.fromstring(junit_of(summary).split("\n", 1)[1])) == 2
    assert json.loads(json.dumps(json_of(summary, tmp_path)))["bugs"][0]["message"] == hostile
