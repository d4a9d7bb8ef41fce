"""Message formats that flap: KAFKA-7601 and KAFKA-7897, as they were measured on real brokers."""

import pytest

from kchaos.checkers.acts import AdoptTopicConfiguration
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.values.events import Snapshot, TopicConfigured, TopicCreated
from tests.support.model_timelines import cluster, replica, start, state, terminate, write

NEW, OLD = "0.11.0", "0.10.2"


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
