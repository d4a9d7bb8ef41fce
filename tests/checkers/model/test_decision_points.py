"""Single decision points: what was decided before a rule, and what with it."""

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import exchange, follower, offset_reset
from tests.support.model_timelines import cluster, left_alone, state, write


@pytest.mark.parametrize(
    ("release", "is_incremental", "is_seen"),
    [
        ("2.0.1", False, False),
        ("2.1.0", False, True),
        ("2.1.0", True, False),
        ("2.4.1", True, False),
        ("2.5.0", True, True),
    ],
)
def test_whether_a_leader_sees_the_leader_epoch_is_decided_by_its_own_release(
    release: str, is_incremental: bool, is_seen: bool
):
    asked = m.PartitionRequest(
        leader_epoch=2,
        carries_leader_epoch=True,
        fetch_offset=0,
        requested_epoch=-1,
        is_incremental=is_incremental,
    )
    assert generation_for(release).sees_leader_epoch(asked) is is_seen


TOLD_AGAIN: list[m.Event] = [state(0, 0, (0, 1)), write("a", 0, acks=-1), state(0, 1, (0, 1))]
"""Broker 1 follows 0, has all that there is, and is told the same leader in another epoch."""


def after(release: str, events: list[m.Event]) -> m.World:
    return m.World(left_alone([*cluster(release, controller=2, replicas=(0, 1)), *events]))


def next_fetch(world: m.World) -> m.PartitionRequest:
    question = exchange.question(world, 1, 0, exchange.FETCH)
    assert question is not None
    ((_, asked),) = question.asked
    return asked


@pytest.mark.parametrize(
    ("release", "requested_epoch"),
    [("3.5.0", 0), ("3.5.1", -1), ("3.6.2", -1), ("3.7.0", 0), ("3.9.1", 0)],
)
def test_from_3_5_1_to_3_6_a_follower_forgets_its_epoch_at_a_first_answer_without_records(
    release: str, requested_epoch: int
):
    assert next_fetch(after(release, TOLD_AGAIN[:2])).requested_epoch == 0
    assert next_fetch(after(release, TOLD_AGAIN)).requested_epoch == requested_epoch
    appended = after(release, [*TOLD_AGAIN, write("b", 0, acks=-1)])
    assert next_fetch(appended).requested_epoch == 1


def test_a_follower_that_resets_its_offset_knows_its_epoch_again():
    world = after("3.6.2", TOLD_AGAIN)
    asked = next_fetch(world)
    out_of_range = m.FetchAnswer(error="OFFSET_OUT_OF_RANGE")
    follower.handle_fetch_answer(world, 1, 0, m.TopicPartition("t", 0), asked, out_of_range)
    offset_reset.handle_answer(world, 1, 0, m.OffsetAnswer(offset=1))
    offset_reset.handle_answer(world, 1, 0, m.OffsetAnswer(offset=0))
    assert (asked.requested_epoch, next_fetch(world).requested_epoch) == (-1, 0)


def test_under_an_older_protocol_a_follower_of_3_6_has_no_epoch_to_forget():
    generation = generation_for("3.6.2", inter_broker_protocol="2.6")
    first = generation.first_fetch(m.Replica(entries=(m.EpochEntry(0, 0),)))
    assert generation.last_fetched_epoch(first, (m.EpochEntry(0, 0),)) == -1
    assert generation.fetch_after_append(first, 0) == first
