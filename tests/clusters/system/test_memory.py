"""Memory for a cluster, also in a container with a limit."""

import os
from pathlib import Path

import pytest

from kchaos.clusters.system import memory
from kchaos.clusters.system.memory import available_mib, clusters_at_once, usable_cores


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    return tmp_path


def _limited(group: Path, names: tuple[str, str], limit: str, stat: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    (group / names[0]).write_text(limit)
    (group / names[1]).write_text(str(200 << 20))
    (group / "memory.stat").write_text(stat)


def test_a_groups_limit_counts_without_what_can_be_given_back(groups: Path):
    _limited(
        groups, ("memory.max", "memory.current"), str(300 << 20), f"inactive_file {50 << 20}\n"
    )
    _limited(
        groups / "memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        str(300 << 20),
        f"cache 1\ntotal_inactive_file {50 << 20}\n",
    )
    assert available_mib() == 150


def test_a_group_without_a_limit_leaves_the_machines_memory(groups: Path):
    _limited(groups, ("memory.max", "memory.current"), "max\n", "inactive_file 0\n")
    machine = available_mib()
    assert machine is not None
    assert machine > 150


@pytest.mark.parametrize(("limit", "cores"), [("50000 100000", 0.5), ("max 100000", None)])
def test_a_groups_share_of_the_cores_counts(groups: Path, limit: str, cores: float | None):
    (groups / "cpu.max").write_text(limit)
    (groups / "cpu").mkdir()
    (groups / "cpu/cpu.cfs_quota_us").write_text("50000" if cores else "-1")
    (groups / "cpu/cpu.cfs_period_us").write_text("100000")
    assert usable_cores() == (cores or len(os.sched_getaffinity(0)))


def test_clusters_side_by_side_are_limited_by_cores_and_by_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "usable_cores", lambda: 9.0)
    monkeypatch.setattr(memory, "available_mib", lambda: 3000)
    assert clusters_at_once([100], cores=2) == 4
    assert clusters_at_once([100], cores=1) == 9
    assert clusters_at_once([256] * 2, cores=1) == 3
    assert clusters_at_once([256] * 50, cores=1) == 1
