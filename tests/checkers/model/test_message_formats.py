"""Message formats that flap: KAFKA-7601 and KAFKA-7897, as they were measured on real brokers."""

from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.acts import (
    AdoptTopicConfiguration,
    CutLink,
    HealLink,
    PauseBroker,
    ResumeBroker,
    StopBroker,
    TopicPartition,
)
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    BrokerUnregistered,
    Snapshot,
    TopicConfigured,
    TopicCreated,
)
from tests.support.model_timelines import (
    cluster,
    kill,
    left_alone,
    payloads,
    ranges,
    replica,
    start,
    state,
    terminate,
    write,
)

NEW, OLD = "0.11.0", "0.10.2"


def simple(release):
    """The Jira's schedule: N=1 writes magic 2, O=2 magic 1; N's tail is not on O."""
    return [
        *cluster(release, controller=0, replicas=()),
        *start(1, release, message_format=NEW),
        *start(2, release, message_format=OLD),
        TopicCreated(topic="t", assignment=((1, 2),)),
        state(1, 0, (1, 2)),
        write("first", 1, count=5, acks=-1),
        PauseBroker(broker=2),
        write("lost", 1, count=3),
        *kill(1, high_watermark=5),
        ResumeBroker(broker=2),
        state(2, 1, (2,)),
        write("old", 2, count=3),
        write("more", 2),
        *start(1, release, czxid=201, message_format=NEW),
        state(2, 1, (2, 1)),
        Snapshot(label="after"),
    ]


def gap(release, *, clean):
    """P=1 and Q=2 write magic 1, L=3 and F=4 magic 2; F keeps a tail of P that Q overwrites."""
    old: dict[str, Any] = {"message_format": OLD}
    new: dict[str, Any] = {"message_format": NEW}
    last = (
        [StopBroker(broker=4, clean=True)]
        if clean
        else [StopBroker(broker=4, clean=False, checkpointed=(("t", 0, 7),))]
    )
    return [
        *cluster(release, controller=0, replicas=()),
        *start(1, release, **old),
        *start(2, release, **old),
        *start(3, release, **new),
        *start(4, release, **new),
        TopicCreated(topic="t", assignment=((1, 2, 3, 4),)),
        state(1, 0, (1, 2, 3, 4)),
        *terminate(1),
        state(2, 1, (2, 3, 4)),
        *terminate(2),
        state(3, 2, (3, 4)),
        *start(1, release, czxid=201, **old),
        *start(2, release, czxid=202, **old),
        state(3, 2, (3, 4, 1, 2)),
        write("v2", 3, count=5, acks=-1),
        state(1, 3, (3, 4, 1, 2)),
        write("p", 1, count=2, acks=-1),
        PauseBroker(broker=2),
        PauseBroker(broker=3),
        write("lost", 1, count=3),
        StopBroker(broker=1, clean=False, checkpointed=(("t", 0, 7),)),
        *last,
        ResumeBroker(broker=2),
        ResumeBroker(broker=3),
        BrokerUnregistered(broker=1),
        state(2, 4, (3, 4, 2)),
        BrokerUnregistered(broker=4),
        state(2, 5, (3, 2)),
        write("q", 2, count=3),
        *terminate(2),
        state(3, 6, (3,)),
        write("l", 3, count=2),
        *start(4, release, czxid=204, **new),
        state(3, 6, (3, 4)),
        Snapshot(label="after"),
    ]


@pytest.mark.parametrize("release", ["0.11.0.3", "1.1.1", "2.0.0"])
def test_up_to_2_0_0_a_leader_that_writes_magic_1_answers_its_end_for_epoch_0(release):
    prediction = predict(simple(release))
    n, o = replica(prediction, 1), replica(prediction, 2)
    assert ranges(n) == [(0, 4, 0), (5, 7, 0), (8, 8, -1)]
    assert ranges(o) == [(0, 4, 0), (5, 5, -1), (6, 6, -1), (7, 7, -1), (8, 8, -1)]
    assert payloads(n)[-1] == payloads(o)[-1]
    assert n.epoch_entries == o.epoch_entries == ((0, 0),)
    assert prediction.rounds[-1].end_offset == 9
    assert prediction.truncations == ()
    assert prediction.disallowed == ()


@pytest.mark.parametrize(
    ("release", "asked"), [("2.0.1", (0, 0, 5)), ("2.1.0", (0, 0, 5)), ("2.1.1", (0, -1, -1))]
)
def test_from_2_0_1_the_schedule_of_the_jira_converges(release, asked):
    prediction = predict(simple(release))
    n, o = replica(prediction, 1), replica(prediction, 2)
    assert n.batches == o.batches
    last = prediction.rounds[-1]
    assert (last.requested_epoch, last.answered_epoch, last.end_offset) == asked
    assert [cut.target_offset for cut in prediction.truncations] == [5]


@pytest.mark.parametrize(
    ("release", "clean"), [("2.0.1", False), ("2.1.1", False), ("2.2.0", True), ("2.2.0", False)]
)
def test_up_to_2_2_0_a_gap_of_two_old_leaders_hides_the_divergence(release, clean):
    prediction = predict(gap(release, clean=clean))
    leader, follower = replica(prediction, 3), replica(prediction, 4)
    assert [(each.base_offset, each.magic) for each in follower.batches] == [
        (0, 2), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 2)
    ]  # fmt: skip
    different = [
        mine.base_offset
        for mine, theirs in zip(follower.batches, leader.batches, strict=True)
        if mine.payload != theirs.payload
    ]
    assert different == [7, 8, 9]
    last = prediction.rounds[-1]
    assert (last.requested_epoch, last.end_offset) == (2, 10)


@pytest.mark.parametrize("release", ["2.2.2", "2.3.1", "2.7.2"])
def test_from_2_2_1_magic_1_empties_the_epoch_cache_and_the_gap_converges(release):
    prediction = predict(gap(release, clean=True))
    leader, follower = replica(prediction, 3), replica(prediction, 4)
    assert follower.batches == leader.batches
    assert [(cut.broker, cut.target_offset) for cut in prediction.truncations][-1] == (4, 7)


def downgraded(release):
    """KAFKA-7897: both replicas are restarted with magic 1 after five records in magic 2."""
    return [
        *cluster(release, controller=2, replicas=(0, 1)),
        state(0, 0, (0, 1)),
        write("v2", 0, count=5, acks=-1),
        *terminate(1),
        state(0, 1, (0,)),
        *start(1, release, czxid=201, message_format=OLD),
        state(0, 1, (0, 1)),
        *terminate(0),
        state(1, 2, (1,)),
        *start(0, release, czxid=200, message_format=OLD),
        state(1, 2, (1, 0)),
        write("v1", 1, count=20, acks=-1),
        *terminate(0),
        state(1, 3, (1,)),
        CutLink(source=0, target=1),
        *start(0, release, czxid=300, message_format=OLD),
        HealLink(source=0, target=1),
        Snapshot(label="after"),
    ]


@pytest.mark.parametrize("release", ["2.0.1", "2.1.0"])
def test_2_0_1_and_2_1_0_truncate_far_below_the_high_watermark_in_old_formats(release):
    prediction = predict(downgraded(release))
    cut = prediction.truncations[-1]
    assert (cut.broker, cut.target_offset, cut.log_end_offset_before, cut.high_watermark) == (
        0, 5, 25, 25
    )  # fmt: skip


@pytest.mark.parametrize("release", ["2.0.0", "2.1.1", "2.2.0"])
def test_without_epochs_in_the_cache_nothing_is_truncated(release):
    assert predict(downgraded(release)).truncations == ()


def test_without_KAFKA_7897_2_1_1_would_truncate_too():
    old = {
        broker: generation_for("2.1.1", message_format=OLD, without=["KAFKA-7897"])
        for broker in (0, 1)
    }
    assert predict(downgraded("2.1.1"), generations=old).truncations[-1].target_offset == 5


@pytest.mark.parametrize(
    ("release", "protocol", "message_format", "magic"),
    [
        ("0.10.2.2", None, None, 1),
        ("0.10.2.2", None, "0.9.0", 0),
        ("0.11.0.3", None, None, 2),
        ("1.1.1", None, "0.10.2", 1),
        ("1.1.1", None, "0.10.0-IV1", 1),
        ("2.8.2", "2.8", "0.10.2", 1),
        ("3.0.2", None, "0.10.2", 2),
        ("3.0.2", "2.8", "0.10.2", 1),
    ],
)
def test_the_message_format_decides_the_magic_until_protocol_3_0(
    release, protocol, message_format, magic
):
    generation = generation_for(
        release, inter_broker_protocol=protocol, message_format=message_format
    )
    assert generation.versions.magic == magic


def topic_goes_back(release, *adopted):
    """Five records in magic 2, then the topic's own format becomes older, then three more."""
    older = (("message.format.version", OLD),)
    return [
        *cluster(release, controller=2, replicas=()),
        *start(0, release),
        *start(1, release),
        TopicConfigured(topic="t", configuration=()),
        TopicCreated(topic="t", assignment=((0, 1),)),
        state(0, 0, (0, 1)),
        write("new", 0, count=5, acks=-1),
        TopicConfigured(topic="t", configuration=older),
        *(
            AdoptTopicConfiguration(broker=broker, topic="t", configuration=older)
            for broker in adopted
        ),
        write("old", 0, count=3, acks=-1),
        Snapshot(label="after"),
    ]


def test_a_broker_goes_on_with_a_topics_configuration_until_it_adopts_the_new_one():
    for adopted, magic in (((), 2), ((1,), 2), ((0,), 1), ((0, 1), 1)):
        prediction = predict(topic_goes_back("2.0.1", *adopted))
        assert replica(prediction, 0).batches[-1].magic == magic, adopted
        assert replica(prediction, 1).batches == replica(prediction, 0).batches


def test_from_2_1_1_a_topic_whose_format_goes_back_loses_its_epochs_at_once():
    for release, entries in (("2.0.1", ((0, 0),)), ("2.1.1", ())):
        prediction = predict(topic_goes_back(release, 0, 1))
        assert replica(prediction, 0).epoch_entries == entries, release
        assert replica(prediction, 1).epoch_entries == entries, release


def test_a_broker_that_starts_has_the_configuration_that_zookeeper_has():
    began = topic_goes_back("2.1.1", 0)
    bounced = [*began[:-1], *terminate(1), state(0, 1, (0,)), *start(1, "2.1.1", czxid=300)]
    for events in (began, [*bounced, state(0, 1, (0, 1)), began[-1]]):
        entries = replica(predict(events), 1).epoch_entries
        # With the format of before, broker 1 keeps the epoch of 0-4.
        assert entries == (((0, 0),) if events is began else ())


def test_a_topic_with_a_newer_format_than_its_broker_is_written_in_the_topics():
    newer = (("message.format.version", NEW),)
    events = [
        *cluster("2.1.1", controller=2, replicas=()),
        *start(0, "2.1.1", message_format=OLD),
        TopicConfigured(topic="t", configuration=newer),
        TopicCreated(topic="t", assignment=((0,),)),
        state(0, 0, (0,)),
        write("new", 0, count=2),
        Snapshot(label="after"),
    ]
    written = replica(predict(events), 0)
    assert ([batch.magic for batch in written.batches], written.epoch_entries) == ([2], ((0, 0),))


def asked_by_old_format_follower(release, **more):
    """What O, which writes magic 1, says of its last epoch after it has fetched N's magic 2."""
    generation = replace(generation_for(release, message_format=OLD), **more)
    events = [
        *cluster(release, controller=0, replicas=()),
        *start(1, release, message_format=NEW),
        *start(2, release, message_format=OLD),
        TopicCreated(topic="t", assignment=((1, 2),)),
        state(1, 0, (1, 2)),
        write("new", 1, count=5, acks=-1),
    ]
    asked = exchange.question(World(left_alone(events, {2: generation})), 2, 1, exchange.FETCH)
    assert asked is not None
    return dict(asked.asked)[TopicPartition("t", 0)].requested_epoch


def test_without_an_epoch_cache_a_fetcher_still_knows_the_epoch_that_it_fetched_last():
    assert asked_by_old_format_follower("2.8.2") == 0
    assert asked_by_old_format_follower("2.8.2", remembers_fetched_epoch=False) == -1
    assert asked_by_old_format_follower("2.6.3") == -1


def test_a_leader_in_an_old_format_tells_a_follower_with_epochs_that_it_is_out_of_range():
    timeline = [*simple("2.8.2")[:-1], Snapshot(label="after")]
    prediction = predict(timeline)
    n, o = replica(prediction, 1), replica(prediction, 2)
    # N keeps what it alone has and gets nothing: its Fetch with epoch 0 is never answered.
    assert [batch.base_offset for batch in n.batches] == [0, 5]
    assert o.batches[-1].base_offset == 8
    assert prediction.truncations == ()
