from __future__ import annotations

from pathlib import Path

import pytest

from clusters.cache import cache_directory
from clusters.class_archive import await_archives
from clusters.distribution import java_of, resolve
from clusters.local import LocalCluster
from clusters.spec import ClusterSpec, brokers_of


@pytest.mark.cluster
def test_the_third_cluster_of_a_release_maps_the_archive_that_the_first_two_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_of(resolve("1.1.1"))
    shared, cache = cache_directory(), tmp_path / "cache"
    cache.mkdir()
    for name in ("java", "maven", "kafka"):
        (cache / name).symlink_to(shared / name)
    monkeypatch.setenv("KCHAOS_CACHE", str(cache))
    spec = ClusterSpec(brokers=brokers_of("1.1.1", (0,)), linked=False)

    found = []
    for name in ("lists", "writes", "maps"):
        with LocalCluster(spec, work_directory=tmp_path / name) as cluster:
            pid = cluster.brokers[0].pid
            mapped = f"{cache}/archives/1.1.1-" in Path(f"/proc/{pid}/maps").read_text()
            await_archives()
        kept = {file.suffix for file in (cache / "archives").glob("1.1.1-*")}
        found.append((mapped, ".lst" in kept, ".jsa" in kept))

    assert found == [(False, True, False), (False, True, True), (True, True, True)]
