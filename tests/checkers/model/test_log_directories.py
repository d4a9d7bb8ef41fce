"""A log directory that fails: its replicas are offline, and the broker goes on with the others."""

from dataclasses import replace

import pytest

from kchaos.checkers.acts import FailLogDirectory, RestoreLogDirectory, WipeLogDirectory
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import predict
from kchaos.checkers.model.values.events import Event, PartitionState, Snapshot, TopicCreated
from tests.support.model_timelines import cluster, kill, start, state, write

U = PartitionState(
    topic="u", partition=0, leader=0, leader_epoch=0, isr=(0, 1), controller_epoch=1, version=0
)
FAILED = FailLogDirectory(broker=0, directory=1, partitions=(("t", 0),))
RESTORED = RestoreLogDirectory(broker=0, directory=1)


def timeline(*more: Event) -> tuple[Event, ...]:
    """Broker 0 leads t and u, each in a log directory of its own; that of t fails."""
    return (
        *cluster("2.8.2", controller=2, replicas=(0, 1)),
        TopicCreated(topic="u", assignment=((0, 1),)),
        state(0, 0, (0, 1)),
        U,
        write("before", 0, acks=-1),
        FAILED,
        *more,
    )


def ends(*more: Event) -> dict[int, int]:
    """Where the log of t ends on each broker."""
    seen = predict(timeline(*more, Snapshot(label="after"))).snapshots["after"]
    return {each.broker: each.log_end_offset for each in seen if each.topic == "t"}


def outcomes(*more: Event) -> dict[str, tuple[bool | None, str]]:
    produces = predict(timeline(*more)).produces
    return {produce.operation: (produce.acknowledged, produce.error) for produce in produces}


def test_writes_to_a_replica_of_a_failed_directory_are_refused_and_to_others_not():
    other = replace(write("other", 0, acks=-1), topic="u")
    outcomes_there = outcomes(write("offline", 0), other, state(1, 1, (1,)), write("next", 1))
    assert outcomes_there["before"] == (True, "")
    assert outcomes_there["offline"] == (False, "KAFKA_STORAGE_ERROR")
    assert outcomes_there["other"] == (True, "")
    assert outcomes_there["next"] == (True, "")


def test_a_replica_of_a_failed_directory_neither_leads_nor_follows_and_keeps_its_log():
    assert ends(state(1, 1, (1,)), write("next", 1, count=3)) == {0: 1, 1: 4}


def test_a_restored_directory_has_what_it_had_and_its_replica_follows():
    elected = (state(1, 1, (1,)), write("next", 1, count=3))
    again = (*kill(0, high_watermark=1), RESTORED, *start(0, "2.8.2", czxid=500))
    assert ends(*elected, *again) == {0: 4, 1: 4}


def test_a_process_that_begins_without_the_directory_serves_the_other_one_alone():
    elected = (state(1, 1, (1,)), write("next", 1, count=3))
    started = (*kill(0, high_watermark=1), *start(0, "2.8.2", czxid=500))
    written = (replace(U, leader_epoch=1, version=1), replace(write("u", 0), topic="u"))
    events = (*elected, *started, *written)
    assert ends(*events) == {0: 1, 1: 4}
    assert outcomes(*events)["u"] == (True, "")
    again = (*kill(0, high_watermark=1), RESTORED, *start(0, "2.8.2", czxid=501))
    assert ends(*events, *again) == {0: 4, 1: 4}


def test_a_process_without_the_directory_makes_no_log_for_a_topic_that_came_while_it_was_down() -> (
    None
):
    created = TopicCreated(topic="v", assignment=((1, 0),))
    of_v = replace(U, topic="v", leader=1, isr=(1,))
    in_v = replace(write("v", 1), topic="v")
    events = (*kill(0, high_watermark=1), created, of_v, *start(0, "2.8.2", czxid=500), in_v)
    grown = replace(of_v, leader=0, leader_epoch=1, isr=(0, 1), version=1)
    refused = replace(write("refused", 0), topic="v")
    assert outcomes(*events, grown, refused)["refused"] == (False, "KAFKA_STORAGE_ERROR")


def test_a_process_without_the_directory_makes_a_log_for_a_new_topic():
    started = (*kill(0, high_watermark=1), *start(0, "2.8.2", czxid=500))
    created = (TopicCreated(topic="v", assignment=((0, 1),)), replace(U, topic="v"))
    assert outcomes(*started, *created, replace(write("v", 0), topic="v"))["v"] == (True, "")


def test_a_process_that_began_without_the_directory_refuses_writes_there():
    started = (*kill(0, high_watermark=1), *start(0, "2.8.2", czxid=500))
    assert outcomes(*started, state(0, 1, (0,)), write("refused", 0))["refused"] == (
        False,
        "KAFKA_STORAGE_ERROR",
    )


@pytest.mark.parametrize(
    "more",
    [
        (RESTORED,),
        (*kill(0, high_watermark=1), FAILED),
        (*kill(0, high_watermark=1), WipeLogDirectory(broker=0)),
    ],
    ids=["restored-while-it-runs", "failed-while-it-is-down", "emptied-meanwhile"],
)
def test_what_is_not_followed_of_a_failed_directory_is_no_prediction(more):
    with pytest.raises(ModelError, match="log directory"):
        predict(timeline(*more))
