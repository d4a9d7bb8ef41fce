"""A follower out of range asks with ListOffsets: requests in flight, for which its thread waits."""

from dataclasses import replace

import pytest

import kchaos as k
import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.segments.batch import payload_digest
from kchaos.studies.explore.actions import Answer as AnswerOf
from kchaos.studies.explore.actions import Ask, Handle, Write
from tests.golden.stored import recorded
from tests.support.model_timelines import cluster, kill, left_alone, start, state, write

T = k.TopicPartition("t", 0)
OTHER = k.TopicPartition("t", 1)
WITHOUT_EPOCHS = {"message_format": "0.10.2", "unclean_leader_election": True}
RELEASES = ("0.10.2.2", "2.8.2")
OUT_OF_RANGE = m.FetchAnswer(error="OFFSET_OUT_OF_RANGE")


def elected_with_one_of_three(release: str, *before_the_follower: m.Event) -> list[m.Event]:
    """1 leads with one record; 0 has three, truncates to its high watermark and is out of range."""
    return [
        *cluster(release, controller=2, replicas=(0, 1), **WITHOUT_EPOCHS),
        state(0, 0, (0, 1)),
        *(write(f"both-{number}", 0, acks=-1) for number in range(3)),
        *kill(1, high_watermark=3),
        *kill(0, high_watermark=3),
        m.LoseTail(broker=1, topic="t", partition=0, log_end_offset=1),
        *start(1, release, czxid=201, **WITHOUT_EPOCHS),
        state(1, 1, (1,)),
        *before_the_follower,
        *start(0, release, czxid=202, **WITHOUT_EPOCHS),
    ]


def held(direction: str) -> m.Hold:
    return m.Hold(name="asking", api="ListOffsets", source=0, target=1, direction=direction)  # type: ignore[arg-type]


def after(events: list[m.Event]) -> m.World:
    return m.World(left_alone(events))


def names(world: m.World, broker: int) -> str:
    """The records in a replica's log, by name."""
    known = {
        payload_digest(m.records_of((f"{name}-0",), ())): name
        for number in range(3)
        for name in (f"both-{number}", f"more-{number}")
    }
    return " ".join(known[batch.payload] for batch in world.known_replica(broker, T).log.batches)


def following(release: str = "2.3.1") -> m.World:
    """Broker 1 follows 0 in two partitions, with one record in the first."""
    events = [
        *cluster(release, controller=2, replicas=(0, 1)),
        state(0, 0, (0, 1)),
        write("a", 0, acks=-1),
    ]
    world = after(events)
    thread = world.thread(1, 0)
    assert thread is not None
    fetch = replace(thread.partitions[0][1], fetch_offset=0)
    world.put_thread(1, 0, thread.with_fetch(OTHER, fetch))
    world.put(("replica", 1, OTHER), replace(world.known_replica(1, T), log=m.Log()))
    return world


def fetched(world: m.World, *answers: tuple[k.TopicPartition, m.Answer]) -> bool:
    """Broker 1 gets an answer to its Fetch; returns whether it changed anything."""
    question = exchange.question(world, 1, 0, exchange.FETCH)
    assert question is not None
    sent = exchange.send(world, 1, 0, question)
    answered = replace(sent, stage=m.Stage.ANSWERED, answers=answers)
    exchange.change(world, 1, 0, sent, answered)
    return exchange.handle(world, 1, 0, answered)


def asks(world: m.World) -> m.Exchange:
    """Broker 1 asks with ListOffsets."""
    question = exchange.question(world, 1, 0, exchange.LIST_OFFSETS)
    assert question is not None
    return exchange.send(world, 1, 0, question)


def listed(world: m.World, answer: m.OffsetAnswer) -> bool:
    """Broker 1 asks, and is answered so; returns whether that changed anything."""
    sent = asks(world)
    answered = replace(sent, stage=m.Stage.ANSWERED, answers=((T, answer),))
    exchange.change(world, 1, 0, sent, answered)
    return exchange.handle(world, 1, 0, answered)


def reset_of(world: m.World) -> m.OffsetReset | None:
    thread = world.thread(1, 0)
    assert thread is not None
    return thread.reset


def fetches_from(world: m.World) -> dict[k.TopicPartition, int]:
    question = exchange.question(world, 1, 0, exchange.FETCH)
    assert question is not None
    return {partition: asked.fetch_offset for partition, asked in question.asked}


@pytest.mark.parametrize("error", ["NOT_LEADER_FOR_PARTITION", "UNKNOWN_LEADER_EPOCH"])
def test_an_error_lets_the_follower_fetch_from_the_same_offset(error: str):
    world = following()
    fetched(world, (T, OUT_OF_RANGE))

    assert not listed(world, m.OffsetAnswer(error=error))

    assert (reset_of(world), fetches_from(world)[T]) == (None, 1)


def test_a_follower_that_is_fenced_loses_the_partition_from_its_thread():
    world = following("2.1.1")
    leader = world.known_replica(0, T)
    fetched(world, (T, OUT_OF_RANGE))
    world.put_replica(0, T, replace(leader, leader_epoch=1))

    looked = exchange.look(world, 1, 0, asks(world))
    assert looked.answers == ((T, m.OffsetAnswer(error="FENCED_LEADER_EPOCH")),)
    answered, _ = exchange.count(world, 1, 0, looked)
    assert exchange.handle(world, 1, 0, answered)

    assert list(fetches_from(world)) == [OTHER]


@pytest.mark.parametrize("release", RELEASES)
def test_a_question_that_ends_in_a_cut_is_asked_anew_after_another_fetch(release: str):
    cut = [
        *elected_with_one_of_three(release, held("request")),
        m.CutLink(source=0, target=1),
        m.ReleaseHold(name="asking"),
    ]

    lost = after(cut)
    assert (lost.exchanges(0, 1), names(lost, 0)) == ((), "both-0 both-1 both-2")
    thread = lost.thread(0, 1)
    assert thread is not None
    assert thread.reset is None
    assert names(after([*cut, m.HealLink(source=0, target=1)]), 0) == "both-0"


ASK, ANSWER = Ask(follower=1, leader=0), AnswerOf(follower=1, leader=0)
HANDLE, WRITE = Handle(follower=1, leader=0), Write(leader=0)


@pytest.fixture
def of_brokers() -> Record:
    """`tests/cases/list_offsets_held.py` on real brokers of 2.8.2."""
    return recorded("list-offsets-2.8.2")


@pytest.mark.slow
def test_a_held_answer_of_real_brokers_is_followed_to_its_end(of_brokers: Record):
    prediction = follow(of_brokers)
    assert (prediction.emptied_by, prediction.limit) == (None, "")
    said = [
        part
        for item in of_brokers.seen
        if isinstance(item.what, m.RequestSeen | m.ResponseSeen) and item.what.api == "ListOffsets"
        for part in item.what.partitions.values()
    ]
    assert said == [
        m.OffsetAsked(timestamp=-1, leader_epoch=2),
        m.OffsetAnswered(error_code=0, offset=1),
        m.OffsetAnswered(error_code=0, offset=1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (m.OffsetAnswered(error_code=0, offset=2), "answered offset 2, possible was"),
        (m.OffsetAnswered(error_code=6, offset=-1), "error 6, possible was none"),
        (m.OffsetAnswered(error_code=0, offset=None), "answered offset None, possible was"),
    ],
)
def test_an_answer_that_no_state_gives_is_found_and_named(
    of_brokers: Record, planted: m.OffsetAnswered, why: str
):
    seen, places = [], []
    for item in of_brokers.seen:
        what = item.what
        if isinstance(what, m.ResponseSeen) and what.api == "ListOffsets":
            places.append(item.source)
            item = replace(item, what=replace(what, partitions={T: planted}))
        seen.append(item)

    emptied_by = follow(replace(of_brokers, seen=tuple(seen))).emptied_by

    assert emptied_by is not None
    assert emptied_by.source in places
    assert why in emptied_by.why


@pytest.mark.slow
def test_a_question_for_the_start_before_that_for_the_end_is_found(of_brokers: Record):
    seen = []
    for item in of_brokers.seen:
        what = item.what
        if isinstance(what, m.RequestSeen) and what.api == "ListOffsets":
            asked = m.OffsetAsked(timestamp=-2, leader_epoch=2)
            item = replace(item, what=replace(what, partitions={T: asked}))
        seen.append(item)

    emptied_by = follow(replace(of_brokers, seen=tuple(seen))).emptied_by

    assert emptied_by is not None
    assert emptied_by.why == "t-0: asked for timestamp -2, possible was -1"
