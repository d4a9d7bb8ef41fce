"""Steps that no play of CI goes through, on the brokers that several tests share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from tests.support.replicated_topic import Topic
from tests.support.stand_ins import play_on

pytestmark = pytest.mark.cluster
LOGGER = "kafka.server.ReplicaManager"
EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = "-2", "-4", "-5"


@pytest.mark.parametrize("release", ["3.9.1"])
def test_a_partition_moves_to_another_broker_which_then_says_where_its_log_begins(
    release: str, release_cluster: Callable[[str], k.LocalCluster], tmp_path: Path
):
    cluster = release_cluster(release)
    topic = Topic(cluster, "moved", [0])
    topic.produce(0, b"first", acks=-1)
    play = play_on(cluster, tmp_path)

    k.Reassign(topic="moved", partition=0, replicas=(1,)).perform(play)
    k.AwaitOffsets(topic="moved", partition=0, broker=1, earliest=0, earliest_local=0).perform(play)

    topic.await_state(leader=1, isr=[1])
    assert topic.log_end(1) == 1
    assert cluster.metadata.assignment("moved") == {0: [1]}
    (said,) = play.run.read_lines("tier.jsonl")
    answers = {timestamp: answer["offset"] for timestamp, answer in said["offsets"].items()}
    # Nothing of it is remote.
    assert answers == {EARLIEST: 0, EARLIEST_LOCAL: 0, LATEST_TIERED: -1}


@pytest.mark.parametrize("release", ["2.1.1"])
def test_a_client_reads_and_writes_at_the_broker_that_another_one_names(
    release: str, release_cluster: Callable[[str], k.LocalCluster], tmp_path: Path
):
    cluster = release_cluster(release)
    topic = Topic(cluster, "named", [0, 1])
    play = play_on(cluster, tmp_path)

    k.WriteWhereTold(operation="w", topic="named", partition=0, ask=1).perform(play)

    topic.await_log_ends(1)
    *told, wrote = play.run.read_lines("observations.jsonl")
    last = told[-1]
    assert (last["by"], last["leader"], last["brokers"]) == (1, 0, [0, 1])
    assert (last["fetch_error_code"], last["produce_error_code"]) == (0, 0)
    assert (wrote["kind"], wrote["acknowledged"]) == ("wrote-where-told", True)


@pytest.mark.parametrize("release", ["3.9.1"])
def test_an_answer_is_awaited_and_that_the_high_watermark_stays_and_a_logger_says_more(
    release: str, release_cluster: Callable[[str], k.LocalCluster], tmp_path: Path
):
    cluster = release_cluster(release)
    Topic(cluster, "kept", [0, 1])
    play = play_on(cluster, tmp_path)
    partition: dict[str, Any] = {"topic": "kept", "partition": 0}
    refused: dict[str, Any] = {"await_answer": False, "timeout_s": 0.5}

    k.SetLogLevel(broker=0, logger=LOGGER, level="TRACE").perform(play)
    try:
        k.Produce(operation="w", records=1, acks=-1, await_answer=False, **partition).perform(play)
        k.AwaitAnswer(operation="w").perform(play)
        (answer,) = [line for line in play.run.read_lines("history.jsonl") if line["type"] == "ok"]
    finally:
        k.SetLogLevel(broker=0, logger=LOGGER, level="INFO").perform(play)
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=1, **partition).perform(play)
    awaited = len(list(play.run.read_lines("actions.jsonl")))
    k.AwaitHighWatermarkKept(brokers=(0, 1), high_watermark=1, writes=2, **partition).perform(play)
    k.Produce(operation="refused", records=1, acks=-1, broker=1, **refused, **partition).perform(
        play
    )
    with pytest.raises(k.ScenarioError, match="produce refused was not acknowledged"):
        k.AwaitAnswer(operation="refused").perform(play)

    assert (answer["operation"], answer["base_offset"]) == ("w", 0)
    kept = [line["action"] for line in play.run.read_lines("actions.jsonl")][awaited:]
    assert [(act["event"], act["broker"], act["high_watermark"]) for act in kept] == [
        ("HighWatermarkObserved", 0, 1),
        ("HighWatermarkObserved", 1, 1),
    ]
    *_, seen = play.run.read_lines("observations.jsonl")
    assert (seen["kind"], seen["brokers"], seen["value"]) == ("high-watermark-kept", [0, 1], 1)
    assert re.search(rf"TRACE .*kept-0.*{LOGGER}", cluster.brokers[0].server_log.read_text())
    with pytest.raises(k.ScenarioError, match="refused level LOUD"):
        k.SetLogLevel(broker=0, logger=LOGGER, level="LOUD").perform(play)


# -- Readers with a leader epoch, on the brokers that several tests share --


@pytest.mark.parametrize("release", ["3.9.1"])
def test_a_reader_at_an_offset_of_the_leaders_epoch_gets_the_record_there_in_each_way(
    release: str, release_cluster: Callable[[str], k.LocalCluster], tmp_path: Path
):
    cluster = release_cluster(release)
    topic = Topic(cluster, "asked", [0, 1])
    topic.produce(0, b"first", acks=-1)
    topic.produce(0, b"second", acks=-1)
    topic.await_log_ends(2)
    play = play_on(cluster, tmp_path)

    k.AskAs(
        operation="asks", topic="asked", partition=0, broker=0, offset=1, leader_epoch=0
    ).perform(play)
    k.ConsumeFrom(
        operation="consumes",
        topic="asked",
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


# -- Records and topics that a step has deleted, on the brokers that several tests share --


@pytest.mark.parametrize("release", ["3.9.1"])
def test_records_are_gone_below_the_offset_and_then_the_topic_from_all_disks(
    release: str, release_cluster: Callable[[str], k.LocalCluster], tmp_path: Path
):
    cluster = release_cluster(release)
    topic = Topic(cluster, "deleted", [0, 1])
    for value in (b"first", b"second"):
        topic.produce(0, value, acks=-1)
    topic.await_log_ends(2)
    play = play_on(cluster, tmp_path)

    k.DeleteRecords(topic="deleted", partition=0, before_offset=1).perform(play)
    # A broker that stops writes down where its logs begin.
    cluster.brokers[1].stop()
    cluster.brokers[1].start()
    cluster.brokers[1].await_ready()
    topic.await_state(leader=0, isr=[0, 1])
    k.AwaitLogStart(topic="deleted", partition=0, brokers=(1,), log_start_offset=1).perform(play)
    k.DeleteTopic(topic="deleted").perform(play)

    actions = [line["action"] for line in play.run.read_lines("actions.jsonl")]
    assert [(action["event"], action.get("log_start_offset")) for action in actions] == [
        ("DeleteRecords", None),
        ("LogStartObserved", 1),
        ("LogStartObserved", 1),
    ]
    assert "deleted" not in cluster.metadata.topics()
    folders = [broker.log_directory / "deleted-0" for broker in cluster.brokers.values()]
    assert [folder.exists() for folder in folders] == [False, False]
