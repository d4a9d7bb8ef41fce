"""The fixtures, and how tests that use them are multiplied and ordered.

Imported in every pytest run of the environment: what is heavy is imported inside the fixtures.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.harness.pytest_plugin.options import settings_of
from kchaos.harness.pytest_plugin.shapes import (
    quiet_imports,
    release_for,
    releases_of,
    seed_for,
    settle_bound_for,
    shape_of,
    spec_for,
)

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from kchaos.clusters.start.jvm_cluster import JvmCluster
    from kchaos.harness.campaign.live import Chaos
    from kchaos.harness.pytest_plugin.shared import ClusterPool, SharedCluster

CLUSTER: "pytest.StashKey[JvmCluster]" = pytest.StashKey()
CHAOS: "pytest.StashKey[Chaos]" = pytest.StashKey()
_POOL: "pytest.StashKey[ClusterPool]" = pytest.StashKey()
_STARTED = pytest.StashKey[float]()
_RELEASE = "kafka_release"
_NAME_LENGTH = 60


def say(text: str) -> None:
    """Print progress to the test's captured output."""
    print(f"kchaos: {text}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that uses Kafka with every requested release."""
    if _RELEASE not in metafunc.fixturenames:
        return
    node: Any = metafunc.definition
    for marker in node.iter_markers("parametrize"):
        names = marker.args[0] if marker.args else marker.kwargs.get("argnames", ())
        if _RELEASE in (names.replace(",", " ").split() if isinstance(names, str) else names):
            return
    releases = releases_of(node, settings_of(metafunc.config))
    if releases:
        ids = [release.rstrip("/").rpartition("/")[2] for release in releases]
        metafunc.parametrize(_RELEASE, releases, indirect=True, ids=ids)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share a cluster behind the first of them, so that it starts once."""
    groups: dict[str, list[pytest.Item]] = {}
    for number, item in enumerate(items):
        shared = "shared_kafka_cluster" in getattr(item, "fixturenames", ())
        groups.setdefault(_shape_key(item) if shared else f"test {number}", []).append(item)
    items[:] = [item for group in groups.values() for item in group]


def _shape_key(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    release = callspec.params.get(_RELEASE) if callspec is not None else None
    return f"{release} {shape_of(item)}"


@contextlib.contextmanager
def _clear_refusals() -> Iterator[None]:
    """Report an unknown release or an unfit machine by its message, without a traceback."""
    from kchaos.clusters.errors import MachineError, ReleaseError

    try:
        yield
    except (MachineError, ReleaseError) as error:
        pytest.fail(f"kchaos: {error}", pytrace=False)


@pytest.fixture
def kafka_release(request: pytest.FixtureRequest) -> str:
    """Provide the release, or the path to a distribution, of this test's cluster."""
    given = getattr(request, "param", None)
    return str(given) if given is not None else release_for(request.node)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, kafka_release: str) -> "Iterator[JvmCluster]":
    """Provide a running cluster for this test alone, as in `@pytest.mark.kafka_cluster(...)`."""
    with quiet_imports():
        from kchaos.clusters.front.drivers import make_cluster
        from kchaos.clusters.system.leftovers import work_directory

    settings = settings_of(request.config)
    request.node.stash[_STARTED] = time.time()
    with contextlib.ExitStack() as ending:
        with _clear_refusals():
            spec = spec_for(request.node, kafka_release, settings)
            work = ending.enter_context(work_directory("pytest"))
            cluster = ending.enter_context(
                make_cluster(
                    settings.driver, spec, work_directory=work, offline=settings.offline, say=say
                )
            )
        request.node.stash[CLUSTER] = cluster
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster_pool(request: pytest.FixtureRequest) -> "Iterator[ClusterPool]":
    """Provide a function from a `ClusterSpec` to its running cluster; one runs at a time.

    None outlives the tests of its file, unless the next one asks for a cluster too: a fixture of a
    wider scope keeps the pool, and calls it for each test.
    """
    with quiet_imports():
        from kchaos.harness.pytest_plugin.shared import ClusterPool

    settings = settings_of(request.config)
    pool = ClusterPool(driver=settings.driver, offline=settings.offline, say=say)
    request.config.stash[_POOL] = pool
    yield pool
    pool.stop()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a shared cluster before tests of another file that share none.

    Brokers that nobody uses take a twentieth of a core each, and their memory. Tests of one file
    may take turns with others there.
    """
    pool = item.config.stash.get(_POOL, None)
    if pool is None or nextitem is None or nextitem.path == item.path:
        return
    if "kafka_cluster_pool" not in getattr(nextitem, "fixturenames", ()):
        pool.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a test whose fixture keeps a cluster that the pool has stopped."""
    pool = item.config.stash.get(_POOL, None)
    for name, value in getattr(item, "funcargs", {}).items():
        if pool is not None and pool.has_ended(value):
            pytest.fail(
                f"kchaos: fixture {name!r} kept a cluster of kafka_cluster_pool, which has stopped "
                "it since, for tests of another file or for another cluster: let the fixture "
                "return the pool, or a function that calls it, and call it in each test",
                pytrace=False,
            )


@pytest.fixture
def shared_kafka_cluster(
    request: pytest.FixtureRequest, kafka_release: str, kafka_cluster_pool: "ClusterPool"
) -> "SharedCluster":
    """Provide a running cluster shared by tests of one shape and release, with free topic names.

    A test leaves it as it found it, topics aside. One that breaks a broker takes `kafka_cluster`
    or `chaos`.
    """
    from kchaos.harness.pytest_plugin.shared import SharedCluster

    with _clear_refusals():
        settings = settings_of(request.config)
        cluster = kafka_cluster_pool(spec_for(request.node, kafka_release, settings))
    request.node.stash[CLUSTER] = cluster
    return SharedCluster(cluster=cluster)


@pytest.fixture
def zookeeper(request: pytest.FixtureRequest, kafka_release: str) -> "KazooClient":
    """Provide a started ZooKeeper client of the cluster that the test uses."""
    if "shared_kafka_cluster" in request.fixturenames:
        return request.getfixturevalue("shared_kafka_cluster").cluster.zookeeper()
    return request.getfixturevalue("kafka_cluster").zookeeper()


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_cluster: "JvmCluster") -> "Iterator[Chaos]":
    """Provide a live run on `kafka_cluster`, whose operations are recorded, replayed and judged."""
    with quiet_imports():
        from kchaos.harness.campaign.live import Chaos
        from kchaos.harness.run.runner import RunOptions
        from kchaos.harness.run.scenario import Scenario

    settings = settings_of(request.config)
    release = kafka_cluster.spec.brokers[0].kafka
    live = Chaos(
        kafka_cluster,
        Scenario(
            entry=f"pytest-{_short_name(request.node.nodeid, release)}",
            case="",
            release=release,
            cluster=kafka_cluster.spec,
            steps=(),
            seed=seed_for(request.node, settings),
        ),
        options=RunOptions(
            runs_directory=settings.runs_directory,
            offline=settings.offline,
            driver=settings.driver,
            settle_bound_s=settle_bound_for(request.node, settings),
            command=("pytest", request.node.nodeid),
        ),
        started=request.node.stash[_STARTED],
        say=say,
    )
    request.node.stash[CHAOS] = live
    yield live
    live.abandon()


def _short_name(node_id: str, release: str) -> str:
    """Return the test's own name without the release, fit for a folder."""
    name = node_id.rpartition("::")[2].replace(Path(release).name, "")
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")[:_NAME_LENGTH]
