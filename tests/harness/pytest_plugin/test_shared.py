"""When tests share a cluster, and when the next test gets another one."""

from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.clusters.errors import MetadataUnavailable
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.harness.pytest_plugin import shared
from kchaos.harness.pytest_plugin.shared import ClusterPool

SPEC = ClusterSpec(brokers=brokers_of("2.8.2", (0, 1)))


def nothing() -> None:
    """Take the place of starting and stopping a cluster."""


def unavailable() -> frozenset[int]:
    raise MetadataUnavailable("ZooKeeper does not answer")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> ClusterPool:
    """A pool whose clusters have two running brokers, both registered."""

    def make_cluster(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(
            brokers={0: SimpleNamespace(is_running=True), 1: SimpleNamespace(is_running=True)},
            metadata=SimpleNamespace(registered=lambda: frozenset({0, 1})),
            start=nothing,
            stop=nothing,
        )

    monkeypatch.setattr(shared, "make_cluster", make_cluster)
    return ClusterPool(driver="local", offline=True, say=lambda _: None)


def test_a_whole_cluster_is_shared(pool: ClusterPool) -> None:
    assert pool(SPEC) is pool(SPEC)


def test_a_cluster_of_which_a_broker_has_died_is_replaced(pool: ClusterPool) -> None:
    first: Any = pool(SPEC)
    first.brokers[1].is_running = False
    assert pool(SPEC) is not first
    assert pool.has_ended(first)


@pytest.mark.parametrize("registered", [lambda: frozenset({0}), unavailable])
def test_a_cluster_of_which_a_broker_is_not_registered_is_replaced(
    pool: ClusterPool, registered: Any
) -> None:
    first: Any = pool(SPEC)
    first.metadata.registered = registered
    assert pool(SPEC) is not first
