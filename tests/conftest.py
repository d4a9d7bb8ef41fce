"""What all tests share: real clusters that are started once for each release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusters.local import LocalCluster
from clusters.spec import ClusterSpec, brokers_of


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: starts real ZooKeeper and brokers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that share a release's cluster one after another, so it starts once."""
    shared = [item for item in items if "release_cluster" in getattr(item, "fixturenames", ())]
    if shared:
        rest = [item for item in items if item not in shared]
        items[:] = rest + sorted(shared, key=_release_of_item)


def _release_of_item(item: pytest.Item) -> tuple[int, ...]:
    callspec = getattr(item, "callspec", None)
    release = str(callspec.params.get("release", "0")) if callspec else "0"
    return tuple(int(part) for part in release.split("."))


class ReleaseClusters:
    """Calls give the running cluster of a release; the one before is stopped first.

    It has two linked brokers, 0 and 1, and 0 is the controller. Tests that change something
    (topics aside) leave the cluster as they found it.
    """

    def __init__(self, above: Path) -> None:
        self._above = above
        self._release: str | None = None
        self._cluster: LocalCluster | None = None

    def __call__(self, release: str) -> LocalCluster:
        if self._release != release:
            self.stop()
            spec = ClusterSpec(brokers=brokers_of(release, (0, 1)), first_broker=0)
            cluster = LocalCluster(spec, work_directory=self._above / release)
            cluster.start()
            self._release, self._cluster = release, cluster
        assert self._cluster is not None
        return self._cluster

    def stop(self) -> None:
        cluster, self._cluster, self._release = self._cluster, None, None
        if cluster is not None:
            cluster.stop()


@pytest.fixture(scope="session")
def release_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], LocalCluster]]:
    """The factory of release clusters: ``release_cluster("1.1.1")``."""
    clusters = ReleaseClusters(tmp_path_factory.mktemp("releases"))
    yield clusters
    clusters.stop()
