from __future__ import annotations

from pathlib import Path

import pytest

from kchaos.clusters.class_archive import await_archives
from kchaos.clusters.local import LocalCluster
from kchaos.clusters.spec import ClusterSpec, brokers_of


@pytest.mark.cluster
def test_the_third_cluster_of_a_release_maps_the_archive_that_the_first_two_prepared(
    tmp_path: Path, borrowing_cache: Path
) -> None:
    spec = ClusterSpec(brokers=brokers_of("1.1.1", (0,)), linked=False)

    found = []
    for name in ("lists", "writes", "maps"):
        with LocalCluster(spec, work_directory=tmp_path / name) as cluster:
            pid = cluster.brokers[0].pid
            mapped = f"{borrowing_cache}/archives/1.1.1-" in Path(f"/proc/{pid}/maps").read_text()
            await_archives()
        kept = {file.suffix for file in (borrowing_cache / "archives").glob("1.1.1-*")}
        found.append((mapped, ".lst" in kept, ".jsa" in kept))

    assert found == [(False, True, False), (False, True, True), (True, True, True)]
