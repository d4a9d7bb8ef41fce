"""Stored runs of real KRaft clusters: what is said of them, and what is said once they are damaged.

In each a follower is killed and comes back. They were played and stored as the other golden runs.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.record import NOT_PREDICTED
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from tests.golden.stored import expected_of, said_of, unpacked

KRAFT = Path(__file__).with_name("kraft")
NAMES = ("3.3.2", "3.9.1", "4.1.2-three-controllers", "4.4.0-linked")


def test_every_stored_kraft_run_is_looked_at() -> None:
    assert {folder.name for folder in KRAFT.iterdir()} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_real_kraft_run_is_safe_and_unknown_for_one_reason(name: str, tmp_path: Path) -> None:
    run = unpacked(name, tmp_path, runs=KRAFT)

    results = judge(run)

    assert said_of(run, results) == expected_of(name, runs=KRAFT)
    assert (results.conforms, results.safe, results.expected) == (None, True, True)
    assert (results.unknown, results.crashes) == (NOT_PREDICTED, ())


def _lose_the_tail(path: Path) -> None:
    for segment in path.glob("snapshots/final/broker-*/t-0/*.log"):
        segment.write_bytes(segment.read_bytes()[:-1])


def _lose_a_metadata_log(path: Path) -> None:
    shutil.rmtree(path / "metadata" / "node-101")


def _of_another_cluster(path: Path) -> None:
    for file in path.glob("metadata/node-*/meta.properties"):
        lines = file.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("cluster.id")]
        file.write_text("\n".join([*kept, "cluster.id=another"]))


def _cut_a_majority(path: Path) -> None:
    for node in (100, 102):
        (log,) = path.glob(f"metadata/node-{node}/*.log")
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_lose_the_tail, "torn-tail"),
        (_lose_a_metadata_log, "metadata/node-101 is missing"),
        (_of_another_cluster, "not another"),
        (_cut_a_majority, "the metadata log ends at offset"),
    ],
)
def test_damage_to_a_real_run_is_told(
    damage: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    run = unpacked("4.1.2-three-controllers", tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    damage(run.path)
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    assert results.safe is not True
    told = [results.unknown or "", *(one.kind for one in results.findings)]
    assert any(said in one for one in told), told
