"""Readers with a leader epoch, on the brokers that several tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kchaos.clusters.start.local import LocalCluster
from kchaos.harness.steps.asking import AskAs, ConsumeFrom
from tests.support.replicated_topic import Topic
from tests.support.stand_ins import play_on

TOPIC = "asked"


@pytest.mark.cluster
@pytest.mark.parametrize("release", ["3.9.1"])
def test_a_reader_at_an_offset_of_the_leaders_epoch_gets_the_record_there_in_each_way(
    release: str, release_cluster: Callable[[str], LocalCluster], tmp_path: Path
) -> None:
    cluster = release_cluster(release)
    topic = Topic(cluster, TOPIC, [0, 1])
    topic.produce(0, b"first", acks=-1)
    topic.produce(0, b"second", acks=-1)
    topic.await_log_ends(2)
    play = play_on(cluster, tmp_path)

    AskAs(operation="asks", topic=TOPIC, partition=0, broker=0, offset=1, leader_epoch=0).perform(
        play
    )
    ConsumeFrom(
        operation="consumes",
        topic=TOPIC,
        partition=0,
        coordinator=0,
        offset=1,
        leader_epoch=0,
        records=1,
    ).perform(play)

    *asked, consumed = play.run.read_lines("observations.jsonl")
    answers = {answer["request"]: answer for answer in asked}
    end = answers.pop("OffsetForLeaderEpoch")
    assert (end["error_code"], end["answered"]) == (0, [0, 2])
    assert {
        name: (answer["error_code"], answer["records"]) for name, answer in answers.items()
    } == {
        "Fetch v10": (0, [[1, "second"]]),
        "Fetch v11": (0, [[1, "second"]]),
        "Fetch v11, current_leader_epoch": (0, [[1, "second"]]),
        "Fetch v12, last_fetched_epoch": (0, [[1, "second"]]),
    }
    assert (consumed["records"], consumed["error"]) == ([[1, "second"]], "")
