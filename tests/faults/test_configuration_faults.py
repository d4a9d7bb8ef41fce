"""Formats, protocols, topic settings and another release, on real brokers."""

import pytest

import kchaos as k
from kchaos.checkers.segments.directory import read_partition

pytestmark = pytest.mark.cluster
FORMAT = "log.message.format.version"


def magics(topic, broker):
    directory = topic.cluster.brokers[broker].log_directory / f"{topic.name}-0"
    return [batch.magic for batch in read_partition(directory).batches]


@pytest.mark.parametrize("release", ["0.10.2.2", "2.8.2"], indirect=True)
def test_a_topic_takes_an_older_format_while_its_brokers_run(cluster, topic, journal):
    own = topic(0, 1)
    own.produce(0, b"new", acks=-1)
    pids = [broker.pid for broker in cluster.brokers.values()]
    older = "0.9.0" if cluster.brokers[0].release.startswith("0.10") else "0.10.2"
    with k.FormatDowngrade(topic=own.name, message_format=older).inject(cluster, journal) as done:
        assert done.effect["brokers"] == [0, 1]
    own.produce(0, b"old", acks=-1)
    own.await_log_ends(2)
    before, after = magics(own, 1)
    assert before == after + 1
    assert [broker.pid for broker in cluster.brokers.values()] == pids
    assert [name for name, _ in journal.entries] == ["AdoptTopicConfiguration"] * 2
    again = k.FormatDowngrade(topic=own.name, message_format=older)
    with pytest.raises(k.NotAvailable, match="that is no downgrade"):
        again.inject(cluster, journal).__enter__()


def test_a_topic_keeps_what_it_has_beside_what_changes(cluster, topic, journal):
    own = topic(0, 1, **{"retention.ms": "-1"})
    more = k.ConfigureTopic(topic=own.name, configuration=(("segment.bytes", "65536"),))
    with more.inject(cluster, journal) as done:
        assert done.before == {"configuration": {"retention.ms": "-1"}}
    seen = cluster.metadata.topic_configuration(own.name)
    assert seen == {"retention.ms": "-1", "segment.bytes": "65536"}
    missing = k.ConfigureTopic(topic="nowhere", configuration=(("segment.bytes", "65536"),))
    with pytest.raises(k.FaultError, match="there is no topic 'nowhere'"):
        missing.inject(cluster, journal).__enter__()


# A follower of 2.8.2 fetches from such a leader in a loop, until the leader drops it after 30 s.
@pytest.mark.parametrize("release", ["2.3.1"], indirect=True)
def test_a_broker_comes_back_with_an_older_format_and_then_with_the_one_before(
    cluster, topic, journal
):
    own = topic(1, 0)
    own.produce(1, b"new", acks=-1)
    with k.FormatDowngrade(broker=1, message_format="0.10.2").inject(cluster, journal) as done:
        assert done.before[FORMAT] is None
    starts = [values for name, values in journal.entries if name == "StartBroker"]
    assert [(start["broker"], start["message_format"]) for start in starts] == [(1, "0.10.2")]
    _lead_again(cluster, own, 1)
    own.produce(1, b"old", acks=-1)
    back = k.RollBroker(broker=1, properties=((FORMAT, "2.3"),))
    with back.inject(cluster, journal) as done:
        assert done.before[FORMAT] == "0.10.2"
    _lead_again(cluster, own, 1)
    own.produce(1, b"newer", acks=-1)
    own.await_log_ends(3)
    assert magics(own, 0) == [2, 1, 2]


def _lead_again(cluster, own, broker):
    own.await_state(isr=[0, 1])
    cluster.metadata.elect_preferred(own.name, 0)
    k.await_until(
        lambda: own.state()["leader"] == broker,
        timeout_s=30,
        waiting_for=f"broker {broker} to lead again",
        last_seen=own.state,
    )
