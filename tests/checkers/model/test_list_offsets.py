"""A follower out of range asks with ListOffsets: requests in flight, for which its thread waits."""

from dataclasses import replace

import pytest

import kchaos
from kchaos.checkers.acts import CutLink, HealLink, Hold, LoseTail, ReleaseHold, StaleRequest
from kchaos.checkers.model import follow, generation_for
from kchaos.checkers.model.broker import control_handling, exchange, offset_reset
from kchaos.checkers.model.follow.observations import (
    OffsetAnswered,
    OffsetAsked,
    Record,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Event, Snapshot
from kchaos.checkers.model.values.log import Log, records_of
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.replica import FetcherState, FetchState, OffsetReset
from kchaos.checkers.model.values.requests import (
    Answer,
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    OffsetAnswer,
    PartitionRequest,
    Received,
    Stage,
    UpdateMetadata,
)
from kchaos.checkers.segments.batch import payload_digest
from kchaos.studies.explore.actions import Action, Ask, Deliver, Elect, Handle, Write
from kchaos.studies.explore.actions import Answer as AnswerOf
from kchaos.studies.explore.bounds import Grain, Machine
from kchaos.studies.explore.machine import actions, next_state
from tests.golden.stored import recorded
from tests.support.machine_steps import after as after_steps
from tests.support.model_timelines import cluster, kill, left_alone, start, state, write

T = kchaos.TopicPartition("t", 0)
OTHER = kchaos.TopicPartition("t", 1)
WITHOUT_EPOCHS = {"message_format": "0.10.2", "unclean_leader_election": True}
RELEASES = ("0.10.2.2", "2.8.2")
OUT_OF_RANGE = FetchAnswer(error="OFFSET_OUT_OF_RANGE")


def elected_with_one_of_three(release: str, *before_the_follower: Event) -> list[Event]:
    """1 leads with one record; 0 has three, truncates to its high watermark and is out of range."""
    return [
        *cluster(release, controller=2, replicas=(0, 1), **WITHOUT_EPOCHS),
        state(0, 0, (0, 1)),
        *(write(f"both-{number}", 0, acks=-1) for number in range(3)),
        *kill(1, high_watermark=3),
        *kill(0, high_watermark=3),
        LoseTail(broker=1, topic="t", partition=0, log_end_offset=1),
        *start(1, release, czxid=201, **WITHOUT_EPOCHS),
        state(1, 1, (1,)),
        *before_the_follower,
        *start(0, release, czxid=202, **WITHOUT_EPOCHS),
    ]


def held(direction: str) -> Hold:
    return Hold(name="asking", api="ListOffsets", source=0, target=1, direction=direction)  # type: ignore[arg-type]


def after(events: list[Event]) -> World:
    return World(left_alone(events))


def names(world: World, broker: int) -> str:
    """The records in a replica's log, by name."""
    known = {
        payload_digest(records_of((f"{name}-0",), ())): name
        for number in range(3)
        for name in (f"both-{number}", f"more-{number}")
    }
    return " ".join(known[batch.payload] for batch in world.known_replica(broker, T).log.batches)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("direction", "waiting", "at_last"),
    [
        # The leader answers when its log has grown beyond the follower's: nothing is cut off.
        ("request", "both-0 both-1 both-2", "both-0 both-1 both-2 more-2"),
        # It answered before: the follower truncates, though the leader has more than that now.
        ("response", "both-0 both-1 both-2", "both-0 more-0 more-1 more-2"),
    ],
)
def test_a_leader_s_end_is_read_when_it_gets_the_question_and_counts_when_its_answer_arrives(
    release: str, direction: str, waiting: str, at_last: str
) -> None:
    events = [
        *elected_with_one_of_three(release, held(direction)),
        *(write(f"more-{number}", 1, acks=-1) for number in range(3)),
    ]

    assert names(after(events), 0) == waiting
    assert names(after([*events, ReleaseHold(name="asking")]), 0) == at_last


@pytest.mark.parametrize("release", RELEASES)
def test_without_anything_in_the_way_a_follower_truncates_to_its_leader_s_end(release: str) -> None:
    events = [*elected_with_one_of_three(release), Snapshot(label="end")]
    prediction = kchaos.predict(events)
    chosen = {snapshot.broker: snapshot.log_end_offset for snapshot in prediction.snapshots["end"]}
    assert (chosen[0], chosen[1]) == (1, 1)
    assert [
        (truncation.broker, truncation.target_offset) for truncation in prediction.truncations
    ] == [(0, 1)]


@pytest.mark.parametrize(("release", "carries"), [("0.10.2.2", False), ("2.8.2", True)])
def test_what_is_asked_and_answered_is_one_value_in_every_stage(
    release: str, carries: bool
) -> None:
    world = after(elected_with_one_of_three(release, held("request")))
    asked = PartitionRequest(
        leader_epoch=1,
        carries_leader_epoch=carries,
        fetch_offset=3,
        requested_epoch=-1,
        timestamp=-1,
    )
    sent = Exchange(api="ListOffsets", asked=((T, asked),), holds=("asking",))
    assert world.exchanges(0, 1) == (sent,)
    thread = world.thread(0, 1)
    assert thread is not None
    reset = OffsetReset(partition=T, leader_epoch=1, timestamp=-1, is_asked=True)
    assert (thread.reset, thread.partitions) == (
        reset,
        ((T, FetchState(fetch_offset=3, state=FetcherState.FETCHING, leader_epoch=1)),),
    )
    assert exchange.question(world, 0, 1, exchange.FETCH) is None

    looked = exchange.look(world, 0, 1, sent)
    answers = ((T, OffsetAnswer(offset=1)),)
    assert looked == replace(sent, stage=Stage.READ, answers=answers)
    answered, is_leader_changed = exchange.count(world, 0, 1, looked)
    assert (answered, is_leader_changed) == (replace(looked, stage=Stage.ANSWERED), False)
    assert exchange.handle(world, 0, 1, answered)

    thread = world.thread(0, 1)
    assert thread is not None
    assert (thread.reset, world.exchanges(0, 1)) == (None, ())
    assert exchange.question(world, 0, 1, exchange.FETCH) is not None
    assert thread.partitions[0][1].fetch_offset == 1


def following(release: str = "2.3.1") -> World:
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
    world.put(("replica", 1, OTHER), replace(world.known_replica(1, T), log=Log()))
    return world


def fetched(world: World, *answers: tuple[kchaos.TopicPartition, Answer]) -> bool:
    """Broker 1 gets an answer to its Fetch; returns whether it changed anything."""
    question = exchange.question(world, 1, 0, exchange.FETCH)
    assert question is not None
    sent = exchange.send(world, 1, 0, question)
    answered = replace(sent, stage=Stage.ANSWERED, answers=answers)
    exchange.change(world, 1, 0, sent, answered)
    return exchange.handle(world, 1, 0, answered)


def asks(world: World) -> Exchange:
    """Broker 1 asks with ListOffsets."""
    question = exchange.question(world, 1, 0, exchange.LIST_OFFSETS)
    assert question is not None
    return exchange.send(world, 1, 0, question)


def listed(world: World, answer: OffsetAnswer) -> bool:
    """Broker 1 asks, and is answered so; returns whether that changed anything."""
    sent = asks(world)
    answered = replace(sent, stage=Stage.ANSWERED, answers=((T, answer),))
    exchange.change(world, 1, 0, sent, answered)
    return exchange.handle(world, 1, 0, answered)


def reset_of(world: World) -> OffsetReset | None:
    thread = world.thread(1, 0)
    assert thread is not None
    return thread.reset


def fetches_from(world: World) -> dict[kchaos.TopicPartition, int]:
    question = exchange.question(world, 1, 0, exchange.FETCH)
    assert question is not None
    return {partition: asked.fetch_offset for partition, asked in question.asked}


def test_a_leader_s_log_may_begin_later_between_the_two_questions() -> None:
    world = following()
    fetched(world, (T, OUT_OF_RANGE))

    assert not listed(world, OffsetAnswer(offset=10))
    assert reset_of(world) == OffsetReset(partition=T, leader_epoch=0, timestamp=-2)

    leader = world.known_replica(0, T)
    world.put_replica(0, T, replace(leader, log=Log(log_start_offset=5, log_end_offset=10)))
    looked = exchange.look(world, 1, 0, asks(world))
    assert looked.answers == ((T, OffsetAnswer(offset=5)),)
    answered, _ = exchange.count(world, 1, 0, looked)
    assert exchange.handle(world, 1, 0, answered)

    after_it = world.known_replica(1, T)
    assert (after_it.log, after_it.entries) == (Log(log_start_offset=5, log_end_offset=5), ())
    assert (reset_of(world), fetches_from(world)[T]) == (None, 5)


def test_within_its_leader_s_range_again_a_follower_fetches_from_where_it_did() -> None:
    world = following()
    before = world.known_replica(1, T)
    fetched(world, (T, OUT_OF_RANGE))

    assert not listed(world, OffsetAnswer(offset=10))
    assert not listed(world, OffsetAnswer(offset=0))

    assert world.known_replica(1, T) == before
    assert (reset_of(world), fetches_from(world)[T]) == (None, 1)


@pytest.mark.parametrize("error", ["NOT_LEADER_FOR_PARTITION", "UNKNOWN_LEADER_EPOCH"])
def test_an_error_lets_the_follower_fetch_from_the_same_offset(error: str) -> None:
    world = following()
    fetched(world, (T, OUT_OF_RANGE))

    assert not listed(world, OffsetAnswer(error=error))

    assert (reset_of(world), fetches_from(world)[T]) == (None, 1)


def test_a_follower_that_is_fenced_loses_the_partition_from_its_thread() -> None:
    world = following("2.1.1")
    leader = world.known_replica(0, T)
    fetched(world, (T, OUT_OF_RANGE))
    world.put_replica(0, T, replace(leader, leader_epoch=1))

    looked = exchange.look(world, 1, 0, asks(world))
    assert looked.answers == ((T, OffsetAnswer(error="FENCED_LEADER_EPOCH")),)
    answered, _ = exchange.count(world, 1, 0, looked)
    assert exchange.handle(world, 1, 0, answered)

    assert list(fetches_from(world)) == [OTHER]


def test_before_the_request_has_the_epoch_a_leader_in_another_one_answers() -> None:
    world = following("2.0.1")
    leader = world.known_replica(0, T)
    fetched(world, (T, OUT_OF_RANGE))
    world.put_replica(0, T, replace(leader, leader_epoch=1))

    assert exchange.look(world, 1, 0, asks(world)).answers == ((T, OffsetAnswer(offset=1)),)


BATCH = PredictedBatch(base_offset=0, last_offset=0, leader_epoch=0, magic=2, payload="b")
RECORDS = FetchAnswer(batches=(BATCH,), high_watermark=1)


@pytest.mark.parametrize(
    ("answers", "ends_before"),
    [(((T, OUT_OF_RANGE), (OTHER, RECORDS)), 0), (((OTHER, RECORDS), (T, OUT_OF_RANGE)), 1)],
)
def test_what_comes_after_it_in_the_same_answer_waits(
    answers: tuple[tuple[kchaos.TopicPartition, Answer], ...], ends_before: int
) -> None:
    world = following()

    fetched(world, *answers)
    assert world.known_replica(1, OTHER).log.log_end_offset == ends_before

    listed(world, OffsetAnswer(offset=1))
    assert world.known_replica(1, OTHER).log.log_end_offset == ends_before
    listed(world, OffsetAnswer(offset=0))
    assert world.known_replica(1, OTHER).log.log_end_offset == 1
    assert fetches_from(world) == {T: 1, OTHER: 1}


def test_a_question_that_nobody_answers_is_given_up_and_the_rest_handled() -> None:
    world = following()
    fetched(world, (T, OUT_OF_RANGE), (OTHER, RECORDS))
    exchange.end(world, 1, 0, asks(world))

    assert exchange.go_on_without_asking(world, 1, 0)

    assert (reset_of(world), fetches_from(world)) == (None, {T: 1, OTHER: 1})


def test_a_broker_that_asks_handles_no_request_that_takes_partitions_from_its_fetchers() -> None:
    world = following()
    told = LeaderAndIsr(states=(state(1, 1, (1,)),))
    assert offset_reset.may_handle(world, 1, told)

    fetched(world, (T, OUT_OF_RANGE))

    assert not offset_reset.may_handle(world, 1, told)
    assert offset_reset.may_handle(world, 1, UpdateMetadata(live=frozenset({0, 1})))
    listed(world, OffsetAnswer(error="NOT_LEADER_FOR_PARTITION"))
    assert offset_reset.may_handle(world, 1, told)


@pytest.mark.parametrize("release", RELEASES)
def test_a_follower_leads_only_once_it_is_answered(release: str) -> None:
    events = [*elected_with_one_of_three(release, held("response")), state(0, 2, (0, 1))]

    waiting = after(events).known_replica(0, T)
    assert (waiting.leader, waiting.leader_epoch, waiting.log.log_end_offset) == (1, 1, 3)
    leading = after([*events, ReleaseHold(name="asking")]).known_replica(0, T)
    assert (leading.leader, leading.leader_epoch, leading.log.log_end_offset) == (0, 2, 1)


def test_a_control_request_that_is_refused_does_not_wait_for_the_answer() -> None:
    world = following()
    broker = world.broker(1)
    assert broker is not None
    world.put_broker(1, replace(broker, controller_epoch=3))
    fetched(world, (T, OUT_OF_RANGE))
    told = LeaderAndIsr(states=(state(1, 1, (1,)),))

    by_epoch = [
        Received(number=(epoch, 0), controller_epoch=epoch, request=told) for epoch in (2, 3, 4)
    ]
    assert [control_handling.handle(world, 1, request) for request in by_epoch] == [
        ((None, "STALE_CONTROLLER_EPOCH"),),
        None,
        None,
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_a_leader_that_is_named_in_a_released_request_leads_only_once_it_is_answered(
    release: str,
) -> None:
    events = [
        *elected_with_one_of_three(release, held("response")),
        Hold(name="news", api="LeaderAndIsr", target=0),
        state(0, 2, (0, 1)),
        ReleaseHold(name="news"),
    ]

    waiting = after(events).known_replica(0, T)
    assert (waiting.leader, waiting.leader_epoch, waiting.log.log_end_offset) == (1, 1, 3)
    leading = after([*events, ReleaseHold(name="asking")]).known_replica(0, T)
    assert (leading.leader, leading.leader_epoch, leading.log.log_end_offset) == (0, 2, 1)


@pytest.mark.parametrize("release", RELEASES)
def test_without_links_a_late_request_waits_too_for_a_thread_that_is_answered(release: str) -> None:
    late = StaleRequest(
        api="LeaderAndIsr",
        broker=0,
        target=0,
        version=0,
        generation=202,
        controller=2,
        controller_epoch=1,
        states=(("t", 0, 0, 5, (0, 1), 1, 0, (0, 1)),),
    )
    events = [*elected_with_one_of_three(release, held("response")), late]

    waiting = after(events).known_replica(0, T)
    assert (waiting.leader, waiting.leader_epoch, waiting.log.log_end_offset) == (1, 1, 3)
    leading = after([*events, ReleaseHold(name="asking")]).known_replica(0, T)
    assert (leading.leader, leading.leader_epoch, leading.log.log_end_offset) == (0, 5, 1)


@pytest.mark.parametrize("release", RELEASES)
def test_a_question_that_ends_in_a_cut_is_asked_anew_after_another_fetch(release: str) -> None:
    cut = [
        *elected_with_one_of_three(release, held("request")),
        CutLink(source=0, target=1),
        ReleaseHold(name="asking"),
    ]

    lost = after(cut)
    assert (lost.exchanges(0, 1), names(lost, 0)) == ((), "both-0 both-1 both-2")
    thread = lost.thread(0, 1)
    assert thread is not None
    assert thread.reset is None
    assert names(after([*cut, HealLink(source=0, target=1)]), 0) == "both-0"


ASK, ANSWER = Ask(follower=1, leader=0), AnswerOf(follower=1, leader=0)
HANDLE, WRITE = Handle(follower=1, leader=0), Write(leader=0)
OUT_OF_RANGE_OF_0 = (
    *(WRITE, Elect(leader=1), Elect(leader=0), ASK, ANSWER),
    *(Deliver(broker=0, leader_epoch=1), Deliver(broker=0, leader_epoch=2)),
    *(HANDLE, ASK, ANSWER, HANDLE, ASK),
)
"""1 has a record that 0 has truncated since, and has sent ListOffsets."""


@pytest.mark.parametrize(
    ("steps", "has_exited"), [((ANSWER, WRITE, HANDLE), True), ((WRITE, ANSWER, HANDLE), False)]
)
def test_the_explorer_lets_the_leader_write_before_and_after_it_answers(
    steps: tuple[Action, ...], has_exited: bool
) -> None:
    machine = Machine(
        generations=dict.fromkeys((0, 1), generation_for("0.10.2.2")),
        records=2,
        leader_epoch=2,
        log_size=2,
        grain=Grain.REQUESTS,
    )
    reached = after_steps(machine, *OUT_OF_RANGE_OF_0)
    for step in steps:
        assert Deliver(broker=1, leader_epoch=1) not in actions(machine, reached)
        reached = next_state(machine, reached, step)
    world = World(reached)
    follower = world.broker(1)
    assert follower is not None
    # A follower that has more than its leader ends itself, where no unclean election is allowed.
    assert follower.has_exited is has_exited
    asked = exchange.question(world, 1, 0, exchange.LIST_OFFSETS)
    timestamps = [] if asked is None else [each.timestamp for _, each in asked.asked]
    assert timestamps == ([] if has_exited else [-2])


@pytest.fixture
def of_brokers() -> Record:
    """`tests/cases/list_offsets_held.py` on real brokers of 2.8.2."""
    return recorded("list-offsets-2.8.2")


@pytest.mark.slow
def test_a_held_answer_of_real_brokers_is_followed_to_its_end(of_brokers: Record) -> None:
    prediction = follow(of_brokers)
    assert (prediction.emptied_by, prediction.limit) == (None, "")
    said = [
        part
        for item in of_brokers.seen
        if isinstance(item.what, RequestSeen | ResponseSeen) and item.what.api == "ListOffsets"
        for part in item.what.partitions.values()
    ]
    assert said == [
        OffsetAsked(timestamp=-1, leader_epoch=2),
        OffsetAnswered(error_code=0, offset=1),
        OffsetAnswered(error_code=0, offset=1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (OffsetAnswered(error_code=0, offset=2), "answered offset 2, possible was"),
        (OffsetAnswered(error_code=6, offset=-1), "error 6, possible was none"),
        (OffsetAnswered(error_code=0, offset=None), "answered offset None, possible was"),
    ],
)
def test_an_answer_that_no_state_gives_is_found_and_named(
    of_brokers: Record, planted: OffsetAnswered, why: str
) -> None:
    seen, places = [], []
    for item in of_brokers.seen:
        what = item.what
        if isinstance(what, ResponseSeen) and what.api == "ListOffsets":
            places.append(item.source)
            item = replace(item, what=replace(what, partitions={T: planted}))
        seen.append(item)

    emptied_by = follow(replace(of_brokers, seen=tuple(seen))).emptied_by

    assert emptied_by is not None
    assert emptied_by.source in places
    assert why in emptied_by.why


@pytest.mark.slow
def test_a_question_for_the_start_before_that_for_the_end_is_found(of_brokers: Record) -> None:
    seen = []
    for item in of_brokers.seen:
        what = item.what
        if isinstance(what, RequestSeen) and what.api == "ListOffsets":
            asked = OffsetAsked(timestamp=-2, leader_epoch=2)
            item = replace(item, what=replace(what, partitions={T: asked}))
        seen.append(item)

    emptied_by = follow(replace(of_brokers, seen=tuple(seen))).emptied_by

    assert emptied_by is not None
    assert emptied_by.why == "t-0: asked for timestamp -2, possible was -1"
