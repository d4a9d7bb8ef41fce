"""Stored runs of healthy compacted topics, which nobody waited for, and what they come to damaged.

In both a topic with small segments gets keys k-0 to k-4, and k-0 to k-19 behind them, and each
broker's log cleaner goes over it when it likes: `cleaned-3.9.1` with ZooKeeper, `3.9.1-cleaned`
with KRaft.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import read_segment
from tests.golden.stored import OTHERS, not_asked, unpacked

pytestmark = pytest.mark.slow

KRAFT = Path(__file__).with_name("kraft")
RUNS = {"cleaned-3.9.1": OTHERS, "3.9.1-cleaned": KRAFT}
_LAST_OF_ITS_KEY, _WRITTEN_AGAIN = 7, 2


def without(run: RunDirectory, offset: int, brokers: Iterable[int]) -> RunDirectory:
    """The run, sealed again, with one record less on these brokers; each batch has one."""
    (run.path / MANIFEST).unlink()
    for broker in brokers:
        for segment in run.path.glob(f"snapshots/final/broker-{broker}/t-0/*.log"):
            content = segment.read_bytes()
            read = read_segment(content, base_offset=int(segment.stem), file=segment.name)
            for batch in read.batches:
                if batch.base_offset == offset:
                    end = batch.position + batch.size_bytes
                    segment.write_bytes(content[: batch.position] + content[end:])
    RunDirectory(run.path).seal()
    return RunDirectory.open(run.path)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    ("brokers", "found"),
    [
        # With it goes the reason to remove the record of that key before.
        ((0, 1), [("committed-loss", 2), ("committed-loss", 7)]),
        ((0,), [("hole", 7)]),
        ((1,), [("hole", 7)]),
    ],
)
def test_the_last_record_of_a_key_may_not_be_gone(
    name: str, brokers: tuple[int, ...], found: list[tuple[str, int]], tmp_path: Path
):
    run = unpacked(name, tmp_path, runs=RUNS[name])

    results = judge(without(run, _LAST_OF_ITS_KEY, brokers), predict=not_asked)

    assert results.safe is False
    assert [(each.kind, each.first_offset) for each in results.findings] == found


@pytest.mark.parametrize("name", RUNS)
def test_a_record_of_which_a_later_one_is_there_may_be_gone_anywhere(name: str, tmp_path: Path):
    run = unpacked(name, tmp_path, runs=RUNS[name])

    assert judge(without(run, _WRITTEN_AGAIN, (0,))).safe is True
