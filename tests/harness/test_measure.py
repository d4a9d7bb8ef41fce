"""Measuring: the results file and the table that is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.harness.commands.cli import run
from kchaos.harness.commands.measure import append_result, results_in, table_of
from kchaos.harness.errors import UsageError

RED: dict[str, Any] = {
    "entry": "KAFKA-6361",
    "case": "n20",
    "release": "1.1.1",
    "driver": "local",
    "seed": 0,
    "conforms": True,
    "safe": False,
    "expected": True,
    "findings": [
        {
            "kind": "divergence",
            "partition": "t-0",
            "brokers": [0, 1],
            "first_offset": 11,
            "last_offset": 20,
        }
    ],
    "seconds": 5.0,
    "run": "/somewhere/kchaos-runs/one",
}
UNKNOWN = RED | {"conforms": None, "safe": None, "expected": False, "findings": [], "seconds": 60.0}


def test_a_line_survives_and_loses_the_machines_path(tmp_path: Path) -> None:
    append_result(tmp_path / "results.jsonl", RED)
    assert results_in(tmp_path / "results.jsonl") == [RED | {"run": "one"}]


def test_no_file_means_no_lines(tmp_path: Path) -> None:
    assert results_in(tmp_path / "none.jsonl") == []


def test_a_torn_last_line_is_left_out_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    append_result(file, RED)
    with file.open("a") as output:
        output.write('{"entry": ')
    assert results_in(file) == [RED | {"run": "one"}]
    append_result(file, UNKNOWN)
    assert results_in(file) == [RED | {"run": "one"}, UNKNOWN | {"run": "one"}]


def test_a_torn_line_before_others_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    append_result(file, RED)
    with file.open("a") as output:
        output.write('{"entry": \n')
    append_result(file, RED)
    with pytest.raises(UsageError, match=r"results\.jsonl:2"):
        results_in(file)


@pytest.mark.parametrize("line", ["[]", "5", '{"entry": "x"}'])
def test_a_line_that_is_no_runs_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "results.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=r"results\.jsonl:1 is no line of a run.*safe"):
        results_in(tmp_path / "results.jsonl")


def test_what_is_of_interest_for_one_run_only_is_not_kept(tmp_path: Path) -> None:
    more = {"report": "r", "witness": [], "crashes": [], "not_checked": []}
    told = RED | more | {"findings": [{**RED["findings"][0], "message": "they differ"}]}
    append_result(tmp_path / "results.jsonl", told)
    assert results_in(tmp_path / "results.jsonl") == [RED | {"run": "one"}]


def test_the_list_says_when_an_entry_was_last_seen_as_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    day = 86_400.0
    for line in (
        RED | {"started_at": 9 * day},
        RED | {"started_at": 8 * day},
        UNKNOWN | {"started_at": 20 * day},
        RED | {"entry": "KAFKA-7415", "started_at": 7 * day},
    ):
        append_result(file, line)

    assert run(["list", "--measured", str(file)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "last seen 1970-01-10: KAFKA-6361 last seen 1970-01-08: KAFKA-7415 never seen:" in told

    assert run(["list", "--json", "--measured", str(file)]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    seen = {line["entry"]: line["last_seen"] for line in lines}
    assert (seen["KAFKA-6361"], seen["KAFKA-6119"]) == ("1970-01-10", None)

    assert run(["list", "--measured", str(tmp_path / "none")]) == 0
    assert "seen" not in capsys.readouterr().out


def test_the_table_counts_what_was_expected_and_hides_nothing() -> None:
    table = table_of([RED, RED, UNKNOWN])
    row = next(line for line in table.splitlines() if line.startswith("| KAFKA-6361"))
    assert "| n20 | 1.1.1 | no/unknown | 2 of 3 | 2 of 3 |" in row
    assert "divergence 11-20; or none" in row
