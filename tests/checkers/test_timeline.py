import json
from pathlib import Path

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.run import RunEvidence
from tests.support.run_builder import RunBuilder, create_body, multi_body, set_body


def events_of(build: RunBuilder) -> tuple[m.Event, ...]:
    return tuple(timed.event for timed in RunEvidence(build.run).events)


def built(build: RunBuilder) -> tuple[m.Event, ...]:
    build.write_zookeeper()
    return events_of(build)


def test_a_broker_comes_and_goes_with_its_session(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").register(1, 0x11).close_session(0x11).register(1, 0x12)

    assert built(build) == (
        m.BrokerRegistered(broker=1, czxid=1, zxid=1),
        m.BrokerUnregistered(broker=1, zxid=2),
        m.BrokerRegistered(broker=1, czxid=3, zxid=3),
    )


def test_a_registration_in_a_multi_counts_once(tmp_path: Path):
    path = "/brokers/ids/1"
    parts = [(1, create_body(path, None, ephemeral=True)), (5, set_body(path, b"{}", 1))]
    build = RunBuilder(tmp_path / "run").write(14, multi_body(parts), session=0x11)

    assert built(build) == (m.BrokerRegistered(broker=1, czxid=1, zxid=1),)


def test_a_state_names_its_version_and_the_broker_whose_session_wrote_it(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").elect_controller(2, 0x12).register(0, 0x10)
    build.state(0, 0, [0, 1], session=0x12)
    build.state(0, 0, [0], session=0x10)
    build.state(-1, 1, [0], session=0x99)

    seen = built(build)

    assert seen[0] == m.ControllerElected(broker=2, zxid=1)
    assert [
        (each.leader, each.leader_epoch, each.isr, each.version, each.written_by, each.zxid)
        for each in seen
        if isinstance(each, m.PartitionState)
    ] == [(0, 0, (0, 1), 0, 2, 3), (0, 0, (0,), 1, 0, 4), (-1, 1, (0,), 2, None, 5)]


def test_only_another_assignment_is_news_of_a_topic(tmp_path: Path):
    again = {"partitions": {"0": [0, 1]}, "version": 3, "topic_id": "x", "adding_replicas": {}}
    build = RunBuilder(tmp_path / "run").topic("t", [0, 1])
    build.write(5, set_body("/brokers/topics/t", json.dumps(again).encode(), 1))
    build.topic("t", [1, 0])

    assert built(build) == (
        m.TopicCreated(topic="t", assignment=((0, 1),), zxid=1),
        m.TopicIdentified(topic="t", topic_id="x", zxid=2),
        m.TopicCreated(topic="t", assignment=((1, 0),), zxid=3),
    )


def test_the_partitions_of_a_topic_are_in_the_order_of_their_numbers(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").topic("t", *[[number] for number in range(12)])

    (created,) = built(build)

    assert isinstance(created, m.TopicCreated)
    assert created.assignment == tuple((number,) for number in range(12))


def test_an_action_follows_every_decision_up_to_its_zxid(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    build.act(m.StartBroker(broker=1, release="1.1.1"))
    build.register(1, 0x11)
    build.topic("t", [1])
    build.act(m.ResumeBroker(broker=1))
    build.act(m.PauseBroker(broker=1), zxid=1)

    assert [type(timed).__name__ for timed in built(build)] == [
        "StartBroker",
        "BrokerRegistered",
        "PauseBroker",
        "TopicCreated",
        "ResumeBroker",
    ]


def test_internal_topics_are_left_out(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").topic("__consumer_offsets", [0])
    build.state(0, 0, [0], topic="__consumer_offsets").topic("t", [0])
    build.produce("p", 0, ["x"], acks=1, base_offset=0, topic="__consumer_offsets")

    assert [type(timed).__name__ for timed in built(build)] == ["TopicCreated"]


def test_the_member_of_the_ensemble_that_saw_most_is_believed(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").register(0, 0x10)
    build.write_zookeeper(member=1)
    build.register(1, 0x11)
    build.write_zookeeper(member=2)
    build.transactions.pop()
    build.write_zookeeper(member=3)

    assert [
        timed.broker for timed in events_of(build) if isinstance(timed, m.BrokerRegistered)
    ] == [0, 1]


def test_the_last_configuration_of_a_topic_is_known(tmp_path: Path):
    config = json.dumps({"version": 1, "config": {"min.insync.replicas": "2"}}).encode()
    build = RunBuilder(tmp_path / "run").write(1, create_body("/config/topics/t", config))
    build.write_zookeeper()

    assert RunEvidence(build.run).configurations == {"t": {"min.insync.replicas": "2"}}


def test_a_run_without_zookeepers_logs_has_only_actions(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").act(m.PauseBroker(broker=1))

    assert events_of(build) == (m.PauseBroker(broker=1),)


def test_a_znode_without_kafkas_fields_is_named(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").write(1, create_body("/brokers/topics/t", b"{}"))
    build.write_zookeeper()

    with pytest.raises(ScenarioDataError, match="znode /brokers/topics/t at zxid 0x1 has no 'par"):
        events_of(build)


def test_an_action_without_a_zxid_is_named_with_its_line(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").act(m.PauseBroker(broker=1))
    build.run.append("actions.jsonl", {"time": 1.0, "step": 0, "action": {"event": "PauseBroker"}})

    with pytest.raises(ScenarioDataError, match=r"actions\.jsonl:2: zxid missing"):
        events_of(build)
