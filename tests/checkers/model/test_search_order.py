"""Order of the search: taken at once, left out, put off; each right whatever is left to come."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from kchaos.checkers.acts import StopBroker, TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker.exchange import count
from kchaos.checkers.model.broker.leader import (
    NO_FETCH_YET,
    become_leader,
    increment_high_watermark,
    update_view,
    wait_no_longer,
)
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    EpochAnswered,
    EpochAsked,
    Fate,
    FetchAnswered,
    FetchAsked,
    IsrAsked,
    IsrWanted,
    Observation,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.follow.pruning import needed, step_at_once
from kchaos.checkers.model.follow.reachable import is_out_of_reach, never_answered
from kchaos.checkers.model.follow.search import _Node, _Search, _Step
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.state.state import EMPTY
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    Decided,
    Produce,
)
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import PredictedProduce
from kchaos.checkers.model.values.replica import (
    FetcherState,
    FetcherThread,
    FetchState,
    FollowerView,
    Replica,
    Role,
)
from kchaos.checkers.model.values.requests import (
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    PartitionRequest,
    Received,
    Stage,
    StopReplica,
    UpdateMetadata,
)
from kchaos.checkers.record import record_of
from tests.golden.stored import CASES, unpacked
from tests.support.model_timelines import start, state, write
from tests.support.releases import each_release

T = TopicPartition("t", 0)
U = TopicPartition("t", 1)
FENCED = ErrorCode.FENCED_LEADER_EPOCH
NUMBER = (7, 1)
TOLD = UpdateMetadata(live=frozenset({0, 1}), told=frozenset({T}))
RECEIVED = Received(number=NUMBER, controller_epoch=1, request=TOLD)
ANSWERED = ControlAnswered(number=NUMBER, api="UpdateMetadata", broker=0, error_code=0, errors={})
ASKED = PartitionRequest(
    leader_epoch=1, carries_leader_epoch=False, fetch_offset=0, requested_epoch=-1
)
FETCH = Exchange(api="Fetch", asked=((T, ASKED),), stage=Stage.ARRIVED, number=NUMBER)
HANDLES_FIRST = "the fetcher has an answer to handle first"


def to_come(*items: Observation | StopBroker | Produce) -> Lookahead:
    return Lookahead(Record(seen=tuple(Seen(what=item, time=1.0) for item in items), decided=()))


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
    assert [each.errors for each in step.get(("control", 0))] == [((None, ""),)]


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
    changes: dict[Any, object] = {("control", 0): (handled, replace(RECEIVED, number=(7, 2)))}
    left = needed(changes, to_come())
    assert left == {("control", 0): (replace(RECEIVED, number=(7, 2)),)}
    assert needed(changes, to_come(ANSWERED)) == changes


@pytest.mark.parametrize(
    ("exchange", "is_left_out"),
    [
        (replace(FETCH, is_awaited=False, stage=Stage.WAITING), True),
        (replace(FETCH, is_awaited=False, asked=()), True),
        (replace(FETCH, is_awaited=False), False),
        (replace(FETCH, stage=Stage.WAITING), False),
    ],
    ids=["counted", "asks nothing", "not counted yet", "awaited"],
)
def test_a_given_up_request_is_left_out_once_its_leader_has_counted_it(
    exchange: Exchange, *, is_left_out: bool
) -> None:
    left = needed({("exchanges", 1, 0): (exchange,)}, to_come())
    assert left == {("exchanges", 1, 0): None if is_left_out else (exchange,)}


def reply(*, high_watermark: int, last_offset: int | None, error_code: int = 0) -> ResponseSeen:
    said = FetchAnswered(
        error_code=error_code,
        high_watermark=high_watermark,
        base_offset=None if last_offset is None else 0,
        last_offset=last_offset,
    )
    return ResponseSeen(
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
    seen: ResponseSeen, *, is_missed: bool
) -> None:
    world = cluster()
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    happen(world, write("m", 0), {})
    world.put_exchanges(1, 0, (FETCH,))
    changes = {("exchanges", 1, 0): (FETCH,)}
    assert is_out_of_reach(world.state(EMPTY), changes, to_come(seen), 0) is is_missed


@pytest.mark.parametrize(
    ("asked_in", "error_code", "is_missed"), [(1, 0, True), (1, FENCED, False), (2, 0, False)]
)
def test_a_leader_in_a_newer_leader_epoch_takes_no_fetch_of_an_older_one(
    asked_in: int, error_code: int, *, is_missed: bool
) -> None:
    """Though its leader has heard of more that it has not handled yet."""
    world = cluster("2.8.2")
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, Replica())
    become_leader(world, 0, T, state(0, 2, (0,)))
    waiting = LeaderAndIsr(states=(state(0, 2, (0,)),))
    world.put(("control", 0), (replace(RECEIVED, request=waiting),))
    fetch = replace(ASKED, leader_epoch=asked_in, carries_leader_epoch=True)
    exchange = replace(FETCH, asked=((T, fetch),))
    world.put_exchanges(1, 0, (exchange,))
    seen = reply(high_watermark=0, last_offset=None, error_code=error_code)
    changes = {("exchanges", 1, 0): (exchange,)}
    assert is_out_of_reach(world.state(EMPTY), changes, to_come(seen), 0) is is_missed


def fetching(*, isr: tuple[int, ...] = (0,), release: str = "2.0.1") -> World:
    """Broker 0 leads t-0 with one record; broker 1 has it, and fetches what comes next."""
    world = cluster(release)
    world.put(("assignment", T), (0, 1))
    for broker in (0, 1):
        world.put_replica(broker, T, Replica())
    become_leader(world, 0, T, state(0, 1, isr))
    happen(world, write("m", 0), {})
    led = world.known_replica(0, T)
    world.put_replica(1, T, replace(led, role=Role.FOLLOWER, views=()))
    fetch = FetchState(fetch_offset=1, state=FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, FetcherThread(partitions=((T, fetch),)))
    return world


GONE = Decided(what=BrokerUnregistered(broker=1), time=4.0)
BACK = Decided(what=BrokerRegistered(broker=1, czxid=200), time=4.5)
GONE_LATER = replace(GONE, time=6.0)


def test_what_is_unlikely_waits_until_nothing_else_is_left() -> None:
    search = _Search(Record(seen=(), decided=()), {}, 1)
    first = _Step(_Node(0, 0, EMPTY), (), None)
    step = World(EMPTY)
    step.put(("elected",), 0)
    assert not search._step(first, step, 0, 0).is_late
    step.is_unlikely = True
    assert search._step(first, step, 0, 0).is_late


ASKS_ON = PartitionRequest(
    leader_epoch=1, carries_leader_epoch=False, fetch_offset=1, requested_epoch=-1
)
WAITING = replace(FETCH, asked=((T, ASKS_ON),), stage=Stage.WAITING, number=(7, 2))


@pytest.mark.parametrize(
    ("told", "is_possible"),
    [
        (reply(high_watermark=1, last_offset=0), True),
        (reply(high_watermark=0, last_offset=0), False),
        (replace(reply(high_watermark=0, last_offset=0), number=(8, 1)), True),
    ],
    ids=["told before", "news", "told on another connection"],
)
def test_a_wait_ends_unseen_only_with_the_high_watermark_that_was_told_before(
    told: ResponseSeen, *, is_possible: bool
) -> None:
    world = fetching()
    world.put_exchanges(1, 0, (WAITING,))
    steps = list(internal_steps(world.state(EMPTY), to_come(told), 1, 0))
    assert [step.exchanges(1, 0) for step in steps] == [()] * is_possible


@pytest.mark.parametrize(("release", "is_possible"), [("2.5.1", True), ("2.6.3", False)])
def test_a_fetch_that_finds_nothing_may_be_answered_at_once_with_what_was_told_before(
    release: str, *, is_possible: bool
) -> None:
    world = fetching(release=release)
    world.put_exchanges(1, 0, (replace(WAITING, stage=Stage.ARRIVED),))
    told = to_come(reply(high_watermark=1, last_offset=0))
    steps = internal_steps(world.state(EMPTY), told, 1, 0)
    assert (() in [step.exchanges(1, 0) for step in steps]) is is_possible


@pytest.mark.parametrize("answers_others", [True, False])
def test_a_fetch_that_finds_records_of_internal_topics_alone_is_answered_with_what_was_first_read(
    *, answers_others: bool
) -> None:
    world = fetching(isr=(0, 1), release="2.8.2")
    world.put_exchanges(1, 0, (replace(WAITING, stage=Stage.ARRIVED),))
    nothing = reply(high_watermark=0, last_offset=None)
    seen = replace(nothing, number=(7, 2), answers_others=answers_others)
    steps = internal_steps(world.state(EMPTY), to_come(seen), 0, 0)
    answered = [
        step.known_replica(0, T).high_watermark
        for step in steps
        for exchange in step.exchanges(1, 0)
        if exchange.stage is Stage.ANSWERED
    ]
    assert answered == [1] * answers_others


@pytest.mark.parametrize(
    ("behind", "outcome", "read"),
    [({}, "ok", ["a", "b"]), ({"b": ("a",)}, "ok", ["a"]), ({"b": ("a",)}, "info", ["a", "b"])],
    ids=["two connections", "one connection", "never answered"],
)
def test_a_broker_reads_a_connection_s_next_produce_when_it_has_answered_the_one_before(
    behind: dict[str, tuple[str, ...]], outcome: Literal["ok", "info"], read: list[str]
) -> None:
    def possible(world: World, lookahead: Lookahead) -> list[str]:
        waiting = {request.operation for request in world.get(("sent",))}
        return [
            *itertools.chain.from_iterable(
                waiting - {request.operation for request in after.get(("sent",)) or ()}
                for after in internal_steps(world.state(EMPTY), lookahead, 0, 0)
            )
        ]

    world = fetching()
    world.put_thread(1, 0, None)
    for operation in ("a", "b"):
        world.answer(PredictedProduce(operation=operation, acknowledged=None, base_offset=-1))
    world.put(("sent",), (write("a", 0, acks=-1), write("b", 0, acks=-1)))
    answered = ClientAnswered(operation="a", outcome=outcome, base_offset=-1, error="")
    record = Record(seen=(Seen(what=answered, time=1.0),), decided=(), behind=behind)

    assert possible(world, Lookahead(record)) == read

    world.answer(PredictedProduce(operation="a", acknowledged=True, base_offset=1))
    assert possible(world, Lookahead(record)) == ["a", "b"]


def fetches(fetch_offset: int, last_fetched_epoch: int | None) -> RequestSeen:
    """Broker 1 asks its next leader."""
    anew = FetchAsked(
        fetch_offset=fetch_offset, leader_epoch=2, last_fetched_epoch=last_fetched_epoch
    )
    return replace(asked(8, 0), partitions={T: anew}, is_full=True)


def asked(connection: int, number: int, fate: Fate = Fate.ARRIVES) -> RequestSeen:
    return RequestSeen(
        number=(connection, number), fate=fate, api="Fetch", follower=1, leader=0, partitions={}
    )


def test_a_fetcher_has_sent_nothing_between_requests_whose_numbers_follow_each_other() -> None:
    waits, other = asked(7, 4, Fate.WAITS), asked(8, 5)
    lookahead = to_come(asked(7, 1), asked(7, 3), waits, other, asked(7, 4), asked(8, 6))
    may_have = [lookahead.may_have_repeated(1, 0, index) for index in range(7)]
    # After the last nobody knows; one request was before 1, and one between 1 and 3.
    assert may_have == [True, True, False, False, False, False, True]
    assert not to_come(asked(7, 0)).may_have_repeated(1, 0, 0)


def fetch_from_0(leader_epoch: int) -> FetchAsked:
    return FetchAsked(fetch_offset=0, leader_epoch=leader_epoch, last_fetched_epoch=None)


def waits_for_1(*messages: Seen, lag_s: float) -> list[int]:
    """The high watermarks that leader 0 may come to, before the last of the messages."""
    world = cluster()
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    update_view(world, 0, T, 1, 0)
    happen(world, write("m", 0), {})
    assert world.known_replica(0, T).high_watermark == 0
    lookahead = Lookahead(Record(seen=messages, decided=(), lag_s=lag_s))
    reached = []
    for after in internal_steps(world.state(EMPTY), lookahead, len(messages) - 1, 0):
        if after.is_unlikely:
            increment_high_watermark(after, 0, T)
            reached.append(after.known_replica(0, T).high_watermark)
    return reached


def fetched(number: int, time: float, fate: Fate = Fate.ARRIVES) -> Seen:
    return Seen(what=replace(asked(7, number, fate), partitions={T: fetch_from_0(1)}), time=time)


def test_a_leader_waits_for_a_follower_outside_the_isr_only_as_long_as_it_may_lag() -> None:
    messages = (fetched(1, 1.0), Seen(what=asked(7, 2), time=11.0))
    assert waits_for_1(*messages, lag_s=9.5) == [1]
    assert waits_for_1(*messages, lag_s=10.5) == []


def test_a_fetch_that_is_held_counts_the_follower_as_caught_up_when_it_arrives() -> None:
    waits = Fate.WAITS
    messages = (fetched(1, 1.0), fetched(2, 2.0, waits), fetched(2, 3.0), fetched(3, 4.0, waits))
    assert waits_for_1(*messages, fetched(3, 11.0), lag_s=9.5) == [1]
    assert waits_for_1(*messages, fetched(3, 11.0), lag_s=10.5) == []


@pytest.mark.slow
def test_a_stored_run_is_explained_only_by_a_leader_that_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(RunEvidence(unpacked("caught_up_lapses", tmp_path, runs=CASES)))

    own = follow(record)
    monkeypatch.setattr(Lookahead, "may_lag_too_long", lambda *_: False)
    waits_without_limit = follow(record)

    assert (own.limit, own.emptied_by) == ("", None)
    assert waits_without_limit.limit == ""
    assert waits_without_limit.emptied_by is not None


def told_at(
    index: int, *questions: Observation | StopBroker, leader: int = 0, stops: bool = False
) -> list[bool]:
    """Whether what broker 1 does with a LeaderAndIsr of epoch 2 is unlikely before these.

    Or with a StopReplica.
    """
    world = cluster("2.8.2")
    world.put(("assignment", T), (0, 1))
    happen(world, state(0, 1, (0, 1)), {})
    led = LeaderAndIsr(states=(state(leader, 2, (0, 1)),))
    request = StopReplica(partition=T) if stops else led
    if stops:
        world.put_replica(1, T, Replica())
    world.put(("control", 1), (replace(RECEIVED, controller_epoch=1, request=request),))
    world.put(("leaders", 1), (0,))
    before = world.state(EMPTY)
    lookahead = to_come(*questions)
    steps = [
        after
        for after in internal_steps(before, lookahead, index, 0)
        if after.get(("control", 1))[0].errors is not None
    ]
    return [after.is_unlikely for after in steps]


ENDS = StopBroker(broker=1, clean=True)


@pytest.mark.parametrize(
    ("later", "fetches"),
    [
        ((ENDS,), [False, True]),
        ((replace(ENDS, clean=False), ENDS), [True]),
        ((replace(ENDS, broker=0),), [True]),
        ((replace(asked(7, 1), partitions={T: fetch_from_0(2)}), ENDS), [True]),
        ((replace(asked(7, 1), partitions={T: fetch_from_0(1)}), ENDS), [False, True]),
        ((ENDS, replace(asked(7, 1), partitions={T: fetch_from_0(2)})), [False, True]),
        ((*(replace(asked(7, n), partitions={T: fetch_from_0(1)}) for n in (1, 2)), ENDS), [True]),
    ],
    ids=[
        *("it ends", "it is killed", "another ends", "it fetches", "it fetched"),
        *("it fetches when it is back", "it goes on"),
    ],
)
def test_a_broker_that_is_shut_down_in_order_may_fetch_nothing_of_what_it_is_to_follow(
    later: tuple[RequestSeen | StopBroker, ...], fetches: list[bool]
) -> None:
    world = cluster("2.8.2")
    follower = world.broker(1)
    assert follower is not None
    world.put_broker(1, replace(follower, live=frozenset({0, 1})))
    world.put(("assignment", T), (0, 1))
    world.put_replica(1, T, Replica())
    led = LeaderAndIsr(states=(state(0, 2, (0, 1)),))
    world.put(("control", 1), (replace(RECEIVED, request=led),))
    steps = [
        step
        for step in internal_steps(world.state(EMPTY), to_come(*later), 0, 0)
        if step.get(("control", 1))[0].errors is not None
    ]
    assert [step.thread(1, 0) is not None for step in steps] == fetches
    assert {step.known_replica(1, T).role for step in steps} == {Role.FOLLOWER}


def test_a_broker_leaves_a_leader_after_the_unseen_fetch_whose_answer_is_seen() -> None:
    answered = replace(reply(high_watermark=0, last_offset=None), number=(9, 5))
    handled = ControlAnswered(number=NUMBER, api="LeaderAndIsr", broker=1, error_code=0, errors={})

    assert told_at(0, answered, handled, leader=-1) == [True]
    assert told_at(0, answered, handled, leader=0) == [False]
    assert told_at(0, replace(answered, partitions={}), handled, leader=-1) == [False]
    assert told_at(1, answered, handled, leader=-1) == [False]
    assert told_at(0, handled, answered, leader=-1) == [False]


def test_a_follower_stops_fetching_after_it_has_learnt_what_it_ends_with() -> None:
    ends = StopBroker(broker=1, clean=True, checkpointed=(("t", 0, 5),))
    told = ControlSent(
        number=(7, 2),
        api="LeaderAndIsr",
        controller=1,
        controller_epoch=1,
        broker=1,
        states=(state(0, 3, (0, 1)),),
        told=frozenset({T}),
    )
    assert told_at(0, ends, stops=True) == [True]
    assert told_at(0, replace(ends, checkpointed=(("t", 0, 0),)), stops=True) == [False]
    assert told_at(0, told, ends, stops=True) == [False]
    assert told_at(0, replace(ends, broker=0), stops=True) == [False]
    assert told_at(1, ends, stops=True) == [False]


def epoch_asked(number: int, *partitions: int, connection: int = 1) -> RequestSeen:
    said = {
        TopicPartition("t", partition): EpochAsked(requested_epoch=0, leader_epoch=None)
        for partition in partitions
    }
    return replace(asked(connection, number), api="OffsetForLeaderEpoch", partitions=said)


def epoch_answered(number: int, **error_codes: int) -> ResponseSeen:
    said = {
        TopicPartition("t", int(name[1:])): EpochAnswered(
            error_code=error_code, leader_epoch=0, end_offset=0
        )
        for name, error_code in error_codes.items()
    }
    waiting = replace(reply(high_watermark=0, last_offset=None), number=(1, number))
    return replace(waiting, api="OffsetForLeaderEpoch", partitions=said)


@pytest.mark.parametrize(
    ("before", "backing_off"),
    [
        ((epoch_asked(1, 1),), {1}),
        ((epoch_asked(1, 1), epoch_asked(2, 2)), {1, 2}),
        ((epoch_asked(1, 1, 2), epoch_answered(1, p1=6, p2=0)), {1}),
        ((epoch_asked(1, 1), epoch_answered(1, p1=0)), set()),
        ((epoch_asked(1, 1), epoch_asked(2, 2), epoch_answered(2, p2=0)), set()),
        ((replace(epoch_asked(1, 1), leader=2, fetcher=0, follower=2),), set()),
    ],
    ids=["no answer", "none twice", "an error", "an answer", "an answer since", "of another pair"],
)
def test_a_fetcher_leaves_out_what_it_had_no_answer_to(
    before: tuple[Observation, ...], backing_off: set[int]
) -> None:
    lookahead = to_come(*before, epoch_asked(9, 3))
    assert {partition for _, partition in lookahead.backing_off[1, 9]} == backing_off


def fetched_on(connection: int, number: int, *partitions: int) -> RequestSeen:
    said = {TopicPartition("t", partition): fetch_from_0(0) for partition in partitions}
    return replace(asked(connection, number), partitions=said)


@pytest.mark.parametrize(
    ("before", "backing_off"),
    [
        ((epoch_asked(1, 1), epoch_answered(1, p1=0)), {1}),
        ((fetched_on(1, 1, 1, 2),), {1, 2}),
        ((fetched_on(1, 1, 1), asked(1, 2)), {1}),
        ((fetched_on(1, 1, 1, 2), fetched_on(2, 2, 1)), {2}),
        ((fetched_on(1, 1, 1, 2), fetched_on(3, 2, 4)), {4}),
    ],
    ids=["a question", "a Fetch", "in its session", "asked about since", "another between"],
)
def test_a_fetcher_that_connects_anew_leaves_out_what_it_had(
    before: tuple[Observation, ...], backing_off: set[int]
) -> None:
    lookahead = to_come(*before, epoch_asked(9, 3, connection=2))
    assert {partition for _, partition in lookahead.backing_off[2, 9]} == backing_off


@pytest.mark.parametrize(
    ("late", "repeats"),
    [((7, 9), True), ((9, 0), False)],
    ids=["on the connection before", "on a later connection"],
)
def test_a_late_fetch_of_an_earlier_connection_is_not_what_the_fetcher_asked_last(
    late: tuple[int, int], *, repeats: bool
) -> None:
    fetches = (
        replace(asked(8, 0), partitions={T: fetch_from_0(2)}),
        replace(asked(*late, Fate.ABANDONED), partitions={T: fetch_from_0(1)}),
    )
    again = replace(ASKED, leader_epoch=2)
    assert to_come(*fetches).has_asked_so(1, 0, T, len(fetches), again) == repeats


@pytest.mark.parametrize(
    ("session", "is_possible"), [(None, True), ({T}, True), ({T, U}, False), (set(), False)]
)
def test_a_fetch_that_leaves_a_partition_of_its_session_out_is_seen(
    session: set[TopicPartition] | None, *, is_possible: bool
) -> None:
    world = fetching(release="2.8.2")
    thread = world.thread(1, 0)
    assert thread is not None
    kept = None if session is None else frozenset(session)
    world.put_thread(1, 0, replace(thread, session=kept))
    before = replace(asked(7, 1), partitions={T: replace(fetch_from_0(1), fetch_offset=1)})
    answer = replace(reply(high_watermark=1, last_offset=None), number=(7, 9))
    steps = internal_steps(world.state(EMPTY), to_come(before, answer), 1, 0)
    assert [step.exchanges(1, 0) != () for step in steps] == [True] * is_possible


@pytest.mark.parametrize("stage", [Stage.ARRIVED, Stage.READ])
@pytest.mark.parametrize(
    ("release", "third", "is_stuck"),
    [
        ("2.0.1", None, True),
        ("2.0.1", (), True),
        ("2.0.1", (0, 1, 2), False),
        # A Fetch that finds nothing is answered at once with what was read before.
        ("2.5.1", None, False),
    ],
    ids=["two brokers", "a third outside the ISR", "a third in the ISR", "answered at once"],
)
def test_a_fetch_that_moves_the_high_watermark_as_it_is_counted_is_not_answered_unseen(
    release: str, third: tuple[int, ...] | None, stage: Stage, *, is_stuck: bool
) -> None:
    world = fetching(isr=(0, 1), release=release)
    led = world.known_replica(0, T)
    if third is not None:
        isr = third or led.isr
        views = led.views_with(2, FollowerView(last_leader_end_offset=NO_FETCH_YET))
        world.put_replica(0, T, replace(led, isr=isr, maximal_isr=isr, views=views))
    nothing = FetchAnswer(high_watermark=0) if stage is Stage.READ else None
    answers = () if nothing is None else ((T, nothing),)
    exchange = replace(WAITING, stage=stage, answers=answers)
    world.put_exchanges(1, 0, (exchange,))
    fetch = replace(asked(7, 2), partitions={T: fetch_from_0(1)}, version=8)
    lookahead = to_come(reply(high_watermark=0, last_offset=0), fetch, asked(7, 3))

    why = never_answered(world.state(EMPTY), {("exchanges", 1, 0): (exchange,)}, lookahead, 2)

    said = "broker 0 would have told broker 1 a high watermark above 0 of t-0 in answer to request"
    assert (said in why) is is_stuck


def test_what_was_counted_before_of_a_fetch_moves_the_high_watermark_no_more() -> None:
    """Broker 2 kept it back as t-0 was counted, and is waited for no longer, while t-1 is left."""
    world = fetching(isr=(0, 1))
    for event in start(2, "2.0.1"):
        happen(world, event, {})
    world.put(("assignment", T), (0, 1, 2))
    led = world.known_replica(0, T)
    behind = FollowerView(log_end_offset=0, is_caught_up=True, last_leader_end_offset=1)
    world.put_replica(0, T, replace(led, views=led.views_with(2, behind)))
    world.put_replica(0, U, replace(led, log=Log(), high_watermark=0))
    nothing = FetchAnswer(high_watermark=0)
    asks = ((T, ASKS_ON), (U, ASKED))
    looked = replace(WAITING, asked=asks, stage=Stage.READ, answers=((T, nothing), (U, nothing)))
    world.put_exchanges(1, 0, (looked,))
    counted, _ = count(world, 1, 0, looked, but={U})
    wait_no_longer(world, 0, T, 2)
    fetch = replace(asked(7, 2), partitions={T: fetch_from_0(1)}, version=8)
    lookahead = to_come(reply(high_watermark=0, last_offset=0), fetch, asked(7, 3))

    assert never_answered(world.state(EMPTY), {("exchanges", 1, 0): (counted,)}, lookahead, 2) == ""
    waits, _ = count(world, 1, 0, counted)
    assert (waits.stage, world.known_replica(0, T).high_watermark) == (Stage.WAITING, 0)


@pytest.mark.parametrize(("release", "waits"), [("2.0.1", True), ("2.8.2", False)])
def test_a_leader_that_waits_for_zookeeper_with_a_partition_has_counted_another(
    release: str, *, waits: bool
) -> None:
    """Broker 1 is to join the ISR of t-1; from KIP-497 on a leader asks its controller and goes on.

    Then the high watermark of t-0 moves, while of t-1 nothing is known of the follower.
    """
    world, other = fetching(isr=(0, 1), release=release), TopicPartition("t", 1)
    led = world.known_replica(0, T)
    world.put(("assignment", other), (0, 1))
    world.put_replica(0, other, replace(led, isr=(0,), maximal_isr=(0,), high_watermark=1))
    request = replace(WAITING, asked=((T, ASKS_ON), (other, ASKS_ON)), stage=Stage.ARRIVED)
    world.put_exchanges(1, 0, (request,))

    counted = [
        (
            step.known_replica(0, T).high_watermark,
            step.known_replica(0, other).view(1),
            exchange.stage,
        )
        for step in internal_steps(world.state(EMPTY), to_come(), 0, 0)
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]

    assert counted == [(1, led.view(1), Stage.READ)] * waits


V = TopicPartition("t", 2)


def two_fetch(
    *, stage: Stage, release: str = "2.8.2", fetched: tuple[TopicPartition, ...] = (T, U, V)
) -> World:
    """Broker 0 leads t-0, t-1 and t-2, each with a record that the high watermark has not reached.

    It is about to count a Fetch of broker 1 that moves the three, and has another of broker 2.
    """
    world = fetching(isr=(0, 1), release=release)
    for event in start(2, release):
        happen(world, event, {})
    led = world.known_replica(0, T)
    views = led.views_with(2, FollowerView(last_leader_end_offset=NO_FETCH_YET))
    for partition in (T, U, V):
        world.put(("assignment", partition), (0, 1, 2))
        world.put_replica(0, partition, replace(led, views=views))
    asks = tuple((partition, ASKS_ON) for partition in (T, U, V))
    world.put_exchanges(1, 0, (replace(WAITING, asked=asks, stage=Stage.ARRIVED),))
    other = tuple((partition, ASKS_ON) for partition in fetched)
    nothing = tuple((partition, FetchAnswer(high_watermark=0)) for partition in fetched)
    answers = nothing if stage is Stage.READ else ()
    waiting = replace(FETCH, asked=other, stage=stage, number=(8, 1), answers=answers)
    world.put_exchanges(2, 0, (waiting,))
    return world


TWO_ASKED = (asked(7, 2), replace(asked(8, 1), follower=2))


def high_watermarks_told(*told: int) -> ResponseSeen:
    said = {
        partition: FetchAnswered(
            error_code=0, high_watermark=high_watermark, base_offset=None, last_offset=None
        )
        for partition, high_watermark in zip((T, U, V), told, strict=False)
    }
    return replace(
        reply(high_watermark=0, last_offset=None), number=(8, 1), follower=2, partitions=said
    )


def is_explained(world: World, *items: Observation | Produce) -> bool:
    """Tell whether a search from a state on, which has seen two asked, sees these too."""
    seen = tuple(Seen(what=item, time=1.0) for item in (*TWO_ASKED, *items))
    search = _Search(Record(seen=seen, decided=()), {}, 1000)
    begin = _Step(_Node(len(TWO_ASKED), 0, world.state(EMPTY)), (), None)
    steps, visited = [begin], {begin.node}
    while steps:
        for step in search._next(steps.pop()):
            if step.node.seen == len(seen):
                return True
            if step.node not in visited and not step.dead_end:
                visited.add(step.node)
                steps.append(step)
    return False


@pytest.mark.parametrize("release", each_release(["1.1.1", "2.5.1", "2.8.2", "3.9.1"]))
@pytest.mark.parametrize("stage", [Stage.ARRIVED, Stage.WAITING])
def test_a_fetch_may_be_told_what_another_has_moved_by_then(release: str, stage: Stage) -> None:
    """Its leader has counted any of three partitions of the other, and not the rest.

    From 2.4.0 to 2.5.1 the thread that counts ends the wait of a Fetch itself.
    """
    for told in itertools.product((0, 1), repeat=3):
        world = two_fetch(stage=stage, release=release)
        assert is_explained(world, high_watermarks_told(*told)), told


@pytest.mark.parametrize(
    ("told", "left"),
    [((0, 0, 1), [{T, U}]), ((0, 1, 1), [{T}]), ((1, 1, 1), []), ((0, 0, 0), [])],
    ids=["two-left", "one-left", "all-told", "none-told"],
)
def test_of_a_fetch_only_that_is_left_to_count_which_another_is_not_told_yet(
    told: tuple[int, int, int], left: list[set[TopicPartition]]
) -> None:
    """What it is told of all three was so at one moment, as it waited."""
    before = two_fetch(stage=Stage.WAITING)
    steps = internal_steps(
        before.state(EMPTY), to_come(*TWO_ASKED, high_watermarks_told(*told)), 2, 0
    )
    uncounted = [
        {T, U, V} - exchange.counted
        for step in steps
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]
    assert uncounted == left


@pytest.mark.parametrize(("stage", "left"), [(Stage.ARRIVED, [{U}]), (Stage.WAITING, [])])
def test_a_fetch_that_waits_is_told_nothing_of_what_was_counted_and_did_not_move(
    stage: Stage, left: list[set[TopicPartition]]
) -> None:
    """Of t-1 alone the high watermark moves: to have counted the others shows to nobody else."""
    before = two_fetch(stage=stage)
    for partition in (T, V):
        led = before.known_replica(0, partition)
        before.put_replica(0, partition, replace(led, high_watermark=1))
    steps = internal_steps(before.state(EMPTY), to_come(*TWO_ASKED), 2, 0)
    uncounted = [
        {T, U, V} - exchange.counted
        for step in steps
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]
    assert uncounted == left


def test_of_a_fetch_the_rest_is_counted_in_parts_again() -> None:
    before = two_fetch(stage=Stage.WAITING)
    lookahead = to_come(*TWO_ASKED)
    (counted,) = (
        step.state(before.state(EMPTY))
        for step in internal_steps(before.state(EMPTY), lookahead, 2, 0)
        for exchange in step.exchanges(1, 0)
        if exchange.counted == {T}
    )
    again = [
        exchange.counted
        for step in internal_steps(counted, lookahead, 2, 0)
        for exchange in step.exchanges(1, 0)
        if len(exchange.counted) > 1
    ]
    assert again == [{T, V}, {T, U}]


@pytest.mark.parametrize(
    ("release", "told", "sent_before", "is_possible"),
    [
        ("2.8.2", (1,), True, True),
        ("2.8.2", (1,), False, False),
        ("3.3.2", (1,), False, True),
        ("3.9.1", (1,), False, True),
        # It has not counted t-2 either, which it has read.
        ("3.9.1", (1, 0, 0), False, True),
    ],
)
def test_a_leader_may_count_a_partition_before_it_reads_another(
    release: str, told: tuple[int, ...], *, sent_before: bool, is_possible: bool
) -> None:
    """Broker 2 is told what broker 1's Fetch has moved; then broker 1 gets what was sent later.

    From KAFKA-13837 on that is one Fetch; before, a leader reads all partitions first.
    """
    earlier = high_watermarks_told(*told)
    later = replace(write("n", 0), partition=1)
    said = high_watermarks_told(0, 0, 0).partitions
    read = FetchAnswered(error_code=0, high_watermark=0, base_offset=1, last_offset=1)
    answer = replace(earlier, number=(7, 2), follower=1, partitions={**said, U: read})
    items = (later, earlier, answer) if sent_before else (earlier, later, answer)
    fetched = (T, U, V)[: len(told)]

    world = two_fetch(stage=Stage.WAITING, release=release, fetched=fetched)

    assert is_explained(world, *items) is is_possible


@pytest.mark.parametrize(
    ("release", "is_possible"), [("2.8.2", False), ("3.3.2", True), ("3.9.1", True)]
)
def test_a_leader_may_ask_for_an_isr_before_it_reads_another_partition(
    release: str, *, is_possible: bool
) -> None:
    """It asks for the ISR of t-0 as it counts that; then broker 1 gets what t-1 got later."""
    world = two_fetch(stage=Stage.WAITING, release=release, fetched=(T,))
    world.put_exchanges(2, 0, ())
    led = replace(world.known_replica(0, T), high_watermark=1)
    for partition in (U, V):
        world.put_replica(0, partition, led)
    world.put_replica(0, T, replace(led, isr=(0,), maximal_isr=(0,)))
    leader = world.broker(0)
    assert leader is not None
    world.put_broker(0, replace(leader, live=frozenset({0, 1, 2})))
    happen(world, replace(write("v", 0), partition=2), {})
    wanted = IsrAsked(leader=0, isrs={T: IsrWanted(leader_epoch=1, isr=(0, 1))})
    told = replace(high_watermarks_told(1, 1, 1), number=(7, 2), follower=1)
    read = FetchAnswered(error_code=0, high_watermark=1, base_offset=1, last_offset=1)
    answer = replace(told, partitions={**told.partitions, U: read, V: read})

    is_so = is_explained(world, wanted, replace(write("n", 0), partition=1), answer)

    assert is_so is is_possible


def test_the_parts_of_a_fetch_do_not_double_with_each_partition() -> None:
    """A follower that is back joins the ISR of ten partitions by one Fetch, before KIP-497."""
    world = fetching(isr=(0, 1), release="2.0.1")
    led = replace(world.known_replica(0, T), isr=(0,), maximal_isr=(0,), high_watermark=1)
    partitions = [TopicPartition("t", number) for number in range(10)]
    for partition in partitions:
        world.put(("assignment", partition), (0, 1))
        world.put_replica(0, partition, led)
    asks = tuple((partition, ASKS_ON) for partition in partitions)
    world.put_exchanges(1, 0, (replace(WAITING, asked=asks, stage=Stage.ARRIVED),))

    parts = [
        exchange.counted
        for step in internal_steps(world.state(EMPTY), to_come(asked(7, 2)), 1, 0)
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]

    assert {len(part) for part in parts} == {9}
    assert len(parts) == 10


@pytest.mark.parametrize("release", ["2.0.1", "2.8.2"])
@pytest.mark.parametrize(
    ("fetched", "stage", "is_raced"),
    [
        (U, Stage.ARRIVED, True),
        (U, Stage.READ, True),
        (U, Stage.WAITING, True),
        (V, Stage.ARRIVED, False),
    ],
    ids=["it came", "the leader has looked", "it waits", "it asks for another"],
)
def test_a_fetch_of_another_may_come_before_the_last_partition_of_one_is_counted(
    release: str, fetched: TopicPartition, stage: Stage, *, is_raced: bool
) -> None:
    """A leader counts one partition of a Fetch after another, each for itself.

    Broker 2 is told the high watermark that t-0 has since then, and joins the ISR of t-1 with an
    offset that is below what the high watermark of t-1 is about to be.
    """
    world = fetching(isr=(0, 1), release=release)
    for event in start(2, release):
        happen(world, event, {})
    led = world.known_replica(0, T)
    world.put(("assignment", U), (0, 1, 2))
    world.put_replica(0, U, led)
    request = replace(WAITING, asked=((T, ASKS_ON), (U, ASKS_ON)), stage=Stage.ARRIVED)
    world.put_exchanges(1, 0, (request,))
    world.put_exchanges(2, 0, (replace(FETCH, asked=((fetched, ASKED),), stage=stage),))
    lookahead = to_come(replace(asked(7, 1), follower=2))

    counted = [
        tuple(step.known_replica(0, partition).high_watermark for partition in (T, U))
        for step in internal_steps(world.state(EMPTY), lookahead, 1, 0)
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]

    assert counted == [(1, 0)] * is_raced
