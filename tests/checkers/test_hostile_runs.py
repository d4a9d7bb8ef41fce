"""One bad run never ends the judging of the others; with Spark, see `test_spark_judging`."""

import re
import shutil
from pathlib import Path

import pytest

import kchaos as k
from kchaos.checkers import searching
from kchaos.checkers.opening import MOST_NESTED_JSON
from kchaos.harness.campaign import campaign
from kchaos.harness.commands import judge_runs
from kchaos.harness.commands.judge_runs import judge_paths
from kchaos.harness.exits import UNKNOWN, exit_code_for_lines
from kchaos.harness.report import write_report
from tests.support.hostile_runs import hostile_runs
from tests.support.kafka_6361_runs import kafka_6361

pytestmark = pytest.mark.slow

SAID = {
    "broker-that-is-a-number": r"cluster: brokers\[0\] is no object, but 1\.5",
    "step-that-tries-a-number": r"steps\[0\]: do: is no object, but 7|do is no object, but 7",
    "file-without-a-name": "has a name that kchaos and",
    "greatest-number": r"history\.jsonl:1: time is no number",
    "judgements-elsewhere": "'judgements' is a link",
    "log-that-is-a-device": r"'more\.log' is a link",
    "log-that-is-a-link": r"'outcome\.json' is a link",
    "log-that-is-a-pipe": r"'more\.log' is no file but a pipe, a device or a socket",
    "nested-json": rf"nested deeper than {MOST_NESTED_JSON}",
    "no-text": r"actions\.jsonl:1 is cut off",
    "not-a-number": "NaN is no number",
    "path-from-the-root": "/etc/hostname is missing",
    "path-that-climbs": r"\.\./\.\./etc/hostname is missing",
    "pattern-without-end": "no end was in sight",
    "seed-that-is-a-text": r"run\.json: seed is no whole number, but 'x'",
    "time-that-is-a-text": r"outcome\.json: seconds is no number, but 'soon'",
}
RED = ("greatest-offset", "partition-00", "partition-99999999999", "partition-that-climbs")
"""What can be judged; the ghost partitions and the offset are findings."""


@pytest.fixture
def quick_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching.first_match, "__kwdefaults__", {"timeout_s": 0.5})


def evidence_in(folder: Path) -> set[Path]:
    every = (path for path in folder.rglob("*") if path.name != "report.html")
    return {path for path in every if "judgements" not in path.parts}


@pytest.mark.usefixtures("quick_search")
def test_each_bad_run_is_a_line_with_its_reason_and_nothing_is_written_elsewhere(tmp_path: Path):
    folder = tmp_path / "runs"
    for name in ("a-good-one", "z-good-one"):
        kafka_6361(folder / name, "n20", "2.0.1")
    runs = hostile_runs(folder)
    outside = evidence_in(tmp_path)
    said: list[str] = []

    lines = judge_paths(
        [folder], spark=False, master=None, output=None, offline=True, say=said.append
    )

    by_name = {Path(line.run).name: line for line in lines}
    assert set(by_name) == {"a-good-one", "z-good-one", *(run.name for run in runs)}
    assert [name for name, line in by_name.items() if line.expected] == [
        "a-good-one",
        "entry-with-escapes",
        "z-good-one",
    ]
    for name, pattern in SAID.items():
        line = by_name[name]
        assert (line.conforms, line.safe) == (None, None), name
        assert re.search(pattern, str(line.unknown)), line.unknown
    for name in RED:
        assert by_name[name].conforms is False
    assert evidence_in(tmp_path) == outside
    shutil.rmtree(folder)


def test_a_judge_that_fails_over_one_run_ends_no_other_run_s_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a-bad", "b-undrawn", "z-good"):
        kafka_6361(tmp_path / name, "n20", "2.0.1")

    def judge_or_fail(run: k.RunDirectory) -> k.Results:
        if run.name == "a-bad":
            raise KeyError("nothing")
        return k.judge(run)

    def draw_or_fail(run: k.RunDirectory) -> Path:
        if run.name == "b-undrawn":
            raise AttributeError("text")
        return write_report(run)

    monkeypatch.setattr(judge_runs, "judge", judge_or_fail)
    monkeypatch.setattr(campaign, "write_report", draw_or_fail)
    said: list[str] = []

    lines = list(
        judge_paths(
            [tmp_path], spark=False, master=None, output=None, offline=True, say=said.append
        )
    )

    bad, undrawn, good = lines
    assert bad.unknown == "the judge failed: KeyError('nothing')"
    assert (undrawn.expected, undrawn.report) == (True, None)
    assert good.expected
    assert good.report
    assert "this is a defect of kchaos" in "".join(said)
    assert exit_code_for_lines(lines) == UNKNOWN
