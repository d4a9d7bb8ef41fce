"""When tests share a cluster, and when the next test gets another one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.checkers.results import Results
from kchaos.checkers.verdict import NOT_PREDICTED
from kchaos.clusters.errors import MetadataUnavailable
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.harness.pytest_plugin import shared
from kchaos.harness.pytest_plugin.reporting import stays
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


def test_a_whole_cluster_is_shared(pool: ClusterPool):
    assert pool(SPEC) is pool(SPEC)


def test_a_cluster_of_which_a_broker_has_died_is_replaced(pool: ClusterPool):
    first: Any = pool(SPEC)
    first.brokers[1].is_running = False
    assert pool(SPEC) is not first
    assert pool.has_ended(first)


@pytest.mark.parametrize("registered", [lambda: frozenset({0}), unavailable])
def test_a_cluster_of_which_a_broker_is_not_registered_is_replaced(
    pool: ClusterPool, registered: Any
):
    first: Any = pool(SPEC)
    first.metadata.registered = registered
    assert pool(SPEC) is not first


# -- Run directories that stay after their test --


def results(conforms: bool | None, safe: bool | None, unknown: str = "") -> Results:
    return Results(
        conforms=conforms, safe=safe, expected=True, unknown=unknown, path=Path(), prediction=None
    )


@pytest.mark.parametrize("failed", [True, False])
def test_always_keeps_and_never_removes_every_run(failed: bool):
    assert stays("always", failed=failed, results=results(True, True))
    assert not stays("never", failed=failed, results=results(None, None))


@pytest.mark.parametrize(
    ("failed", "conforms", "safe", "expected"),
    [
        (False, True, True, False),
        (False, True, False, False),
        (True, True, True, True),
        (False, False, True, True),
        (False, None, True, True),
        (False, None, None, True),
    ],
)
def test_failed_keeps_failures_and_surprises(
    failed: bool, conforms: bool | None, safe: bool | None, expected: bool
):
    assert stays("failed", failed=failed, results=results(conforms, safe)) is expected


@pytest.mark.parametrize(("safe", "expected"), [(True, False), (None, True)])
def test_what_cannot_be_predicted_of_a_cluster_is_no_surprise(safe: bool | None, expected: bool):
    with_kraft = results(None, safe, NOT_PREDICTED)
    assert stays("failed", failed=False, results=with_kraft) is expected
    assert stays("failed", failed=True, results=with_kraft)
