"""Fixtures of fault tests: a cluster that is left as it was found, topics, a journal."""

import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import MemoryJournal
from kchaos.faults.observation import observe_broker
from kchaos.harness.pytest_plugin.shared import ClusterPool
from tests.support.replicated_topic import RELEASE, Topic


def out_of_sync(cluster: LocalCluster) -> dict[str, Any]:
    """The partitions of which a replica is not in the ISR, and what there is of them."""
    metadata = cluster.metadata
    seen = {}
    for topic in metadata.topics():
        for partition, replicas in metadata.assignment(topic).items():
            state = metadata.state(topic, partition)
            if state is None or sorted(state.isr) != sorted(replicas):
                seen[f"{topic}-{partition}"] = state
    return seen


def check_left_as_found(cluster: LocalCluster) -> None:
    """Both brokers up and in sync, broker 0 the controller, no rule at the links."""
    for broker in cluster.brokers.values():
        assert broker.is_running
        assert observe_broker(cluster, broker.id).czxid is not None
    assert cluster.metadata.controller() == 0
    if cluster.links is not None:
        rules = cluster.links._rules
        assert (rules.cuts, rules.holds, rules.forgeries) == ((), (), ())
    await_until(
        lambda: not out_of_sync(cluster),
        timeout_s=60,
        waiting_for="every replica to be in sync",
        last_seen=lambda: out_of_sync(cluster),
    )


def last_words(cluster: LocalCluster) -> str:
    """The end of each broker's log, and its main thread where it has written its threads."""
    words = []
    for broker in cluster.brokers.values():
        lines = broker.server_log.read_text().splitlines()[-20:]
        main = re.findall(r'^"main.*?^$', broker.console_log.read_text(), re.DOTALL | re.MULTILINE)
        words += [f"{broker.name} ends with", *lines, *main[-1:]]
    return "\n".join(words)


@pytest.fixture
def shared(
    release_cluster: Callable[[str], LocalCluster], kafka_cluster_pool: ClusterPool
) -> Iterator[Callable[..., LocalCluster]]:
    """A release's shared cluster. A test leaves it as it found it; else the next has another."""
    used: list[LocalCluster] = []

    def of(release: str) -> LocalCluster:
        used.append(release_cluster(release))
        return used[-1]

    yield of
    try:
        for cluster in used:
            check_left_as_found(cluster)
    except BaseException as error:
        error.add_note("\n".join(map(last_words, used)))
        kafka_cluster_pool.stop()
        raise


@pytest.fixture(params=[RELEASE])
def release(request: pytest.FixtureRequest) -> str:
    """A parameter, since tests are sorted by it so that each release starts once."""
    return str(request.param)


@pytest.fixture
def cluster(shared: Callable[[str], LocalCluster], release: str) -> LocalCluster:
    return shared(release)


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> Callable[..., Topic]:
    """Makes a topic that is named after the test."""
    made: list[Topic] = []

    def make(*replicas: int, **configuration: str) -> Topic:
        # The second try of a test has topics of its own.
        name = f"{request.node.originalname[:80]}-{secrets.token_hex(3)}-{len(made)}"
        made.append(Topic(cluster, name, list(replicas), **configuration))
        return made[-1]

    return make


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def observe(cluster: LocalCluster) -> Callable[[int], BrokerSeen]:
    return lambda broker: observe_broker(cluster, broker)
