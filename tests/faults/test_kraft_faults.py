"""Faults on a KRaft cluster: three brokers, three controllers, links between all of them."""

from collections.abc import Callable, Iterator

import pytest

import kchaos as k
from kchaos.clusters.ask.client import tell
from kchaos.clusters.links import ApiKey
from kchaos.clusters.metadata.kraft_log import MetadataLogReader
from kchaos.faults.observation import await_unregistered, observe_broker
from tests.support.replicated_topic import Topic

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(
    kafka_cluster_pool: Callable[[k.ClusterSpec], k.LocalCluster],
) -> Iterator[k.LocalCluster]:
    """Every test leaves it with all nodes up, nobody fenced and no rule at the links."""
    spec = k.ClusterSpec(brokers=k.brokers_of("4.1.2", (0, 1, 2)), controllers=3)
    made = kafka_cluster_pool(spec)
    yield made
    k.await_until(
        lambda: made.metadata.registered() == {0, 1, 2},
        timeout_s=30,
        waiting_for="every broker to be unfenced",
        last_seen=made.metadata.registered,
    )
    assert made.links is not None
    rules = made.links._rules
    assert (rules.cuts, rules.holds) == ((), ())
    assert all(node.is_running for node in (*made.brokers.values(), *made.controllers.values()))


@pytest.fixture
def topic(cluster: k.LocalCluster, request: pytest.FixtureRequest) -> Callable[..., Topic]:
    made: list[Topic] = []

    def make(*replicas: int) -> Topic:
        made.append(Topic(cluster, f"t-{id(request.node) % 1_000_000}-{len(made)}", [*replicas]))
        # The controllers have decided; the leader reads of it later.
        k.await_until(
            lambda: told(cluster, replicas[0], made[-1]) == replicas[0],
            timeout_s=30,
            waiting_for=f"broker {replicas[0]} to know that it leads",
            last_seen=lambda: told(cluster, replicas[0], made[-1]),
        )
        return made[-1]

    return make


@pytest.fixture
def journal() -> k.MemoryJournal:
    return k.MemoryJournal()


def epoch_of(cluster: k.LocalCluster, broker: int) -> int:
    epoch = observe_broker(cluster, broker).czxid
    assert epoch is not None
    return epoch


def acts_in(journal: k.MemoryJournal) -> list[str]:
    return [name for name, _ in journal.entries if name[0].isupper()]


def test_a_live_leader_is_fenced_and_is_back_with_the_same_epoch(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    before = observe_broker(cluster, 0)
    with k.FenceBroker(broker=0).inject(cluster, journal):
        state = replicas.await_state(leader=1)
    assert state["leader_epoch"] == 1
    after = observe_broker(cluster, 0)
    assert (after.czxid, after.pid) == (before.czxid, before.pid)
    replicas.await_state(leader=1, isr=[0, 1, 2])
    assert journal.entries[0] == ("FenceBroker", {"broker": 0, "broker_epoch": before.czxid})


def test_a_broker_stays_fenced_while_its_heartbeats_are_held(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    hold = k.HoldRequests(name="silent", api="BrokerHeartbeat", source=0)
    with hold.inject(cluster, journal) as injection:
        injection.handle.await_held(timeout_s=30, waiting_for="a heartbeat of broker 0")
        with k.FenceBroker(broker=0, await_return=False).inject(cluster, journal):
            assert observe_broker(cluster, 0).czxid is None
            replicas.await_state(leader=1, isr=[1, 2])
        # Of another broker two heartbeats were answered, and the fenced one is fenced still.
        answered = cluster.links.next_sequence
        for _ in range(2):
            record = cluster.links.await_record(
                lambda first: (
                    (first.source, first.api_key, first.direction)
                    == (1, ApiKey.BROKER_HEARTBEAT, "response")
                ),
                30,
                "an answered heartbeat of broker 1",
                since=answered,
            )
            answered = record.sequence + 1
        assert observe_broker(cluster, 0).czxid is None
    replicas.await_state(leader=1, isr=[0, 1, 2])


def test_a_broker_without_metadata_believes_what_was(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    hold = k.HoldRequests(
        name="lag", api="Fetch", source=0, topic="__cluster_metadata", partition=0
    )
    with hold.inject(cluster, journal) as injection:
        injection.handle.await_held(timeout_s=30, waiting_for="a metadata fetch of broker 0")
        with k.FenceBroker(broker=0, await_return=False).inject(cluster, journal):
            replicas.await_state(leader=1)
        k.await_until(
            lambda: told(cluster, 1, replicas) == 1,
            timeout_s=30,
            waiting_for="broker 1 to know that it leads",
            last_seen=lambda: told(cluster, 1, replicas),
        )
        assert told(cluster, 0, replicas) == 0
        assert replicas.produce(0, acks=1).error_code == 0
    k.await_until(
        lambda: told(cluster, 0, replicas) == 1,
        timeout_s=30,
        waiting_for="broker 0 to hear of the leader",
        last_seen=lambda: told(cluster, 0, replicas),
    )
    replicas.await_state(leader=1, isr=[0, 1, 2])


def told(cluster: k.LocalCluster, broker: int, topic: Topic) -> int:
    address = cluster.brokers[broker].client_address
    return tell(address, topic=topic.name, partition=0).leader


def test_a_leader_whose_alter_partition_is_held_keeps_the_isr_that_was(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    hold = k.HoldRequests(name="isr", api="AlterPartition", source=1)
    with hold.inject(cluster, journal) as injection:
        with k.FenceBroker(broker=0).inject(cluster, journal):
            replicas.await_state(leader=1, isr=[1, 2])
        injection.handle.await_held(timeout_s=30, waiting_for="an AlterPartition of broker 1")
        (held, *_) = injection.handle.held
        assert held.target in cluster.controllers
        assert replicas.state()["isr"] == [1, 2]
    replicas.await_state(leader=1, isr=[0, 1, 2])


def test_a_live_broker_is_unregistered_and_only_a_restart_brings_it_back(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    before, epoch = observe_broker(cluster, 0), epoch_of(cluster, 0)
    with k.UnregisterBroker(broker=0).inject(cluster, journal):
        replicas.await_state(leader=1, isr=[1, 2])
        refused = cluster.links.await_record(
            lambda first: (
                (first.source, first.api_key, first.direction)
                == (0, ApiKey.BROKER_HEARTBEAT, "response")
                and first.detail["error_code"] != 0
            ),
            30,
            "a heartbeat that is refused",
        )
        assert refused.detail["error_code"] == 77  # STALE_BROKER_EPOCH
        assert cluster.brokers[0].pid == before.pid
    assert epoch_of(cluster, 0) > epoch
    replicas.await_state(isr=[0, 1, 2])
    assert acts_in(journal) == ["UnregisterBroker", "StopBroker", "StartBroker"]


@pytest.mark.parametrize("style", ["silent", "reset"])
def test_a_broker_that_is_cut_from_the_controllers_is_fenced_and_is_heard_of_again(
    cluster, topic, journal, style
):
    replicas = topic(0, 1, 2)
    with k.CutControllers(broker=0, style=style).inject(cluster, journal) as injection:
        assert injection.effect["is_cut"]
        await_unregistered(cluster, 0)
        replicas.await_state(leader=1, isr=[1, 2])
        # It heard nothing of that, and brokers reach it still.
        assert told(cluster, 0, replicas) == 0
    replicas.await_state(leader=1, isr=[0, 1, 2])
    assert acts_in(journal) == ["CutLink"] * 3 + ["HealLink"] * 3


def test_an_isolated_broker_reaches_no_controller_either_if_that_is_asked_for(
    cluster, topic, journal
):
    replicas = topic(0, 1, 2)
    with k.IsolateBroker(broker=0, zookeeper=True).inject(cluster, journal):
        with k.FenceBroker(broker=0, await_return=False).inject(cluster, journal):
            replicas.await_state(leader=1, isr=[1, 2])
        assert replicas.produce(0, acks=1).error_code == 0
    replicas.await_state(leader=1, isr=[0, 1, 2])
    replicas.await_log_ends(0)


def test_a_killed_broker_is_fenced_at_once_and_registers_anew(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    before = epoch_of(cluster, 0)
    with k.KillBroker(broker=0).inject(cluster, journal):
        replicas.await_state(leader=1, isr=[1, 2])
    assert epoch_of(cluster, 0) > before
    replicas.await_state(leader=1, isr=[0, 1, 2])
    assert acts_in(journal) == ["StopBroker", "FenceBroker", "StartBroker"]


def test_a_broker_that_is_started_at_once_waits_until_the_session_of_the_killed_one_is_over(
    cluster,
):
    before = epoch_of(cluster, 0)
    cluster.brokers[0].kill()
    cluster.brokers[0].start()
    cluster.brokers[0].await_ready()
    assert epoch_of(cluster, 0) > before


def test_the_cluster_goes_on_without_a_controller_that_was_killed(cluster, topic, journal):
    leader, epoch = cluster.metadata.controller(), cluster.metadata.controller_epoch()
    with k.KillBroker(broker=leader).inject(cluster, journal):
        k.await_until(
            lambda: cluster.metadata.controller_epoch() > epoch,
            timeout_s=60,
            waiting_for="another leader of the controllers",
            last_seen=cluster.metadata.controller_epoch,
        )
        assert cluster.metadata.controller() != leader
        topic(0, 1, 2).produce(0, acks=-1)
    assert cluster.controllers[leader].is_running
    assert acts_in(journal) == ["StopBroker", "StartBroker"]


def await_log(cluster: k.LocalCluster, node: int) -> None:
    """Return once a node has all of the metadata log that there is now."""
    reader, end = MetadataLogReader(cluster.metadata_folders()[node]), cluster.metadata.position()
    k.await_until(
        lambda: reader.read_on() is not None and reader.end_offset >= end,
        timeout_s=30,
        waiting_for=f"node {node} to have the metadata log",
        last_seen=lambda: reader.end_offset,
    )


def test_a_controller_that_lost_the_end_of_its_log_or_all_has_it_from_the_others(
    cluster, topic, journal
):
    node = min(set(cluster.controllers) - {cluster.metadata.controller()})
    tail = k.LoseTail(broker=node, topic="__cluster_metadata", partition=0, log_end_offset=-3)
    for loss in (tail, k.WipeLogDirectory(broker=node)):
        with (
            k.KillBroker(broker=node).inject(cluster, journal),
            loss.inject(cluster, journal) as injection,
        ):
            assert injection.effect != injection.before
        await_log(cluster, node)
    topic(0, 1, 2).produce(0, acks=-1)


def test_a_controller_that_stands_still_loses_its_office(cluster, topic, journal):
    leader, epoch = cluster.metadata.controller(), cluster.metadata.controller_epoch()
    with k.MoveController().inject(cluster, journal) as injection:
        assert injection.effect["controller"] != leader
        assert injection.effect["controller_epoch"] > epoch
        assert not cluster.controllers[leader].is_paused
        topic(0, 1, 2).produce(0, acks=-1)
    assert acts_in(journal) == ["PauseBroker", "MoveController", "ResumeBroker"]


def test_without_most_of_the_controllers_nothing_is_decided(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    first, second = sorted(set(cluster.controllers) - {cluster.metadata.controller()})
    with (
        k.PauseBroker(broker=first).inject(cluster, journal),
        k.PauseBroker(broker=second).inject(cluster, journal),
    ):
        refused = k.MoveController().inject(cluster, journal)
        with pytest.raises(k.NotAvailable, match="only 1 controllers go on"), refused:
            pass
        assert replicas.produce(0, acks=-1).error_code == 0
        assert replicas.state()["leader_epoch"] == 0
    topic(0, 1, 2)


def test_two_controllers_that_are_cut_from_each_other_still_have_a_third(cluster, topic, journal):
    leader = cluster.metadata.controller()
    other = min(set(cluster.controllers) - {leader})
    with k.CutLink(source=other, target=leader).inject(cluster, journal) as injection:
        topic(0, 1, 2).produce(0, acks=-1)
        assert injection.effect["is_cut"]
    topic(0, 1, 2)


def test_the_preferred_replica_is_elected(cluster, topic, journal):
    replicas = topic(0, 1, 2)
    election = k.PreferredElection(topic=replicas.name, partition=0)
    with pytest.raises(k.NoEffect, match="leads already"), election.inject(cluster, journal):
        pass
    with k.FenceBroker(broker=0).inject(cluster, journal):
        replicas.await_state(leader=1)
    replicas.await_state(leader=1, isr=[0, 1, 2])
    with election.inject(cluster, journal) as injection:
        assert injection.effect["leader"] == 0
    assert replicas.state()["leader_epoch"] == 2


def test_a_feature_level_is_lowered_and_raised_and_one_that_nobody_supports_is_refused(
    cluster, journal
):
    name = "transaction.version"
    above = k.UpdateFeatures(levels=(("metadata.version", 99),))
    with pytest.raises(k.NoEffect, match=r"metadata\.version"), above.inject(cluster, journal):
        pass
    level = cluster.metadata.features()[name]
    lower = k.UpdateFeatures(levels=((name, level - 1),), downgrade=True)
    with lower.inject(cluster, journal) as injection:
        assert injection.before["levels"][name] == level
        assert injection.effect["levels"][name] == level - 1
    with k.UpdateFeatures(levels=((name, level),)).inject(cluster, journal) as injection:
        assert injection.effect["levels"][name] == level
