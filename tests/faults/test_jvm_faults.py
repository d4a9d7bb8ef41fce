"""Threads of real brokers that are held at points of their code, from the oldest release on.

CI holds them on the oldest release and on the newest. On the releases between each point is hit
whose place in the code is another than before; `make releases` holds threads on them too.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.agent import POINTS, PointHit
from kchaos.clusters.agent.point import Place
from kchaos.clusters.agent.points import (
    FETCH_REQUEST,
    REGISTERED,
    REMOTE_COPY_CHECKPOINT,
    REMOTE_OFFSET,
    REMOTE_READ,
    SEND_FETCH,
)
from kchaos.clusters.ask.client import fetch
from kchaos.clusters.releases import release_of
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.faults.observation import await_unregistered, observe_broker
from tests.support.drivers import cluster_of
from tests.support.replicated_topic import Topic

pytestmark = pytest.mark.cluster

RELEASES = ("0.10.2.2", "1.1.1", "2.1.1", "2.2.2", "2.8.2", "3.9.1")
_ALL = bool(os.environ.get("KCHAOS_ALL_RELEASES"))
HELD = RELEASES if _ALL else (RELEASES[0], RELEASES[-1])
# Between them each point that has another place has another one on 1.1.1 or on 2.8.2.
BETWEEN = RELEASES[1:-1] if _ALL else ("1.1.1", "2.8.2")
# Quick: a killed broker's session ends soon, and a follower that was kept hears soon of records.
PROPERTIES = {
    "controlled.shutdown.enable": "true",
    "zookeeper.session.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    # A leader looks every half of this who is in sync.
    "replica.lag.time.max.ms": "10000",
}


# Where threads of broker 1 come. A point takes time at each start of its broker, so 0 has the rest.
OF_FOLLOWER = (REGISTERED, SEND_FETCH, "epoch-flush")


def spec_of(release: str, *points: Collection[str]) -> k.ClusterSpec:
    """Two brokers; the points are of broker 0 and of broker 1."""
    brokers = tuple(
        k.BrokerSpec(id=broker, kafka=release, points=tuple(points[broker])) for broker in (0, 1)
    )
    return k.ClusterSpec(brokers=brokers, first_broker=0, properties=PROPERTIES)


@pytest.fixture(scope="module", params=HELD)
def cluster_with_points(request: pytest.FixtureRequest, kafka_cluster_pool: Any) -> JvmCluster:
    """Two brokers with every point that the release has; 0 is the controller."""
    names = points_in(request.param)
    of_follower = [name for name in names if name in OF_FOLLOWER]
    of_leader = [name for name in names if name not in OF_FOLLOWER]
    cluster: JvmCluster = kafka_cluster_pool(spec_of(request.param, of_leader, of_follower))
    return cluster


@pytest.fixture
def cluster(cluster_with_points: JvmCluster) -> Iterator[JvmCluster]:
    """That cluster, where nothing is held afterwards."""
    yield cluster_with_points
    assert cluster_with_points.gate is not None
    assert cluster_with_points.gate.holds == {}


def points_in(release: str) -> dict[str, Place]:
    """All but those of tiered logs, which the entries of KIP-405 have as witnesses."""
    parsed = release_of(release)
    tiered = {REMOTE_OFFSET, REMOTE_COPY_CHECKPOINT, REMOTE_READ}
    places = {name: POINTS[name].place(parsed) for name in POINTS if name not in tiered}
    return {name: place for name, place in places.items() if place is not None}


@pytest.fixture
def cluster_between(release: str, tmp_path: Path) -> Iterator[JvmCluster]:
    """Two brokers with those points whose place is another than on the release before."""
    before = points_in(RELEASES[RELEASES.index(release) - 1])
    others = [name for name, place in points_in(release).items() if before.get(name) != place]
    of_follower = [name for name in others if name in OF_FOLLOWER]
    of_leader = {name for name in others if name not in OF_FOLLOWER}
    spec = spec_of(release, sorted(of_leader | {FETCH_REQUEST}), of_follower)
    with cluster_of(spec, work_directory=tmp_path / "work") as cluster:
        yield cluster


def await_hits(injection: k.Injection, count: int) -> list[PointHit]:
    k.await_until(
        lambda: len(injection.handle.held) >= count,
        timeout_s=60,
        waiting_for=f"{count} hits",
        last_seen=lambda: injection.handle.held,
    )
    held: list[PointHit] = injection.handle.held
    return held


def consume(cluster: JvmCluster, topic: Topic, broker: int, offset: int) -> list[int]:
    """The offsets that a consumer gets at once from an offset on."""
    magic = 1 if cluster.brokers[broker].release.startswith("0.10.") else 2
    address = cluster.brokers[broker].client_address
    got = fetch(address, topic=topic.name, partition=0, offset=offset, magic=magic)
    return [record.offset for record in got.records]


@pytest.mark.parametrize("where", ["request", "read", "log"])
def test_a_follower_whose_reads_are_held_gets_nothing_and_catches_up_when_they_go_on(
    where: Any, cluster: JvmCluster, topic: Callable[..., Topic], journal: k.MemoryJournal
):
    replicas = topic(0, 1)
    replicas.produce(0, acks=-1)
    fields: dict[str, Any] = {} if where == "request" else {"topic": replicas.name, "partition": 0}
    slow = k.SlowFetchReads(broker=0, where=where, **fields)
    with slow.inject(cluster, journal) as injection:
        (first, *_) = await_hits(injection, 1)
        replicas.produce(0, acks=1)
        assert replicas.log_end(0) == 2
        # Its only fetcher waits for an answer, and the thread that would give it is held.
        assert replicas.log_end(1) == 1
        assert consume(cluster, replicas, 0, 0) == [0]
        assert (first.fate, first.is_follower) == ("held", True)
        assert where == "request" or (replicas.name, 0) in first.partitions
    replicas.await_log_ends(2)
    acts = [what for what, _ in journal.entries]
    assert acts == ["HoldPoint", "ReleasePoint", "released"]
    assert [hit.fate for hit in _about(cluster, first)] == ["held", "released"]


def _about(cluster: JvmCluster, first: PointHit) -> list[PointHit]:
    assert cluster.gate is not None
    k.await_until(
        lambda: len([hit for hit in cluster.gate.records() if hit.number == first.number]) == 2,  # type: ignore[union-attr]
        timeout_s=30,
        waiting_for="the thread to go on",
        last_seen=cluster.gate.records,
    )
    return [hit for hit in cluster.gate.records() if hit.number == first.number]


def test_only_consumers_are_slow_where_only_consumers_are_meant(
    cluster: JvmCluster, topic: Callable[..., Topic], journal: k.MemoryJournal
):
    replicas = topic(0, 1)
    slow = k.SlowFetchReads(broker=0, readers="consumers", delay_ms=50)
    with slow.inject(cluster, journal) as injection:
        assert replicas.produce(0, acks=-1).error_code == 0
        assert injection.handle.held == []
        consume(cluster, replicas, 0, 0)
        assert {(hit.fate, hit.reader) for hit in await_hits(injection, 1)} == {("delayed", "-1")}


def test_a_delay_that_is_longer_than_the_fault_lasts_is_no_success(
    cluster: JvmCluster, topic: Callable[..., Topic], journal: k.MemoryJournal
):
    replicas = topic(0, 1)
    slow = k.SlowFetchReads(broker=0, delay_ms=3_600_000)
    with (
        pytest.raises(k.NoEffect, match=r"waited for its 3600000 ms to the end\. .* heal it later"),
        slow.inject(cluster, journal) as injection,
    ):
        await_hits(injection, 1)
    assert replicas.produce(0, acks=-1).error_code == 0


def test_a_frozen_follower_skips_its_fetches_and_goes_on_without_records(
    cluster: JvmCluster, topic: Callable[..., Topic], journal: k.MemoryJournal
):
    freeze(cluster, topic(0, 1), journal)


def freeze(cluster: JvmCluster, replicas: Topic, journal: k.MemoryJournal) -> None:
    """Freeze the follower as it takes a record: the Fetch that it does not send begins after that.

    Its leader then has the earlier offset in their fetch session.
    """
    replicas.produce(0, acks=-1)
    follower, slow = k.FreezeFollower(broker=1), k.SlowFetchReads(broker=0, where="request")
    with contextlib.ExitStack() as frozen, slow.inject(cluster, journal) as reads:
        await_hits(reads, 1)
        injection = frozen.enter_context(follower.inject(cluster, journal))
        replicas.produce(0, acks=1)
        thaw = frozen.pop_all()
    with thaw:
        replicas.await_log_ends(2)
        replicas.produce(0, acks=1)
        # The same thread came again, so that it does other work in between.
        hits = await_hits(injection, len(injection.handle.held) + 2)
        assert {hit.thread for hit in hits} == {hits[0].thread}
        assert replicas.log_end(1) == 2
    replicas.await_log_ends(3)


def test_a_controller_and_then_a_broker_are_held_and_every_point_is_hit(
    cluster: JvmCluster, topic: Callable[..., Topic], journal: k.MemoryJournal
):
    replicas, lonely = topic(0, 1), topic(1)
    before = lonely.state()
    with k.HoldController(broker=0).inject(cluster, journal) as injection:
        cluster.brokers[1].stop()
        await_unregistered(cluster, 1)
        await_hits(injection, 1)
        # It has no other replica, so that only the death of its leader changes it.
        assert lonely.state() == before
    lonely.await_state(leader=-1)

    holding = k.HoldPoint(name="registering", broker=1, point=REGISTERED)
    with holding.inject(cluster, journal) as injection:
        cluster.brokers[1].start()
        await_hits(injection, 1)
        assert observe_broker(cluster, 1).czxid is not None
        assert "started (kafka.server.KafkaServer)" not in _last_start(cluster)
    cluster.brokers[1].await_ready()
    lonely.await_state(leader=1)
    replicas.await_state(leader=0, isr=[0, 1])

    await_every_point(cluster)


def await_every_point(cluster: JvmCluster) -> None:
    """Wait until threads have come to each point of each broker."""

    def never_hit() -> list[tuple[int, str]]:
        assert cluster.gate is not None
        hits = cluster.gate.hits
        brokers = cluster.spec.brokers
        return [
            (each.id, name) for each in brokers for name in each.points if not hits(each.id, name)
        ]

    k.await_until(
        lambda: not never_hit(), timeout_s=30, waiting_for="every point", last_seen=never_hit
    )


@pytest.mark.parametrize("release", BETWEEN)
def test_a_point_that_has_another_place_in_the_code_is_hit_there(
    release: str, cluster_between: JvmCluster, journal: k.MemoryJournal
):
    replicas = Topic(cluster_between, "t", [0, 1])
    if SEND_FETCH in cluster_between.spec.brokers[1].points:
        freeze(cluster_between, replicas, journal)
    else:
        assert replicas.produce(0, acks=-1).error_code == 0
    # The controller hears of a broker that goes, and leads alone.
    cluster_between.brokers[1].stop()
    replicas.await_state(leader=0, isr=[0])

    await_every_point(cluster_between)
    # Nobody but the follower has read here.
    assert cluster_between.gate is not None
    records = cluster_between.gate.records()
    for name in cluster_between.spec.brokers[0].points:
        hits = [hit for hit in records if hit.point == name]
        if POINTS[name].names_partitions:
            assert any(("t", 0) in hit.partitions for hit in hits), hits
        if POINTS[name].names_reader:
            assert any(hit.is_follower for hit in hits), hits


def _last_start(cluster: JvmCluster) -> str:
    """What broker 1 has logged since its configuration was last printed."""
    text = cluster.brokers[1].server_log.read_text()
    return text.rpartition("KafkaConfig values")[2]


def test_a_hold_to_which_nothing_came_is_no_success(cluster: JvmCluster, journal: k.MemoryJournal):
    holding = k.HoldPoint(name="idle", broker=1, point=REGISTERED)
    with (
        pytest.raises(k.NoEffect, match=r"idle: nothing came to registered .* the point works"),
        holding.inject(cluster, journal),
    ):
        pass
