"""What a search takes at once, leaves out and puts off; each is right whatever is left to come."""

from dataclasses import replace

import pytest
from model_timelines import start, state, write

from checkers.acts import TopicPartition
from checkers.model.at_once import needed, step_at_once
from checkers.model.happen import happen
from checkers.model.leader import become_leader
from checkers.model.lookahead import Lookahead
from checkers.model.observations import (
    ControlAnswered,
    ControlSent,
    Fate,
    FetchAnswered,
    Observation,
    Record,
    Reply,
    Seen,
)
from checkers.model.out_of_reach import is_out_of_reach
from checkers.model.replica import Replica
from checkers.model.requests import Asked, Exchange, Received, Stage, UpdateMetadata
from checkers.model.state import EMPTY
from checkers.model.world import World

T = TopicPartition("t", 0)
NUMBER = (7, 1)
TOLD = UpdateMetadata(live=frozenset({0, 1}), told=frozenset({T}))
RECEIVED = Received(number=NUMBER, controller_epoch=1, request=TOLD)
ANSWERED = ControlAnswered(number=NUMBER, api="UpdateMetadata", broker=0, error_code=0, errors={})
ASKED = Asked(leader_epoch=1, carries_leader_epoch=False, fetch_offset=0, requested_epoch=-1)
FETCH = Exchange(api="Fetch", asked=((T, ASKED),), stage=Stage.ARRIVED, number=NUMBER)


def to_come(*items: Observation) -> Lookahead:
    return Lookahead(Record(seen=tuple(Seen(what=one, time=1.0) for one in items), decided=()))


def cluster(release: str = "2.0.1") -> World:
    world = World(EMPTY)
    for broker in (0, 1):
        for event in start(broker, release):
            happen(world, event, {})
    return world


def told_again(*, told: frozenset[TopicPartition]) -> World:
    """Broker 0 has an UpdateMetadata, and has heard of these partitions before."""
    world = cluster()
    broker = world.broker(0)
    assert broker is not None
    world.put_broker(0, replace(broker, told=told))
    world.put(("control", 0), (RECEIVED,))
    return world


def sent(number: tuple[int, int]) -> ControlSent:
    return ControlSent(
        number=number, api="UpdateMetadata", controller=1, controller_epoch=2, broker=0
    )


def test_metadata_that_tells_nothing_new_is_taken_at_once() -> None:
    step = step_at_once(told_again(told=frozenset({T})).state(EMPTY), to_come(ANSWERED), 0)
    assert step is not None
    assert [one.errors for one in step.get(("control", 0))] == [((None, ""),)]


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        (frozenset[TopicPartition](), (ANSWERED,)),
        (frozenset({T}), (sent((8, 1)), ANSWERED)),
        (frozenset({T}), (replace(ANSWERED, error_code=11),)),
    ],
    ids=["a partition is new", "another controller is heard first", "it was answered otherwise"],
)
def test_metadata_that_may_make_a_difference_is_not_taken_at_once(
    told: frozenset[TopicPartition], seen: tuple[Observation, ...]
) -> None:
    assert step_at_once(told_again(told=told).state(EMPTY), to_come(*seen), 0) is None


def test_an_answer_to_a_controller_that_nobody_saw_is_left_out() -> None:
    handled = replace(RECEIVED, errors=((None, ""),))
    changes = {("control", 0): (handled, replace(RECEIVED, number=(7, 2)))}
    left = needed(changes, to_come())
    assert left == {("control", 0): (replace(RECEIVED, number=(7, 2)),)}
    assert needed(changes, to_come(ANSWERED)) == changes


@pytest.mark.parametrize(
    ("one", "is_left_out"),
    [
        (replace(FETCH, is_awaited=False, stage=Stage.WAITING), True),
        (replace(FETCH, is_awaited=False, asked=()), True),
        (replace(FETCH, is_awaited=False), False),
        (replace(FETCH, stage=Stage.WAITING), False),
    ],
    ids=["counted", "asks nothing", "not counted yet", "awaited"],
)
def test_a_given_up_request_is_left_out_once_its_leader_has_counted_it(
    one: Exchange, *, is_left_out: bool
) -> None:
    left = needed({("exchanges", 1, 0): (one,)}, to_come())
    assert left == {("exchanges", 1, 0): None if is_left_out else (one,)}


def reply(*, high_watermark: int, last_offset: int | None, error_code: int = 0) -> Reply:
    said = FetchAnswered(
        error_code=error_code,
        high_watermark=high_watermark,
        base_offset=None if last_offset is None else 0,
        last_offset=last_offset,
    )
    return Reply(
        number=NUMBER, fate=Fate.ARRIVES, api="Fetch", follower=1, leader=0, partitions={T: said}
    )


@pytest.mark.parametrize(
    ("seen", "is_missed"),
    [
        (reply(high_watermark=1, last_offset=0), False),
        (reply(high_watermark=0, last_offset=0), True),
        (reply(high_watermark=1, last_offset=None), True),
        (reply(high_watermark=-1, last_offset=None, error_code=3), True),
    ],
    ids=["can come", "an older high watermark", "no records", "a partition it does not know"],
)
def test_an_answer_that_a_leader_has_gone_past_is_out_of_reach(
    seen: Reply, *, is_missed: bool
) -> None:
    world = cluster()
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    happen(world, write("m", 0), {})
    world.put_exchanges(1, 0, (FETCH,))
    changes = {("exchanges", 1, 0): (FETCH,)}
    assert is_out_of_reach(world.state(EMPTY), changes, to_come(seen)) is is_missed
