"""Records and topics that a step has deleted, on the brokers that several tests share."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.clusters.start.local import LocalCluster
from kchaos.harness.steps.log_start import AwaitLogStart, DeleteRecords
from kchaos.harness.steps.topics import DeleteTopic
from tests.support.replicated_topic import Topic
from tests.support.stand_ins import play_on

TOPIC = "deleted"


@pytest.mark.cluster
@pytest.mark.parametrize("release", ["3.9.1"])
def test_records_are_gone_below_the_offset_and_then_the_topic_from_all_disks(
    release: str, release_cluster: Callable[[str], LocalCluster], tmp_path: Path
) -> None:
    cluster = release_cluster(release)
    topic = Topic(cluster, TOPIC, [0, 1])
    for value in (b"first", b"second"):
        topic.produce(0, value, acks=-1)
    topic.await_log_ends(2)
    play = play_on(cluster, tmp_path)

    DeleteRecords(topic=TOPIC, partition=0, before_offset=1).perform(play)
    # A broker that stops writes down where its logs begin.
    cluster.brokers[1].stop()
    cluster.brokers[1].start()
    cluster.brokers[1].await_ready()
    topic.await_state(leader=0, isr=[0, 1])
    AwaitLogStart(topic=TOPIC, partition=0, brokers=(1,), log_start_offset=1).perform(play)
    DeleteTopic(topic=TOPIC).perform(play)

    actions = [line["action"] for line in play.run.read_lines("actions.jsonl")]
    assert [(action["event"], action.get("log_start_offset")) for action in actions] == [
        ("DeleteRecords", None),
        ("LogStartObserved", 1),
        ("LogStartObserved", 1),
    ]
    assert TOPIC not in cluster.metadata.topics()
    folders = [broker.log_directory / f"{TOPIC}-0" for broker in cluster.brokers.values()]
    assert [folder.exists() for folder in folders] == [False, False]


def test_a_deletion_that_is_not_awaited_ends_with_its_request() -> None:
    asked: list[str] = []

    def never_deleted() -> list[str]:
        raise AssertionError("nobody waits for it")

    metadata = SimpleNamespace(
        assignment=lambda _: {0: [0]}, delete_topic=asked.append, topics=never_deleted
    )
    play = SimpleNamespace(cluster=SimpleNamespace(metadata=metadata))
    step: Any = DeleteTopic(topic=TOPIC, is_awaited=False)
    step.perform(play)
    assert asked == [TOPIC]
