"""A user's own clients on real clusters: what links saw of them is judged, the rest unknown."""

import threading
import time
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

import kchaos as k

pytestmark = pytest.mark.cluster
RELEASES = ("1.1.1", "3.9.1")
# A new controller of 1.1.1 leaves the stopped one in the ISR, until its leader shrinks it.
UNCLEAN = {"unclean.leader.election.enable": "true", "replica.lag.time.max.ms": "4000"}


def plain(servers: list[str], topic: str) -> None:
    with KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False) as producer:
        for number in range(20):
            producer.send(topic, f"mine-{number}".encode()).get(20)


def idempotent(servers: list[str], topic: str) -> None:
    with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        for number in range(20):
            producer.send(topic, f"mine-{number}".encode(), key=b"k").get(20)


def transactional(servers: list[str], topic: str) -> None:
    with KafkaProducer(bootstrap_servers=servers, transactional_id="mine") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for number in range(5):
                producer.send(topic, f"mine-{number}".encode())
            end()


def said_by_the_test(chaos: k.Chaos, servers: list[str]) -> None:
    """What a compressing client had acknowledged and read: several records in a batch."""
    with KafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=200, compression_type="gzip"
    ) as producer:
        sent = {b"%d" % number: producer.send("told", b"%d" % number) for number in range(30)}
        for value, answer in sent.items():
            chaos.acknowledged("told", offset=answer.get(20).offset, value=value, client="mine")
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("told", 0)])
        record = next(iter(consumer))
        chaos.read("told", offset=record.offset, value=record.value, at=time.time())


def note(results: k.Results) -> k.Finding:
    """The one note of what others wrote; the run must be unknown for it."""
    (seen,) = [finding for finding in results.findings if finding.kind == "foreign-write"]
    assert results.conforms is None
    assert results.safe is None
    assert seen.message in (results.unknown or "")
    return seen


def without_broker_errors(results: k.Results) -> list[k.Finding]:
    """The findings but for what brokers logged: before 2.0 a fetch may meet a leader too early."""
    return [finding for finding in results.findings if finding.kind != "broker-error"]


def read(servers: list[str], topic: str, records: int, **settings: Any) -> None:
    with KafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id="mine", **settings
    ) as consumer:
        for _ in range(records):
            next(iter(consumer))


@pytest.mark.kafka_cluster(release=RELEASES, brokers=2)
def test_healthy_runs_of_others_clients_are_safe_and_conform(chaos: k.Chaos):
    servers = chaos.bootstrap.split(",")
    for topic in ("t", "plain", "idempotent", "transactional"):
        chaos.create_topic(topic, replicas=[0, 1])
    chaos.produce("t", records=5, acks="all")
    for write in (plain, idempotent, transactional):
        write(servers, write.__name__)
    read(servers, "plain", 20)
    read(servers, "transactional", 5, isolation_level="read_committed")
    plain(servers, "t")
    chaos.produce("t", records=5, acks="all")

    results = chaos.end()

    assert without_broker_errors(results) == []
    assert results.safe is True
    assert results.conforms is True, results.unknown


@pytest.mark.kafka_cluster(release="3.9.1", brokers=2, client_links=False)
def test_without_links_for_clients_a_healthy_run_is_unknown_with_one_note(chaos: k.Chaos):
    for topic in ("t", "told"):
        chaos.create_topic(topic, replicas=[0, 1])
    chaos.produce("t", records=5, acks="all")
    servers = chaos.cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("mine", num_partitions=1, replication_factor=2)])
    plain(servers, "mine")
    idempotent(servers, "t")
    said_by_the_test(chaos, servers)

    results = chaos.end()

    noted = note(results)
    assert without_broker_errors(results) == [noted]
    told = noted.evidence["partitions"]
    # Of its own topic the test has told all.
    assert sorted(told) == ["mine-0", "t-0"]
    assert any("that the test alone reports (31 records)" in each for each in results.not_checked)
    assert told["t-0"]["offsets"][0][0] == 5
    assert (bool(told["t-0"]["producer_ids"]), bool(told["mine-0"]["producer_ids"])) == (
        True,
        False,
    )


@pytest.mark.kafka_cluster(release="1.1.1", brokers=3, properties=UNCLEAN)
def test_what_others_lost_in_an_unclean_election_is_permitted_and_named(chaos: k.Chaos):
    chaos.create_topic("t", replicas=[0, 1, 2])
    chaos.produce("t", records=1, acks="all")
    chaos.inject(k.StopBroker(broker=1), name="s1")
    chaos.inject(k.StopBroker(broker=2), name="s2")
    chaos.perform(k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)))
    plain(chaos.cluster.bootstrap_servers[:1], "t")
    chaos.inject(k.KillBroker(broker=0), name="k0")
    chaos.heal("s1")
    chaos.heal("s2")
    chaos.perform(k.AwaitState(topic="t", partition=0, leader=1))
    chaos.heal("k0")

    results = chaos.end()

    (lost,) = [finding for finding in results.findings if finding.kind == "permitted-loss"]
    assert results.safe is True
    assert results.conforms is not False
    assert (lost.first_offset, lost.last_offset) == (1, 20)
    assert "acknowledged to client 'kafka-python" in lost.message


X, B, A = 0, 1, 2


def held(follower: int) -> k.Inject:
    return k.Inject(
        name=f"hold-{follower}",
        fault=k.HoldRequests(
            name=f"hold-{follower}",
            api="Fetch",
            source=follower,
            target=X,
            direction="response",
            topic="t",
            partition=0,
            fetch_offset_at_least=2,
        ),
    )


@pytest.mark.kafka_cluster(
    release="0.10.2.2",
    brokers=4,
    properties={
        "min.insync.replicas": "1",
        "replica.high.watermark.checkpoint.interval.ms": "600000",
    },
)
def test_what_others_lost_by_clean_elections_is_unsafe_and_who_lost_it_is_named(chaos: k.Chaos):
    """KIP-101, scenario 1: the user's record is at offset 1 until kchaos's own takes its place."""
    version: Any = (0, 10, 2)
    chaos.create_topic("t", replicas=[X, B, A])
    chaos.produce("t", acks="all")
    chaos.perform(k.AwaitFollowing(topic="t", partition=0, follower=B, leader=X))
    chaos.perform(k.AwaitFollowing(topic="t", partition=0, follower=A, leader=X))
    chaos.perform(held(B), held(A))
    with KafkaProducer(
        bootstrap_servers=chaos.cluster.bootstrap_servers,
        acks="all",
        enable_idempotence=False,
        api_version=version,
    ) as producer:
        assert producer.send("t", b"mine").get(20).offset == 1
    chaos.perform(
        k.AwaitHeld(name=f"hold-{B}"),
        k.AwaitHeld(name=f"hold-{A}"),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Inject(name="X-down", fault=k.KillBroker(broker=X)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B, A)),
        k.AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
        k.AwaitCutOff(source=A, target=B),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Produce(operation="after", topic="t", partition=0, records=1, acks=-1),
    )

    results = chaos.end()

    assert results.safe is False
    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (lost.first_offset, lost.last_offset) == (1, 1)
    assert "acknowledged to client 'kafka-python" in lost.message


@pytest.mark.kafka_cluster(release="3.9.1", brokers=2)
def test_a_healthy_cluster_is_not_red_where_others_write_on_until_it_stops(chaos: k.Chaos):
    chaos.create_topic("t", replicas=[0, 1])
    chaos.produce("t", records=5, acks="all")
    servers = chaos.cluster.bootstrap_servers
    ended = threading.Event()

    def write() -> None:
        with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            while not ended.is_set():
                producer.send("t", b"mine").add_errback(lambda _error: None)
                ended.wait(0.05)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        with chaos.inject(k.KillBroker(broker=0)):
            chaos.produce("t", records=5, acks="all")
        results = chaos.end()
    finally:
        ended.set()
    assert without_broker_errors(results) == []
    assert results.safe is True


@pytest.mark.kafka_cluster(release="1.1.1", brokers=2)
def test_clients_that_only_read_leave_the_verdict_as_it_is(chaos: k.Chaos):
    chaos.create_topic("t", replicas=[0, 1])
    chaos.produce("t", records=5, acks="all")
    with KafkaConsumer(
        bootstrap_servers=chaos.cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert next(iter(consumer)).value == b"produce-1-0"

    results = chaos.verdict()

    assert (results.conforms, results.safe) == (True, True)


@pytest.mark.kafka_cluster(release="1.1.1", brokers=2)
def test_records_and_topics_that_others_delete_are_named(chaos: k.Chaos):
    for topic in ("t", "gone", "again"):
        chaos.create_topic(topic, replicas=[0, 1])
        chaos.produce(topic, records=10, acks="all")
    with KafkaAdminClient(bootstrap_servers=chaos.cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("t", 0): 7})
        admin.delete_topics(["gone", "again"])
        k.await_until(
            lambda: not {"gone", "again"} & {*chaos.cluster.metadata.topics()},
            timeout_s=30,
            waiting_for="the topics to be deleted",
            last_seen=chaos.cluster.metadata.topics,
        )
    chaos.create_topic("again", replicas=[0, 1])
    chaos.produce("again", records=3, acks="all")

    results = chaos.end()

    assert (results.conforms, results.safe) == (None, None)
    assert "records of t-0 below offset 7" in (results.unknown or "")
    # A topic's deletion is followed, whoever asks for it.
    (lost,) = without_broker_errors(results)
    assert (lost.kind, lost.topic) == ("permitted-loss", "again")
    assert lost.message.endswith("the topic was deleted")
