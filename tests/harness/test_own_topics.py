"""Topics as kafka-topics.sh describes them: how a test's cluster gets them."""

from pathlib import Path

import pytest

from kchaos.clusters.releases import release_of
from kchaos.harness.errors import UsageError
from kchaos.harness.run.own_topics import OwnTopics, own_topics

_NEW = """Topic: orders\tTopicId: 0Hr-tk3dRZ2wRDKd0dHHfg\tPartitionCount: 4\tReplicationFactor: 2\t\
Configs: cleanup.policy=compact,delete,segment.bytes=1048576,remote.storage.enable=true
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr:\x20
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,0\tIsr: 2,0\tElr: \tLastKnownElr:\x20
Topic: __consumer_offsets\tTopicId: 7w\tPartitionCount: 50\tReplicationFactor: 3\tConfigs: a=b
Topic: alone\tTopicId: 8w\tPartitionCount: 1\tReplicationFactor: 1\tConfigs:\x20
"""
_OLD = "Topic:orders\tPartitionCount:1\tReplicationFactor:3\tConfigs:min.insync.replicas=2\n"


def read(folder: Path, text: str, release: str = "4.1.2") -> OwnTopics:
    file = folder / "topics.txt"
    file.write_text(text)
    return own_topics(file, release_of(release), (0, 1, 2, 3, 4))


def test_topics_are_made_with_the_partitions_replicas_and_settings_of_a_file(tmp_path: Path):
    own = read(tmp_path, _NEW)
    orders, alone = own.topics
    assert (orders.topic, orders.assignment) == ("orders", ((0, 1), (1, 2), (2, 3), (3, 4)))
    assert orders.configuration == (
        ("cleanup.policy", "compact,delete"),
        ("segment.bytes", "1048576"),
    )
    # The brokers of a test may ask for two in-sync replicas.
    assert alone.configuration == (("min.insync.replicas", "1"),)
    assert [*own.texts()] == [
        f"2 topics of {tmp_path}/topics.txt, with 5 partitions.",
        "Left out: remote.storage.enable of orders (brokers of a test have no remote store).",
        "Left out: __consumer_offsets (Kafka makes it itself).",
    ]


def test_the_output_of_old_releases_is_read_too(tmp_path: Path):
    (orders,) = read(tmp_path, _OLD, "1.1.1").topics
    assert (orders.assignment, orders.configuration) == (
        ((0, 1, 2),),
        (("min.insync.replicas", "2"),),
    )


def test_other_topics_make_another_case(tmp_path: Path):
    assert read(tmp_path, _NEW).case != read(tmp_path, _OLD).case


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("orders 3 partitions\n", "describes no topic: write the output of kafka-topics.sh"),
        (_OLD.replace("Factor:3", "Factor:6"), "topic orders: 6 replicas, and 5 brokers"),
    ],
)
def test_a_file_without_topics_or_with_more_replicas_than_brokers_is_refused(
    text: str, refused: str, tmp_path: Path
):
    with pytest.raises(UsageError, match=refused):
        read(tmp_path, text)
