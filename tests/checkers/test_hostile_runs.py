"""One bad run never ends the judging of the others; with Spark, see `test_spark_judging`."""

import re
import shutil
from pathlib import Path

import pytest

from kchaos.checkers import searching
from kchaos.checkers.opening import MOST_NESTED_JSON
from kchaos.harness.commands.judge_runs import judge_paths
from tests.support.hostile_runs import hostile_runs
from tests.support.kafka_6361_runs import kafka_6361

SAID = {
    "entry-with-escapes": "name another entry",
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


@pytest.mark.usefixtures("quick_search")
def test_each_bad_run_is_a_line_with_its_reason_and_nothing_is_written_elsewhere(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs"
    for name in ("a-good-one", "z-good-one"):
        kafka_6361(folder / name, "n20", "2.0.1")
    runs = hostile_runs(folder)
    outside = {path for path in tmp_path.rglob("*") if "judgements" not in path.parts}
    said: list[str] = []

    lines = judge_paths(
        [folder], spark=False, master=None, output=None, offline=True, say=said.append
    )

    by_name = {Path(str(line["run"])).name: line for line in lines}
    assert set(by_name) == {"a-good-one", "z-good-one", *(run.name for run in runs)}
    assert [name for name, line in by_name.items() if line["expected"]] == [
        "a-good-one",
        "z-good-one",
    ]
    for name, pattern in SAID.items():
        assert (by_name[name]["conforms"], by_name[name]["safe"]) == (None, None), name
        assert re.search(pattern, str(by_name[name]["unknown"])), by_name[name]["unknown"]
    for name in RED:
        assert by_name[name]["conforms"] is False
    assert {path for path in tmp_path.rglob("*") if "judgements" not in path.parts} == outside
    shutil.rmtree(folder)
