"""A few of the kills that `benchmarks/kills.py` deals out by the hundred."""

from pathlib import Path

import pytest

from benchmarks.kills import BAD, kills

PLAY = ("reproduce", "KIP-890", "--case", "late", "--kafka", "1.1.1", "--no-spark")
"""It has one broker fewer than what the benchmark plays."""


@pytest.mark.cluster
def test_a_killed_kchaos_leaves_nothing_and_no_run_that_is_judged_wrong(tmp_path: Path):
    counts = kills(
        [*PLAY, "--runs-dir", "runs"],
        count=4,
        driver="local",
        side_by_side=2,
        seed=3,
        work=tmp_path,
        # Some seconds, wherever it is played: a kill may also come when a play has ended.
        length_s=12,
    )
    assert {kind: counts[kind] for kind in BAD if counts[kind]} == {}
    assert counts["unfinished"] > 0
