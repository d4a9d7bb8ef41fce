"""Short timelines in which one rule makes a difference; broker 2 or 3 is the controller."""

from typing import Any

import tests.support.model as m
from tests.support.model_timelines import cluster, kill, start, state, terminate, write

AFTER = m.Snapshot(label="after")


def pair(release: str, **configuration: Any) -> list[m.Event]:
    """Broker 0 leads, broker 1 follows, broker 2 is the controller."""
    return [*cluster(release, controller=2, replicas=(0, 1), **configuration), state(0, 0, (0, 1))]


def restarted_after(release: str, *events: m.Event) -> list[m.Event]:
    """Broker 0 leads alone, is stopped cleanly after these events, and leads again."""
    return [
        *pair(release),
        *terminate(1),
        state(0, 1, (0,)),
        *events,
        *terminate(0),
        state(-1, 2, (0,)),
        *start(0, release, czxid=200),
        state(0, 3, (0,)),
    ]


def elected_after_truncation(release: str) -> list[m.Event]:
    """Broker 0 leads after an unclean election had cut its log below its high watermark."""
    unclean = {"unclean_leader_election": True}
    return [
        *cluster(release, controller=2, replicas=(0, 1), **unclean),
        state(0, 0, (0, 1)),
        write("a", 0, acks=-1),
        *kill(1, high_watermark=1),
        state(0, 1, (0,)),
        write("b", 0, count=2, acks=-1),
        *terminate(0),
        state(-1, 2, (0,)),
        *start(1, release, czxid=201, **unclean),
        state(1, 3, (1,)),
        write("c", 1),
        m.Hold(name="h", api="Fetch", source=0),
        *start(0, release, czxid=200, **unclean),
        m.CutLink(source=0, target=1),
        state(0, 4, (0, 1)),
        AFTER,
    ]


def upgraded(release: str) -> list[m.Event]:
    """Broker 1's cache file was deleted by an old binary, and recovery makes it anew."""
    return [
        *pair(release),
        write("m", 0, acks=-1),
        *kill(1, high_watermark=1),
        *start(1, "0.10.2.2", czxid=201),
        *kill(1, high_watermark=1),
        *start(1, release, czxid=301),
        m.CutLink(source=0, target=1),
        AFTER,
    ]


def without_epochs(release: str) -> list[m.Event]:
    """Two leaders in a row without any epoch, and each has a record that the other lacks."""
    return [
        *pair(release, message_format="0.10.2"),
        write("both", 0, acks=-1),
        m.CutLink(source=0, target=1),
        write("a", 0),
        state(1, 1, (0, 1)),
        write("b", 1),
        m.HealLink(source=0, target=1),
        AFTER,
    ]


def without_end(release: str) -> list[m.Event]:
    return [
        *cluster(release, controller=3, replicas=(0, 1, 2)),
        state(1, 0, (1, 0, 2)),
        write("a", 1, acks=-1),
        state(1, 1, (1, 0, 2)),
        m.CutLink(source=0, target=1),
        m.CutLink(source=0, target=2),
        write("b", 1),
        state(0, 2, (0, 2)),
        m.BrokerUnregistered(broker=0),
        state(2, 3, (2,)),
        m.HealLink(source=0, target=2),
        m.BrokerRegistered(broker=0, czxid=200),
        AFTER,
    ]


def diverging(release: str, *, holds: bool = False) -> list[m.Event]:
    """Broker 0 has two records more in epoch 0, broker 1 leads and has another one there."""
    held = [m.Hold(name="h", api="Fetch", target=1, direction="response")]
    return [
        *pair(release),
        write("both", 0, acks=-1),
        m.CutLink(source=0, target=1, name="cut"),
        write("a", 0),
        write("a2", 0),
        state(1, 1, (1, 0)),
        write("b", 1),
        *(held if holds else []),
        m.HealLink(source=0, target=1, name="cut"),
        AFTER,
    ]


def shorter_leader(release: str) -> list[m.Event]:
    """The leader lost a record that its follower counts as committed; no epochs are known."""
    old = {"message_format": "0.10.2"}
    return [
        *cluster(release, controller=2, replicas=(0, 1), **old),
        state(0, 0, (0, 1)),
        write("a", 0, acks=-1),
        write("b", 0, acks=-1),
        *terminate(1),
        *terminate(0),
        m.LoseTail(broker=0, topic="t", partition=0, log_end_offset=1),
        *start(0, release, czxid=200, **old),
        state(0, 1, (0, 1)),
        *start(1, release, czxid=201, **old),
        AFTER,
    ]


def made_again_while_away(release: str) -> list[m.Event]:
    """Broker 1 has the folder of a topic that was deleted while it was away, and made again."""
    return [
        *cluster(release, controller=2, replicas=(0, 1)),
        m.TopicIdentified(topic="t", topic_id="old"),
        state(1, 0, (1,)),
        state(1, 1, (1,)),  # 2.8 writes no id before the second one.
        write("of the old topic", 1),
        *terminate(1),
        m.TopicDeleted(topic="t"),
        m.TopicCreated(topic="t", assignment=((0, 1),)),
        m.TopicIdentified(topic="t", topic_id="new"),
        state(0, 0, (0,)),
        write("of the new topic", 0),
        *start(1, release, czxid=201),
        AFTER,
    ]


def told_again(release: str) -> list[m.Event]:
    """The same, and broker 1 is told of another leader epoch."""
    *events, _ = made_again_while_away(release)
    return [*events, state(0, 1, (0,)), AFTER]


def zombie_leader(
    release: str, *, with_record: bool = False, **configuration: Any
) -> list[m.Event]:
    """Broker 1 learns of epoch 1 while broker 0, which leads in it, is still in epoch 0."""
    return [
        *pair(release, **configuration),
        *([write("first", 0, acks=-1)] if with_record else []),
        m.Hold(name="h", api="LeaderAndIsr", target=0),
        state(0, 1, (0, 1)),
        write("m", 0),
        AFTER,
    ]


def fenced_in_session(release: str) -> list[m.Event]:
    """Broker 0 leads epoch 1 of which its follower has not heard; they have a fetch session."""
    return [
        *pair(release),
        write("first", 0, acks=-1),
        m.Hold(name="h", api="LeaderAndIsr", target=1),
        state(0, 1, (0, 1)),
        write("m", 0),
        AFTER,
        m.ReleaseHold(name="h"),
    ]


def fenced_for_an_older_epoch(release: str) -> list[m.Event]:
    return [
        *pair(release),
        write("first", 0, acks=-1),
        m.Hold(name="h", api="Fetch", source=1, fetch_offset_at_least=2),
        write("m", 0),
        state(0, 1, (0, 1)),
        m.ReleaseHold(name="h"),
        write("n", 0),
        AFTER,
    ]


def asked_in_an_older_epoch(release: str) -> list[m.Event]:
    return [
        *pair(release),
        write("m", 0, acks=-1),
        m.Hold(name="h", api="OffsetForLeaderEpoch", source=1),
        state(0, 1, (0, 1)),
        state(0, 2, (0, 1)),
        m.ReleaseHold(name="h"),
        write("n", 0),
        AFTER,
    ]


def alone(release: str, **configuration: Any) -> list[m.Event]:
    """Broker 0 writes on after its follower has left the ISR."""
    return [
        *pair(release, **configuration),
        write("both", 0, acks=-1),
        m.CutLink(source=0, target=1),
        state(0, 0, (0,)),
        write("alone", 0),
        AFTER,
    ]


def leaves_after_the_record(release: str) -> list[m.Event]:
    return [
        *pair(release),
        write("both", 0, acks=-1),
        m.CutLink(source=0, target=1),
        write("alone", 0),
        state(0, 0, (0,)),
        AFTER,
    ]


def one_of_two_moves(release: str) -> list[m.Event]:
    return [
        *cluster(release, controller=3, replicas=(0, 1, 2)),
        state(0, 0, (0, 1, 2)),
        write("all", 0, acks=-1),
        m.CutLink(source=0, target=2),
        write("two", 0),
        state(0, 0, (0, 1)),
        AFTER,
    ]


def joins_unknown_to_its_leader(release: str) -> list[m.Event]:
    return [
        *pair(release),
        write("both", 0, acks=-1),
        m.Hold(name="news", api="UpdateMetadata", target=0),
        m.BrokerUnregistered(broker=1),
        state(0, 1, (0,)),
        m.ReleaseHold(name="news"),
        state(0, 1, (0, 1)),
    ]


def bounced_while_the_controller_slept(release: str) -> list[m.Event]:
    return [
        *pair(release),
        write("m", 0, acks=-1),
        m.PauseBroker(broker=2),
        *kill(1, high_watermark=1),
        *start(1, release, czxid=201),
        m.ResumeBroker(broker=2),
        write("n", 0),
        AFTER,
    ]


def late_stop(release: str) -> list[m.Event]:
    """A StopReplica for broker 1's first generation arrives when it follows again."""
    stale = m.StaleRequest(
        api="StopReplica",
        broker=1,
        target=1,
        version=2,
        generation=101,
        broker_epoch=101,
        controller=2,
        controller_epoch=1,
        states=(("t", 0, 0, 0, (0, 1), 1, 0, (0, 1)),),
    )
    return [
        *pair(release),
        write("m", 0, acks=-1),
        *kill(1, high_watermark=1),
        state(0, 1, (0,)),
        *start(1, release, czxid=201),
        state(0, 1, (0, 1)),
        stale,
        write("n", 0),
        AFTER,
    ]
