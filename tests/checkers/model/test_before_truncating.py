"""An answer to a Fetch comes when its partition was put on the thread anew and is to truncate."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.broker.follower import become_follower, note_epochs
from kchaos.checkers.model.releases.generation import Generation
from tests.support.model_timelines import cluster, left_alone, state, write

T = m.TopicPartition("t", 0)
BATCH = m.PredictedBatch(base_offset=1, last_offset=1, leader_epoch=0, magic=2, payload="b")
RECORDS = m.FetchAnswer(batches=(BATCH,), high_watermark=2)
NOTHING = m.FetchAnswer(high_watermark=1)
OUT_OF_RANGE = m.FetchAnswer(error="OFFSET_OUT_OF_RANGE")


def either(*, takes: bool) -> Generation:
    return replace(generation_for("1.0.2"), takes_fetch_answer_before_truncating=takes)


def to_truncate(known: Generation) -> m.World:
    """Broker 1 has one record, has asked 0 for more, and is to truncate before it asks again."""
    events = [
        *cluster("1.0.2", controller=2, replicas=(0, 1)),
        state(0, 0, (0, 1)),
        write("a", 0, acks=-1),
    ]
    world = m.World(left_alone(events, dict.fromkeys(range(3), known)))
    assert exchange.ask(world, 1, 0) is not None
    thread = world.thread(1, 0)
    assert thread is not None
    anew = replace(fetch_of(world), state=m.FetcherState.TRUNCATING)
    world.put_thread(1, 0, thread.with_fetch(T, anew))
    return world


def answer(world: m.World, said: m.Answer) -> bool:
    """Let broker 1 get this answer; returns whether that changed anything."""
    (sent,) = world.exchanges(1, 0)
    answered = replace(sent, stage=m.Stage.ANSWERED, answers=((T, said),))
    exchange.change(world, 1, 0, sent, answered)
    return exchange.handle(world, 1, 0, answered)


def fetch_of(world: m.World) -> m.FetchState:
    thread = world.thread(1, 0)
    assert thread is not None
    fetch = thread.fetch(T)
    assert fetch is not None
    return fetch


@pytest.mark.parametrize(
    ("takes", "end", "stands"),
    [(False, 1, m.FetcherState.TRUNCATING), (True, 2, m.FetcherState.FETCHING)],
)
def test_records_are_left_or_taken_and_then_nothing_is_truncated(
    takes: bool, end: int, stands: m.FetcherState
):
    world = to_truncate(either(takes=takes))

    assert answer(world, RECORDS) is takes

    assert world.known_replica(1, T).log.log_end_offset == end
    assert (fetch_of(world).fetch_offset, fetch_of(world).state) == (end, stands)


def test_without_records_the_partition_is_still_to_truncate():
    world = to_truncate(either(takes=True))

    answer(world, NOTHING)

    assert fetch_of(world).state is m.FetcherState.TRUNCATING


@pytest.mark.parametrize("takes", [False, True])
def test_out_of_range_is_left_or_the_offset_is_reset_in_place_of_truncating(takes: bool):
    world = to_truncate(either(takes=takes))

    answer(world, OUT_OF_RANGE)

    question = exchange.question(world, 1, 0, exchange.LIST_OFFSETS)
    assert (question is not None) is takes
    if question is not None:
        for offset in (1, 0):
            assert exchange.ask(world, 1, 0) is not None
            answer(world, m.OffsetAnswer(offset=offset))
        assert fetch_of(world).state is m.FetcherState.FETCHING


@pytest.mark.parametrize("takes", [False, True])
def test_epochs_are_noted_of_the_records_that_are_taken(takes: bool):
    later = replace(BATCH, leader_epoch=1)
    assert note_epochs(to_truncate(either(takes=takes)), 1, 0, T, (later,)) is takes


@pytest.mark.parametrize(("release", "end"), [("1.0.2", 2), ("1.1.0", 1)])
def test_up_to_1_0_it_counts_at_the_log_end_though_the_high_watermark_is_below(
    release: str, end: int
):
    world = to_truncate(generation_for(release))
    led = replace(world.known_replica(1, T), role=m.Role.LEADER, leader=1, high_watermark=0)
    world.put_replica(1, T, led)
    become_follower(world, 1, T, state(0, 2, (0, 1)))
    assert fetch_of(world).state is m.FetcherState.TRUNCATING

    answer(world, RECORDS)

    assert world.known_replica(1, T).log.log_end_offset == end
