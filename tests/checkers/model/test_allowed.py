"""Decisions that Kafka cannot have taken are reported, and everything that it does is allowed."""

import pytest

from kchaos.checkers.acts import CutLink, Hold
from kchaos.checkers.model import predict
from kchaos.checkers.model.values.events import PartitionState
from tests.support.model_timelines import cluster, kill, state, write

BASE = [*cluster("2.0.1", controller=3, replicas=(0, 1, 2)), state(0, 0, (0, 1, 2), version=0)]


def reasons(*events, base=BASE):
    return [each.reason for each in predict([*base, *events]).disallowed]


@pytest.mark.parametrize(
    "decision",
    [
        state(1, 1, (0, 1, 2)),
        state(1, 1, (1, 2)),
        state(0, 1, (0, 2)),
        state(0, 0, (0, 1)),
        state(-1, 1, (0,)),
        state(-1, 1, ()),
    ],
)
def test_elections_and_shrinks_within_the_isr_are_allowed(decision):
    assert reasons(decision) == []


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (state(0, 0, (0, 1, 9)), "outside the assignment"),
        (state(0, 1, (1, 2)), "leader 0 is not in its own ISR"),
        (state(1, 0, (0, 1, 2)), "within epoch 0"),
        (state(1, 2, (1, 2)), "leader epoch went from 0 to 2"),
    ],
)
def test_impossible_states_are_reported(decision, reason):
    (seen,) = reasons(decision)
    assert reason in seen


def test_each_write_of_a_partition_s_znode_counts_its_version_up_by_one():
    (reason,) = reasons(state(0, 0, (0, 1), version=2))
    assert reason == "the znode's version went from 0 to 2, not one up"
    assert reasons(state(0, 0, (0, 1), version=1)) == []
    assert reasons(state(0, 0, (0, 1))) == []


def test_the_place_and_the_decision_are_told():
    (disallowed,) = predict([*BASE, state(1, 5, (1,))]).disallowed
    assert disallowed.index == len(BASE)
    assert disallowed.decision["event"] == PartitionState.__name__
    assert disallowed.decision["leader_epoch"] == 5


def test_a_follower_that_never_reached_the_high_watermark_cannot_join():
    behind = [CutLink(source=2, target=0), state(0, 1, (0, 1)), write("far", 0, acks=-1)]
    (reason,) = reasons(*behind, state(0, 2, (0, 1)), state(0, 2, (0, 1, 2)))
    assert "broker 2 joined the ISR at offset 0, although" in reason


def test_a_fetch_in_flight_may_put_a_dead_broker_back_into_the_isr():
    in_flight = [*kill(2), state(0, 1, (0, 1)), write("far", 0)]
    assert reasons(*in_flight, state(0, 1, (0, 1, 2))) == []


def test_a_follower_that_reached_the_high_watermark_once_may_be_written_later():
    late = [state(0, 0, (0, 1)), write("more", 0), CutLink(source=2, target=0), write("far", 0)]
    assert reasons(*late, state(0, 0, (0, 1, 2))) == []


def joins_before_the_epoch(release):
    """Broker 2 fetches at the high watermark of a leader whose epoch starts one record later."""
    return [
        *cluster(release, controller=3, replicas=(0, 1, 2)),
        state(1, 0, (1, 0, 2)),
        CutLink(source=1, target=2),
        state(1, 0, (1, 0)),
        Hold(name="hw", api="Fetch", source=0, direction="response", fetch_offset_at_least=1),
        write("m", 1, acks=-1),
        CutLink(source=0, target=1),
        Hold(name="data", api="Fetch", source=2, direction="response"),
        state(0, 1, (1, 0)),
        state(0, 1, (1, 0, 2)),
    ]


def test_KAFKA_7128_forbids_joining_below_the_start_of_the_leaders_epoch():
    assert predict(joins_before_the_epoch("2.0.0")).disallowed == ()
    (disallowed,) = predict(joins_before_the_epoch("2.0.1")).disallowed
    assert "joined the ISR at offset 0" in disallowed.reason
    assert "its epoch starts at 1" in disallowed.reason
