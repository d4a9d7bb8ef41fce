"""Parts of run directories: packed by bytes, and cut without losing anything."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.spark.parts import Part, plan, rows_of_part
from tests.support import planted_runs
from tests.support.kafka_6361_runs import kafka_6361


def rows(packs: list[list[Part]]) -> list[str]:
    chosen = [row for pack in packs for part in pack for row in rows_of_part(part)]
    return sorted(json.dumps(row, default=repr, sort_keys=True) for row in chosen)


@pytest.mark.parametrize(
    "make",
    [
        planted_runs.corrupt_batch,
        planted_runs.torn_segment_before_the_last,
        planted_runs.unreadable_epoch_cache,
        planted_runs.two_topics,
        lambda path: kafka_6361(path, "one-record", "1.1.1"),
    ],
)
def test_a_directory_in_slices_gives_what_it_gives_whole(make: Any, tmp_path: Path) -> None:
    run = make(tmp_path / "run").path
    whole = plan([run], part_bytes=1_000_000)
    slices = plan([run], part_bytes=100)

    assert all(part.file is None for pack in whole for part in pack)
    assert any(part.slice is not None for pack in slices for part in pack)
    assert rows(slices) == rows(whole)
    assert rows(whole)


def test_small_directories_share_a_pack_and_a_full_pack_is_closed(tmp_path: Path) -> None:
    runs = [kafka_6361(tmp_path / name, "n20", "1.1.1").path for name in "abc"]

    together = plan(runs, part_bytes=10_000_000)
    apart = plan(runs, part_bytes=100_000)

    assert [len(pack) for pack in together] == [12]
    assert [len(pack) for pack in apart] == [2, 2, 2, 2, 2, 2]


def test_a_segment_that_cannot_be_one_gives_an_error_row_and_no_exception(tmp_path: Path) -> None:
    run = planted_runs.segment_without_an_offset(tmp_path / "run").path

    (error,) = (row for row in rows(plan([run])) if '"side": "error"' in row)

    assert "SegmentError" in error
    assert "copy-of-a-segment.log" in error


def test_kafkas_own_topics_are_not_read(tmp_path: Path) -> None:
    run = planted_runs.clean(tmp_path / "run").seal().path
    (run / "snapshots/final/broker-0/__consumer_offsets-0").mkdir()

    assert {part.topic for pack in plan([run]) for part in pack} == {"t"}


def test_a_run_that_cannot_be_planned_says_why_and_the_others_are_planned(tmp_path: Path) -> None:
    run = planted_runs.clean(tmp_path / "run").seal().path

    (pack,) = plan([tmp_path / "absent", run])

    (why,) = rows([[pack[0]]])
    assert "absent/run.json is missing" in why
    assert '"side": "error"' in why
    assert {part.run for part in pack[1:]} == {"run"}


@pytest.mark.spark
def test_the_data_source_reads_without_knowing_any_rule() -> None:
    loaded = (
        "import sys, kchaos.checkers.spark.batch_source\n"
        "print([name for name in sys.modules if name.startswith(('kchaos.checkers.rules',"
        " 'kchaos.checkers.judge', 'kchaos.checkers.verdict', 'kchaos.checkers.spark.tasks'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
