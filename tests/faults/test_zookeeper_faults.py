from dataclasses import replace

import pytest

import kchaos as k
from kchaos.checkers.observations import BrokerSeen
from kchaos.faults.observation import observe_broker
from kchaos.faults.zookeeper.activity import packets_received
from kchaos.faults.zookeeper.expire_session import end_session_of
from tests.support.drivers import cluster_of
from tests.support.elections import check_election
from tests.support.replicated_topic import RELEASE, Topic

pytestmark = pytest.mark.cluster


def czxid_of(observation: BrokerSeen) -> int:
    assert observation.czxid is not None
    return observation.czxid


def controller_epoch(cluster):
    return int(cluster.zookeeper().get("/controller_epoch")[0])


@pytest.mark.parametrize("style", ["silent", "reset", "dropped"])
def test_zookeeper_hears_nothing_of_a_broker_that_is_cut_off_and_hears_of_it_after_healing(
    cluster, observe, journal, style
):
    before = {broker: observe(broker) for broker in (0, 1)}

    def heard(broker):
        return packets_received(cluster, before[broker].session_id)

    with k.CutZooKeeper(broker=1, style=style).inject(cluster, journal) as injection:
        assert injection.effect["is_cut"]
        at_cut, others = heard(1), sum(heard(0).values())
        # Two more pings of a broker with the same session timeout: the other would have pinged.
        k.await_until(
            lambda: sum(heard(0).values()) >= others + 2,
            timeout_s=60,
            waiting_for="two pings of broker 0",
            last_seen=lambda: heard(0),
        )
        assert heard(1) == at_cut
        assert not injection.handle.is_healed
    assert injection.handle.is_healed
    after = observe(1)
    # On a slow machine the session may have ended by then, and there is a new one.
    assert after.session_id != before[1].session_id or heard(1) not in (at_cut, {})
    assert [act for act, _ in journal.entries] == [
        "CutZooKeeper",
        "HealZooKeeper",
        "broker-registered",
    ]
    assert after.pid == before[1].pid


def test_a_broker_that_is_cut_off_and_expired_serves_on_as_a_zombie_until_it_is_healed(
    cluster, observe, journal, topic
):
    replicas, before = topic(1, 0), observe(1)
    assert replicas.produce(1, acks=-1).base_offset == 0
    with (
        k.CutZooKeeper(broker=1).inject(cluster, journal),
        k.ExpireSession(broker=1, await_return=False).inject(cluster, journal) as injection,
    ):
        assert injection.before == before.to_json()
        epoch = replicas.await_state(leader=0)["leader_epoch"]
        # Nobody tells broker 1: it acknowledges records as the leader of the epoch before.
        assert replicas.produce(1, acks=1).base_offset == 1
        assert epoch > 0
        now = observe(1)
        assert (now.pid, now.czxid, now.session_id) == (before.pid, None, None)
    after = observe(1)
    assert after.pid == before.pid
    assert after.session_id not in (None, before.session_id)
    assert after.czxid > before.czxid
    replicas.await_state(leader=0, isr=[0, 1])


def test_a_session_that_ends_by_itself_just_before_has_ended_as_well(
    cluster, observe, journal, monkeypatch
):
    def too_late(cluster, session_id):
        end_session_of(cluster, session_id)
        raise k.NoEffect("it did not resume")

    monkeypatch.setattr("kchaos.faults.zookeeper.expire_session.end_session_of", too_late)
    before = observe(1)
    with (
        k.CutZooKeeper(broker=1).inject(cluster, journal),
        k.ExpireSession(broker=1, await_return=False).inject(cluster, journal),
    ):
        assert observe(1).czxid is None
    assert observe(1).czxid > before.czxid


def test_faults_of_zookeeper_heal_after_an_exception_and_after_ctrl_c(cluster, observe, journal):
    before = observe(1)
    cuts = []

    def fail_inside():
        with k.CutZooKeeper(broker=1).inject(cluster, journal) as cut:
            cuts.append(cut.handle)
            with k.ExpireSession(broker=1, await_return=False).inject(cluster, journal):
                assert observe(1).czxid is None
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert cuts[0].is_healed
    registered = observe(1)
    assert registered.czxid > before.czxid
    with pytest.raises(LookupError), k.ExpireSession(broker=1).inject(cluster, journal):
        raise LookupError
    assert observe(1).czxid > registered.czxid


def test_an_unknown_style_of_cut_is_refused(cluster, journal):
    with pytest.raises(k.NotAvailable, match="use 'silent' or 'reset'"):
        k.CutZooKeeper(broker=1, style="loud").inject(cluster, journal).__enter__()  # type: ignore[arg-type]


@pytest.mark.parametrize(("by", "done_by"), [("", "api"), ("znode", "znode")])
def test_the_preferred_replica_becomes_the_leader_of_a_new_epoch(
    cluster, journal, topic, by, done_by
):
    check_election(topic(0, 1), journal, by, done_by)


def test_a_preferred_replica_that_is_dead_is_not_elected_and_that_is_said(cluster, journal, topic):
    replicas = topic(1, 0)
    with k.KillBroker(broker=1).inject(cluster, journal):
        before = replicas.await_state(leader=0, isr=[0])
        for by, told in (("znode", "it is not in the ISR"), ("api", "refused: .* error")):
            fault = k.PreferredElection(topic=replicas.name, partition=0, by=by)  # type: ignore[arg-type]
            with pytest.raises(k.NoEffect, match=told):
                fault.inject(cluster, journal).__enter__()
        assert not cluster.metadata.is_electing()
        assert replicas.state() == before
    with pytest.raises(k.NoEffect, match="does not exist: is the topic created"):
        k.PreferredElection(topic="nowhere", partition=0).inject(cluster, journal).__enter__()
    with pytest.raises(k.NotAvailable, match="by is 'magic'"):
        k.PreferredElection(topic=replicas.name, partition=0, by="magic").inject(  # type: ignore[arg-type]
            cluster, journal
        ).__enter__()


def test_the_controller_moves_to_a_broker_that_sees_zookeeper_and_its_epoch_grows(cluster, journal):
    for cut_off, elected in ((0, 1), (1, 0)):
        before = (cluster.metadata.controller(), controller_epoch(cluster))
        with (
            k.CutZooKeeper(broker=cut_off).inject(cluster, journal),
            k.MoveController().inject(cluster, journal) as injection,
        ):
            after = (cluster.metadata.controller(), controller_epoch(cluster))
            assert after == (elected, before[1] + 1)
            assert injection.before == {"controller": before[0], "controller_epoch": before[1]}
            assert injection.effect == {"controller": after[0], "controller_epoch": after[1]}
        assert (cluster.metadata.controller(), controller_epoch(cluster)) == after


def test_an_ensemble_goes_on_without_one_member_and_whichever_answers_ends_a_session(tmp_path):
    spec = k.ClusterSpec(brokers=k.brokers_of(RELEASE, (1,)), zookeepers=3)
    with cluster_of(spec, work_directory=tmp_path / "ensemble") as ensemble:
        assert len(ensemble.zookeeper_addresses) == 3
        modes = [member.ask("srvr") for member in ensemble.zookeeper_members]
        assert sum("Mode: leader" in mode for mode in modes) == 1
        journal = k.MemoryJournal()
        # Each member holds the session at most once; all three are tried as the first to ask.
        for _ in range(3):
            members = ensemble._zookeepers
            members.append(members.pop(0))
            before = observe_broker(ensemble, 1)
            with k.ExpireSession(broker=1).inject(ensemble, journal) as injection:
                assert injection.effect["czxid"] != before.czxid
                assert ensemble.brokers[1].pid == before.pid
            after = observe_broker(ensemble, 1)
            assert after.session_id not in (None, before.session_id)
            assert czxid_of(after) > czxid_of(before)
        for fault, mode in (
            (k.StopZooKeeper(member=1), "follower"),
            # Its followers go on to serve until they miss it.
            (k.PauseZooKeeper(member=1), "leader"),
            (k.KillZooKeeper(member=1, loses_data=True), "leader"),
            (k.IsolateZooKeeper(member=1), "follower"),
            (k.IsolateZooKeeper(member=1), "leader"),
        ):
            index = next(each.index for each in ensemble.zookeeper_members if each.mode() == mode)
            away = replace(fault, member=index)
            before = observe_broker(ensemble, 1)
            with away.inject(ensemble, journal) as injection:
                assert sorted(injection.effect.values()) == ["follower", "leader"]
                with k.ExpireSession(broker=1).inject(ensemble, journal):
                    pass
                assert czxid_of(observe_broker(ensemble, 1)) > czxid_of(before)
            assert all(member.mode() for member in ensemble.zookeeper_members)
        topic = Topic(ensemble, "made-by-the-others", [1])
        assert topic.produce(1, acks=-1).error_code == 0
        assert topic.log_end(1) == 1
