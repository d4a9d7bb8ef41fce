"""Results files of campaigns, and the table of measurements that is made of one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign.cases import table_of
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.commands.cli import run
from kchaos.harness.errors import UsageError
from tests.support.run_lines import found

RED = RunLine(
    entry="KAFKA-6361",
    case="n20",
    release="1.1.1",
    conforms=True,
    safe=False,
    expected=True,
    findings=(found("divergence"),),
    seconds=5.0,
    run="one",
)
UNKNOWN = replace(
    RED, conforms=None, safe=None, expected=False, findings=(), seconds=60.0, run="two"
)


def lines_of(file: Path) -> list[RunLine]:
    return ResultsFile(file).lines


def test_a_line_survives_and_loses_the_machines_path(tmp_path: Path):
    file = tmp_path / "results.jsonl"
    assert lines_of(file) == []
    ResultsFile(file).append(replace(RED, run="/somewhere/kchaos-runs/one", report="/page"))
    assert lines_of(file) == [RED]


def test_a_lost_play_is_among_the_lines_and_not_in_the_file(tmp_path: Path):
    file = ResultsFile(tmp_path / "results.jsonl")
    file.append(replace(UNKNOWN, run=""))
    assert (len(file.lines), lines_of(file.path)) == (1, [])


@pytest.mark.parametrize("line", ["[]", "5", '{"entry": "x"}'])
def test_a_line_that_is_no_runs_is_named(tmp_path: Path, line: str):
    (tmp_path / "results.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=r"results\.jsonl:1 is no line of a run.*safe"):
        lines_of(tmp_path / "results.jsonl")


def test_the_table_counts_what_was_expected_and_hides_nothing():
    table = table_of([RED, RED, UNKNOWN])
    row = next(line for line in table.splitlines() if line.startswith("| KAFKA-6361"))
    assert "| n20 | 1.1.1 | no/unknown | 2 of 3 | 2 of 3 |" in row
    assert "divergence 11-20; or none" in row


def test_the_list_says_when_an_entry_was_last_seen_as_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = ResultsFile(tmp_path / "results.jsonl")
    day = 86_400.0
    for line in (
        replace(RED, started_at=9 * day),
        replace(RED, started_at=8 * day),
        replace(UNKNOWN, started_at=20 * day),
        replace(RED, entry="KAFKA-7415", started_at=7 * day),
    ):
        file.append(line)
    assert run(["list", "--measured", str(file.path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "last seen 1970-01-10: KAFKA-6361 last seen 1970-01-08: KAFKA-7415 never seen:" in told
    assert run(["list", "--json", "--measured", str(file.path)]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    seen = {line["entry"]: line["last_seen"] for line in lines}
    assert (seen["KAFKA-6361"], seen["KAFKA-6119"]) == ("1970-01-10", None)
    assert run(["list", "--measured", str(tmp_path / "none")]) == 0
    assert "seen" not in capsys.readouterr().out
