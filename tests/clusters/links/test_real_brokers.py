"""The links between real brokers: who speaks to whom, and what a rule does to replication."""

import threading
import time

import pytest

from kchaos.checkers.acts import CutLink, CutZooKeeper
from kchaos.clusters.ask.client import produce
from kchaos.clusters.links import ApiKey, Match
from kchaos.clusters.system.waiting import await_until

RELEASES = ("0.10.2.2", "1.1.1", "2.8.2", "3.9.1")
FETCH = frozenset({ApiKey.FETCH})

pytestmark = pytest.mark.cluster


class Replicas:
    """A new topic with one partition, on the brokers named, led by the first."""

    def __init__(self, cluster, topic, brokers):
        self.cluster, self.topic, self.brokers = cluster, topic, brokers
        self.links = cluster.links
        self.mark = self.links.next_sequence
        cluster.metadata.create_topic(topic, [brokers])

    def await_started(self):
        """Return once both brokers have answered that they took their roles and know them.

        A leader refuses a produce until its metadata names the partition, so both are awaited.
        """
        for broker in self.brokers:
            for api_key in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA):
                self.await_answered(api_key, broker)
        return self

    def await_answered(self, api_key, broker):
        """Return once the broker has answered such a request of the controller's."""
        asked = self.links.await_record(
            lambda r: (
                (r.api_key, r.direction, r.target) == (api_key, "request", broker)
                and r.partition(self.topic, 0) is not None
            ),
            60,
            f"{api_key.name} for {self.topic} to broker {broker}",
            since=self.mark,
        )
        self.links.await_record(
            lambda r: (
                (r.connection, r.correlation_id, r.direction)
                == (asked.connection, asked.correlation_id, "response")
            ),
            60,
            f"the answer of broker {broker} to {asked.describe()}",
            since=asked.sequence,
        )

    def state(self):
        state = self.cluster.metadata.state(self.topic, 0)
        return {} if state is None else state.to_json()

    def await_state(self, **wanted):
        await_until(
            lambda: wanted.items() <= (self.state() | {"isr": sorted(self.state()["isr"])}).items(),
            timeout_s=60,
            waiting_for=f"{self.topic} to reach {wanted}",
            last_seen=self.state,
        )

    def produce(self, broker, *, acks, timeout_s=60):
        release = self.cluster.brokers[broker].release
        return produce(
            self.cluster.brokers[broker].client_address,
            topic=self.topic,
            partition=0,
            values=[b"a record"],
            acks=acks,
            magic=1 if release.startswith("0.10") else 2,
            timestamp_ms=int(time.time() * 1000),
            timeout_s=timeout_s,
        )

    def produce_later(self, broker, *, acks):
        """Produce in a thread; returns (thread, the list that the answer will be in)."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.produce(broker, acks=acks)))
        thread.start()
        return thread, answers

    def fetched_by(self, follower, offset):
        """Whether a fetch of the follower from this offset or a later one has passed."""
        for record in self.links.log(self.mark):
            if (record.source, record.api_key) == (follower, ApiKey.FETCH):
                entry = record.partition(self.topic, 0)
                passed = record.direction == "request" and record.fate != "held"
                if passed and entry is not None and entry["fetch_offset"] >= offset:
                    return True
        return False


@pytest.mark.parametrize("release", RELEASES)
def test_every_request_between_brokers_is_read_and_has_a_source(release_cluster, release):
    replicas = Replicas(release_cluster(release), "traffic", (1, 0)).await_started()
    assert replicas.produce(1, acks=-1).error_code == 0
    counts = replicas.links.counts()
    assert replicas.links.broken_streams == 0
    assert [key for key, count in counts.items() if count.unread or key.source is None] == []
    kinds = {(key.api_key, key.source, key.target) for key, count in counts.items() if count.passed}
    assert {
        (ApiKey.FETCH, 0, 1),
        (ApiKey.LEADER_AND_ISR, 0, 1),
        (ApiKey.LEADER_AND_ISR, 0, 0),
        (ApiKey.UPDATE_METADATA, 0, 1),
    } <= kinds
    fetched = [
        entry
        for record in replicas.links.log(replicas.mark)
        if (record.source, record.target, record.direction) == (0, 1, "response")
        and record.api_key == ApiKey.FETCH
        and (entry := record.partition("traffic", 0)) is not None
        and entry["records_size_bytes"]
    ]
    assert [(entry["base_offset"], entry["last_offset"]) for entry in fetched] == [(0, 0)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_held_fetch_keeps_back_an_acknowledgement_of_all(release_cluster, release):
    cluster = release_cluster(release)
    replicas = Replicas(cluster, "held-fetch", (1, 0)).await_started()
    assert replicas.produce(1, acks=-1).base_offset == 0
    match = Match(
        api_keys=FETCH, source=0, target=1, partition=("held-fetch", 0), fetch_offset_at_least=2
    )
    with cluster.links.hold(match) as hold:
        thread, answers = replicas.produce_later(1, acks=-1)
        hold.await_held(timeout_s=60, waiting_for="the fetch that would acknowledge offset 1")
        assert [record.source for record in hold.held] == [0]
        assert not replicas.fetched_by(0, 2)
        assert answers == []
    thread.join(60)
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1)]
    assert replicas.fetched_by(0, 2)


@pytest.mark.parametrize("release", RELEASES)
def test_a_held_answer_to_a_fetch_keeps_the_follower_from_fetching_on(release_cluster, release):
    cluster = release_cluster(release)
    replicas = Replicas(cluster, "held-answer", (1, 0)).await_started()
    assert replicas.produce(1, acks=-1).base_offset == 0
    match = Match(
        api_keys=FETCH, source=0, target=1, partition=("held-answer", 0), direction="response"
    )
    with cluster.links.hold(match) as hold:
        hold.await_held(timeout_s=60, waiting_for="the answer to a fetch")
        thread, answers = replicas.produce_later(1, acks=-1)
        assert replicas.produce(1, acks=1).error_code == 0
        assert not replicas.fetched_by(0, 2)
    thread.join(60)
    assert answers[0].error_code == 0


@pytest.mark.parametrize("release", ["1.1.1"])
def test_a_follower_whose_epoch_request_is_held_does_not_fetch(release_cluster, release):
    cluster = release_cluster(release)
    match = Match(
        api_keys=frozenset({ApiKey.OFFSET_FOR_LEADER_EPOCH}), source=0, partition=("epochs", 0)
    )
    with cluster.links.hold(match) as hold:
        replicas = Replicas(cluster, "epochs", (1, 0)).await_started()
        hold.await_held(timeout_s=60, waiting_for="the follower's question for the leader epoch")
        (asked,) = hold.held
        assert asked.partition("epochs", 0)["leader_epoch"] == -1
        assert replicas.produce(1, acks=1).error_code == 0
        assert not replicas.fetched_by(0, 0)
    answer = cluster.links.await_record(
        lambda r: r.api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH and r.direction == "response",
        60,
        "the leader's answer",
        since=asked.sequence,
    )
    assert answer.correlation_id == asked.correlation_id
    assert answer.partition("epochs", 0)["leader_epoch"] is None, "version 0 does not tell it"
    assert replicas.produce(1, acks=-1).error_code == 0


@pytest.mark.parametrize("release", RELEASES)
def test_a_cut_pair_stops_replication_until_the_isr_shrinks_and_healing_brings_it_back(
    release_cluster, release
):
    cluster = release_cluster(release)
    # The leader is the controller: from 2.7 on it asks the controller to shrink the ISR.
    replicas = Replicas(cluster, "cut", (0, 1)).await_started()
    assert replicas.produce(0, acks=-1).base_offset == 0
    with cluster.links.cut(CutLink(source=0, target=1)):
        thread, answers = replicas.produce_later(0, acks=-1)
        replicas.await_state(leader=0, isr=[0])
        # 2.7 to 3.0 advance the high watermark after a shrink only with the next append or fetch
        # (KAFKA-13091), and not before they have the controller's answer: append until it shows.
        await_until(
            lambda: replicas.produce(0, acks=1).error_code == 0 and not thread.is_alive(),
            timeout_s=60,
            waiting_for="the record of before to be acknowledged by the shrunken ISR",
            last_seen=replicas.state,
        )
        assert answers[0].error_code == 0
        assert not replicas.fetched_by(1, 2)
    replicas.await_state(leader=0, isr=[0, 1])
    assert replicas.fetched_by(1, 2)


@pytest.mark.parametrize("release", RELEASES)
def test_a_cut_zookeeper_link_makes_a_zombie_leader(release_cluster, release):
    cluster = release_cluster(release)
    replicas = Replicas(cluster, "zombie", (1, 0)).await_started()
    assert replicas.produce(1, acks=-1).base_offset == 0
    client = cluster.zookeeper()
    with cluster.links.cut(CutZooKeeper(broker=1)):
        await_until(
            lambda: client.exists("/brokers/ids/1") is None,
            timeout_s=60,
            waiting_for="the session of broker 1 to expire",
            last_seen=lambda: client.exists("/brokers/ids/1"),
        )
        replicas.await_state(leader=0)
        assert replicas.state()["leader_epoch"] == 1
        # Nobody told broker 1: it goes on as the leader of epoch 0 and acknowledges a record
        # at the offset that the new leader gives to another one.
        assert replicas.produce(1, acks=1).base_offset == 1
        await_until(
            lambda: replicas.produce(0, acks=1).base_offset >= 1,
            timeout_s=60,
            waiting_for="the new leader to take a record",
            last_seen=replicas.state,
        )
        assert cluster.brokers[1].is_running
    replicas.await_state(leader=0, isr=[0, 1])
    assert client.exists("/brokers/ids/1") is not None
