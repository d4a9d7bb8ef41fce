"""What all tests share: real clusters that are started once for each release.

The clusters come from kchaos's own pytest plugin; see `harness.pytest_plugin`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from clusters.local import LocalCluster
    from harness.pytest_plugin.shared import ClusterPool

ReleaseCluster = Callable[[str], "LocalCluster"]


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


@pytest.fixture(scope="session")
def release_cluster(kafka_cluster_pool: ClusterPool) -> ReleaseCluster:
    """The running cluster of a release: ``release_cluster("1.1.1")``; the one before is stopped.

    It has two linked brokers, 0 and 1, and 0 is the controller. Tests that change something
    (topics aside) leave the cluster as they found it.
    """
    from clusters.spec import ClusterSpec, brokers_of

    return lambda release: kafka_cluster_pool(
        ClusterSpec(brokers=brokers_of(release, (0, 1)), first_broker=0)
    )
