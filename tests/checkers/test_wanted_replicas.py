"""Reassignments in ZooKeeper's log: since when a partition may be moving, and to which replicas."""

import json
from typing import Any

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.zookeeper import wanted_replicas
from kchaos.checkers.zookeeper_log import ZnodeChange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REQUESTS = "/admin/reassign_partitions"


def changes(*written: tuple[str, Any]) -> list[ZnodeChange]:
    """Return the changes of znodes at zxids 1, 2, ...; None deletes one."""
    return [
        ZnodeChange(
            zxid=zxid,
            session=1,
            time_ms=0,
            operation="delete" if data is None else "set",
            path=path,
            data=None if data is None else json.dumps(data).encode(),
            version=zxid,
        )
        for zxid, (path, data) in enumerate(written, 1)
    ]


def requests(**replicas: list[int]) -> tuple[str, Any]:
    asked = [
        {"topic": "t", "partition": int(name[1:]), "replicas": brokers}
        for name, brokers in replicas.items()
    ]
    return REQUESTS, {"version": 1, "partitions": asked}


def topic(*replicas: list[int], **moving: dict[str, list[int]]) -> tuple[str, Any]:
    partitions = {str(number): brokers for number, brokers in enumerate(replicas)}
    return "/brokers/topics/t", {"partitions": partitions, **moving}


def state(leader_epoch: int, *isr: int) -> tuple[str, Any]:
    return "/brokers/topics/t/partitions/0/state", {"leader_epoch": leader_epoch, "isr": isr}


def test_up_to_2_3_a_request_lasts_until_it_is_assigned_and_its_znode_is_gone():
    log = changes(
        topic([0, 1], [1, 2]),
        requests(p0=[1, 2], p1=[2, 1]),
        topic([1, 2, 0], [1, 2]),
        topic([1, 2], [1, 2]),
        requests(p1=[2, 1]),
        topic([1, 2], [2, 1]),
        (REQUESTS, None),
    )
    assert wanted_replicas(log) == {T0: [(2, ((1, 2),)), (5, ())], T1: [(2, ((2, 1),)), (7, ())]}


def test_a_request_that_was_deleted_too_early_may_still_be_done():
    log = changes(topic([0, 1]), requests(p0=[1, 2]), (REQUESTS, None), requests(p0=[2, 0]))
    assert wanted_replicas(log) == {T0: [(2, ((1, 2),)), (4, ((1, 2), (2, 0)))]}


def test_from_2_4_on_the_topic_says_what_goes_and_comes():
    moving = {"adding_replicas": {"0": [2]}, "removing_replicas": {"0": [0]}}
    log = changes(topic([0, 1]), topic([1, 2, 0], **moving), topic([1, 2]))
    assert wanted_replicas(log) == {T0: [(2, ((1, 2),)), (3, ())]}


def test_from_2_4_on_another_order_is_wanted_until_the_next_epoch_of_the_same_isr():
    log = changes(
        topic([0, 1]),
        state(0, 0, 1),
        topic([1, 0]),
        state(0, 0),
        state(0, 0, 1),
        state(1, 0, 1),
        topic([1, 0]),
    )
    assert wanted_replicas(log) == {T0: [(3, ((1, 0),)), (6, ())]}


@pytest.mark.parametrize(
    ("states", "moved"),
    [
        ((state(1, 1, 0),), [(2, ((0, 1),)), (3, ())]),
        ((state(1, 0),), None),
        ((state(0, 0, 1),), None),
        ((state(1, 0, 1), state(1, 0)), None),
        ((), None),
    ],
    ids=["an epoch", "another ISR", "no epoch", "an ISR after it", "before the znode"],
)
def test_from_2_4_on_the_replicas_that_are_there_are_written_after_the_epoch_of_them(
    states: tuple[tuple[str, Any], ...], moved: list[Any] | None
):
    log = changes(topic([0, 1]), state(0, 0, 1), *states, topic([0, 1]), state(2, 0, 1))
    assert wanted_replicas(log) == ({} if moved is None else {T0: moved})


def test_a_topic_that_is_deleted_moves_nowhere():
    gone = ("/brokers/topics/t", None)
    log = changes(topic([0, 1]), requests(p0=[1, 2]), (REQUESTS, None), gone, topic([0, 1]))
    assert wanted_replicas(log) == {T0: [(2, ((1, 2),)), (4, ())]}
    assert wanted_replicas(changes(topic([0, 1]), state(0, 0), gone)) == {}


@pytest.mark.parametrize(
    "data", [{}, {"partitions": 7}, {"partitions": [7]}, {"partitions": [{"topic": "t"}]}, 7]
)
def test_a_request_of_another_shape_is_refused(data: Any):
    with pytest.raises(ScenarioDataError, match="reassign_partitions at zxid 0x1"):
        wanted_replicas(changes((REQUESTS, data)))
