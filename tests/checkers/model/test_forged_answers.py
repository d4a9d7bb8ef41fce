"""Answers of a link in a leader's place: only what a fault said, and the follower asks again."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from tests.support.model_timelines import cluster, left_alone, write
from tests.support.model_timelines import state as partition_state

T = m.TopicPartition("t", 0)
FORGE = m.ForgeAnswers(name="f", source=1, target=0, error="NOT_LEADER_FOR_PARTITION")
ASKED = m.PartitionRequest(
    leader_epoch=1, carries_leader_epoch=False, fetch_offset=2, requested_epoch=0
)
ANSWERED = m.Exchange(
    api="OffsetForLeaderEpoch",
    asked=((T, ASKED),),
    answers=((T, m.EpochAnswer()),),
    stage=m.Stage.ANSWERED,
    number=(7, 1),
)


def reply(fate: m.Fate, error_code: int) -> m.ResponseSeen:
    said = m.EpochAnswered(error_code=error_code, leader_epoch=-1, end_offset=-1)
    return m.ResponseSeen(
        number=(7, 1),
        fate=fate,
        api="OffsetForLeaderEpoch",
        follower=1,
        leader=0,
        partitions={T: said},
    )


def taken(seen: m.ResponseSeen, *acts: m.Action) -> m.World:
    """The transition of an observation, where a question of broker 1 is answered by broker 0."""
    world = m.World(m.EMPTY)
    thread = m.FetcherThread(partitions=())
    fetch = m.FetchState(fetch_offset=2, leader_epoch=1, state=m.FetcherState.TRUNCATING)
    world.put_thread(1, 0, thread.with_fetch(T, fetch))
    world.put_exchanges(1, 0, (ANSWERED,))
    items = (*acts, seen)
    record = Record(seen=tuple(m.Seen(what=item, time=1.0) for item in items), decided=())
    take(world, seen, Lookahead(record), generations={}, decided=0)
    return world


def test_the_leaders_own_answer_stays_at_the_link():
    assert taken(reply(m.Fate.REPLACED, 0), FORGE).exchanges(1, 0) == (ANSWERED,)


def test_a_forged_answer_arrives_with_the_error_that_the_fault_said():
    (exchange,) = taken(reply(m.Fate.FORGED, 6), FORGE).exchanges(1, 0)
    error = m.EpochAnswer(error="NOT_LEADER_FOR_PARTITION")
    assert exchange == replace(ANSWERED, stage=m.Stage.DELIVERED, answers=((T, error),))


@pytest.mark.parametrize(
    "acts",
    [(), (replace(FORGE, target=2),), (replace(FORGE, error="REQUEST_TIMED_OUT"),)],
    ids=["no fault", "another pair", "another error"],
)
def test_an_answer_that_no_fault_forged_is_not_possible(acts: tuple[m.Action, ...]):
    with pytest.raises(Excluded, match="error 6 for t-0 in broker 0's place, which no fault did"):
        taken(reply(m.Fate.FORGED, 6), *acts)


def test_what_a_leader_answered_is_the_answer_that_was_replaced():
    replaced, forged = reply(m.Fate.REPLACED, 0), reply(m.Fate.FORGED, 6)
    seen = tuple(m.Seen(what=each, time=1.0) for each in (FORGE, replaced, forged))
    assert Lookahead(Record(seen=seen, decided=())).responses == {(7, 1): replaced}


def after(*events: m.Event) -> m.State:
    return left_alone(events)


def test_left_alone_a_follower_that_is_answered_by_errors_truncates_nothing():
    begin = (
        *cluster("2.0.1", controller=2, replicas=(0, 1)),
        partition_state(1, 0, (0, 1)),
        write("both", 1),
        FORGE,
        partition_state(0, 1, (0, 1)),
    )
    asking = m.World(after(*begin))
    thread = asking.thread(1, 0)
    assert thread is not None
    fetch = thread.fetch(T)
    assert fetch is not None
    assert fetch.state is m.FetcherState.TRUNCATING
    thread = m.World(after(*begin, m.EndForgery(name="f"))).thread(1, 0)
    assert thread is not None
    fetch = thread.fetch(T)
    assert fetch is not None
    assert fetch.state is m.FetcherState.FETCHING
