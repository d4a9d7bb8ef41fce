"""Order of the search: taken at once, left out, put off; each right whatever is left to come."""

import itertools
from dataclasses import replace
from functools import partial
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
from kchaos.checkers.model.follow.internal_steps import give_up_others, internal_steps
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


def told_unlikely(
    world: World,
    *items: Observation | StopBroker | Produce,
    broker: int = 1,
    index: int = 0,
) -> list[bool]:
    """Whether it is unlikely that a broker handles its control request before these items."""
    return [
        step.is_unlikely
        for step in internal_steps(world.state(EMPTY), to_come(*items), index, 0)
        if step.get(("control", broker))[0].errors is not None
    ]


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
    ("asked_in", "error_code", "is_missed"),
    [(1, 0, True), (1, FENCED, False), (2, 0, False)],
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


@pytest.mark.parametrize(
    ("decided", "taken", "clean", "is_unlikely"),
    [
        ((GONE,), 1, True, True),
        ((GONE,), 0, True, False),
        ((GONE, BACK), 2, True, False),
        ((GONE_LATER,), 1, True, False),
        ((GONE,), 1, False, False),
    ],
    ids=["closed", "not closed yet", "registered again", "expired after its stop", "killed"],
)
def test_a_round_that_nobody_saw_is_unlikely_once_a_shutdown_has_closed_the_session(
    decided: tuple[Decided, ...], taken: int, *, clean: bool, is_unlikely: bool
) -> None:
    stop = Seen(what=StopBroker(broker=1, clean=clean), time=5.0)
    lookahead = Lookahead(Record(seen=(stop,), decided=decided))
    (step,) = internal_steps(fetching().state(EMPTY), lookahead, 0, taken)
    view = step.known_replica(0, T).view(1)
    assert view is not None
    assert (view.log_end_offset, step.is_unlikely) == (1, is_unlikely)


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
    ("first_leader_epoch", "is_told", "is_unlikely"),
    [(1, True, False), (2, True, True), (2, False, False), (None, True, False)],
)
def test_an_append_in_another_epoch_than_the_batch_that_is_read_is_unlikely_before_news_of_leaders(
    first_leader_epoch: int | None, *, is_told: bool, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("n", 0),))
    seen = reply(high_watermark=1, last_offset=1)
    read = FetchAnswered(
        error_code=0,
        high_watermark=1,
        base_offset=1,
        last_offset=1,
        first_leader_epoch=first_leader_epoch,
    )
    news = replace(sent((9, 0)), api="LeaderAndIsr", broker=0, states=(state(0, 2, (0, 1)),))
    answered = ClientAnswered(operation="n", outcome="ok", base_offset=1, error="")
    order = (news, answered) if is_told else (answered, news)
    lookahead = to_come(*order, replace(seen, partitions={T: read}))
    (step,) = internal_steps(world.state(EMPTY), lookahead, 0, 0)
    assert (step.known_replica(0, T).log.log_end_offset, step.is_unlikely) == (2, is_unlikely)


@pytest.mark.parametrize(
    ("error", "is_unlikely"),
    [("", True), ("REQUEST_TIMED_OUT", False), ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", False)],
)
def test_what_a_broker_says_to_have_appended_was_read_even_if_no_snapshot_has_it(
    error: str, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("n", 0, acks=-1),))
    told = ClientAnswered(operation="n", outcome="info", base_offset=-1, error=error)
    (step,) = internal_steps(world.state(EMPTY), to_come(told), 0, 0)
    assert (step.known_replica(0, T).log.log_end_offset, step.is_unlikely) == (2, is_unlikely)


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


@pytest.mark.parametrize(
    ("fetch_offset", "last_fetched_epoch", "is_unlikely"),
    [(0, 1, True), (1, 1, False), (0, None, False)],
    ids=["asks anew", "goes on", "may have truncated"],
)
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_follower_that_asks_for_an_answer_again_has_most_likely_not_appended_it(
    fetch_offset: int, last_fetched_epoch: int | None, *, is_killed: bool, is_unlikely: bool
) -> None:
    killed = [StopBroker(broker=1, clean=False)] * is_killed
    question = fetches(fetch_offset, last_fetched_epoch)

    assert appends_unlikely(*killed, question) == [is_unlikely]


def fetches(fetch_offset: int, last_fetched_epoch: int | None) -> RequestSeen:
    """Broker 1 asks its next leader."""
    anew = FetchAsked(
        fetch_offset=fetch_offset, leader_epoch=2, last_fetched_epoch=last_fetched_epoch
    )
    return replace(asked(8, 0), partitions={T: anew}, is_full=True)


def sends(leader_epoch: int) -> ResponseSeen:
    """Broker 1 leads and tells of a batch at the beginning of its log."""
    said = FetchAnswered(
        error_code=0,
        high_watermark=0,
        base_offset=0,
        last_offset=0,
        first_leader_epoch=leader_epoch,
    )
    return ResponseSeen(
        number=(9, 1), fate=Fate.ARRIVES, api="Fetch", follower=2, leader=1, partitions={T: said}
    )


def appends_unlikely(*later: Any) -> list[bool]:
    """Whether it is unlikely that broker 1 appends what it was answered, if that is seen later."""
    world = fetching()
    world.put_replica(1, T, replace(world.known_replica(1, T), log=Log()))
    fetch = FetchState(fetch_offset=0, state=FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, FetcherThread(partitions=((T, fetch),)))
    batches = world.known_replica(0, T).log.batches
    delivered = replace(
        FETCH, stage=Stage.DELIVERED, answers=((T, FetchAnswer(batches=batches, high_watermark=0)),)
    )
    world.put(("exchanges", 1, 0), (delivered,))
    seen = tuple(Seen(what=what, time=float(time)) for time, what in enumerate(later, start=1))
    lookahead = Lookahead(Record(seen=seen, decided=()))
    return [
        after.is_unlikely
        for after in internal_steps(world.state(EMPTY), lookahead, 0, 0)
        if after.known_replica(1, T).log.log_end_offset == 1
    ]


def test_who_has_lost_the_partition_may_be_answered_what_it_asks_for_again() -> None:
    """It was told to stop fetching before it handled the answer, and appends nothing."""
    world = fetching()
    world.put_thread(1, 0, FetcherThread(partitions=()))
    news = FetchAnswer(batches=world.known_replica(0, T).log.batches, high_watermark=0)
    delivered = replace(FETCH, stage=Stage.DELIVERED, answers=((T, news),))
    world.put_exchanges(1, 0, (delivered,))
    steps = internal_steps(world.state(EMPTY), to_come(fetches(0, 1)), 0, 0)
    assert [step.is_unlikely for step in steps if not step.exchanges(1, 0)] == [False]


def test_who_sends_a_batch_of_another_epoch_has_most_likely_not_appended_one_there() -> None:
    (its_own,) = {batch.leader_epoch for batch in fetching().known_replica(0, T).log.batches}

    assert appends_unlikely(sends(its_own + 1)) == [True]
    assert appends_unlikely(sends(its_own)) == [False]
    # It may have truncated before it fetched.
    assert appends_unlikely(fetches(1, 1), sends(its_own + 1)) == [False]


@pytest.mark.parametrize(
    ("end_offset", "fetch_offset", "is_unlikely"), [(1, 0, True), (0, 0, False), (2, 1, False)]
)
def test_who_fetches_from_before_where_its_leader_let_the_log_end_has_most_likely_not_appended(
    end_offset: int, fetch_offset: int, *, is_unlikely: bool
) -> None:
    """Up to 2.6 a Fetch does not say the epoch of the last record."""
    told = EpochAnswered(error_code=0, leader_epoch=1, end_offset=end_offset)
    asks = fetches(fetch_offset, None)
    answer = replace(sends(1), follower=1, leader=0, partitions={T: told})
    assert appends_unlikely(answer, asks) == [is_unlikely]
    # The answer comes after that Fetch, has an error, or there is none.
    assert appends_unlikely(asks, answer) == [False]
    failed = replace(answer, partitions={T: replace(told, error_code=FENCED)})
    assert appends_unlikely(failed, asks) == [False]
    assert appends_unlikely(asks) == [False]


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


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(("leader_epoch", "is_unlikely"), [(1, True), (2, False)])
def test_a_broker_that_asks_in_the_old_epoch_hears_of_the_new_one_after_that(
    leader_epoch: int, *, is_unlikely: bool, is_named: bool
) -> None:
    """What a Fetch does not name is asked for as the session has it."""
    named = {T: fetch_from_0(leader_epoch)}
    before = replace(asked(7, 1), partitions=named, is_full=True)
    question = replace(asked(7, 2), partitions=named if is_named else {}, is_full=False)
    assert told_at(1, before, question) == [is_unlikely]
    assert told_at(1, before, question, leader=-1) == [False]


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


def test_a_broker_fetches_another_partition_after_the_unseen_fetch_whose_answer_is_seen() -> None:
    """Links record a Fetch that names another partition than the one before."""
    world = fetching(release="0.10.2.2")
    follower = world.broker(1)
    assert follower is not None
    world.put_broker(1, replace(follower, live=frozenset({0, 1})))
    world.put(("assignment", U), (0, 1))
    world.put_replica(1, U, Replica())
    led = LeaderAndIsr(states=(replace(state(0, 1, (0, 1)), partition=U.partition),))
    world.put(("control", 1), (replace(RECEIVED, request=led),))
    asks = replace(asked(7, 1), partitions={T: replace(fetch_from_0(1), fetch_offset=1)})
    answer = replace(reply(high_watermark=1, last_offset=None), number=(7, 9))
    names_it = replace(asked(7, 8), partitions={U: fetch_from_0(1)})

    def unlikely(*items: Observation) -> list[bool]:
        return told_unlikely(world, asks, *items, index=1)

    assert unlikely(answer) == [True]
    # It is asked in a Fetch that is seen.
    assert unlikely(names_it, answer) == [False]
    assert unlikely(replace(asked(7, 9), partitions=asks.partitions), answer) == [False]
    # It was asked before.
    repeated = replace(FETCH, asked=((T, ASKS_ON),), stage=Stage.ARRIVED, number=(7, 9))
    world.put_exchanges(1, 0, (repeated,))
    assert unlikely(answer) == [False]
    # It is asked once the one before is answered, or was given up with its connection.
    world.put_exchanges(1, 0, (replace(repeated, number=(7, 1)),))
    assert unlikely(answer) == [True]
    world.put_exchanges(1, 0, (replace(repeated, number=(8, 1)),))
    assert unlikely(answer) == [False]


def test_a_broker_hears_of_a_partition_after_the_fetches_that_it_refuses() -> None:
    question = replace(asked(9, 1), partitions={T: fetch_from_0(1)})
    refused = replace(
        reply(high_watermark=-1, last_offset=None, error_code=3), number=question.number
    )
    before = told_again(told=frozenset())
    for said, is_unlikely in (((question, refused), True), ((), False), ((question,), False)):
        told = told_unlikely(before, *said, broker=0)
        assert told == [is_unlikely]


@pytest.mark.parametrize(
    ("leader_epoch", "error_code", "is_unlikely"),
    [
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH, True),
        (2, ErrorCode.NONE, False),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH, False),
    ],
    ids=["yet to lead", "led", "yet to hear of another epoch"],
)
def test_a_broker_leads_after_each_fetch_to_which_it_says_that_it_does_not(
    leader_epoch: int, error_code: ErrorCode, *, is_unlikely: bool
) -> None:
    """Another fetch of the same epoch was answered before, and was read after."""
    question = replace(
        asked(9, 1), follower=0, leader=1, partitions={T: fetch_from_0(leader_epoch)}
    )
    first = replace(question, number=(8, 1))
    read = replace(
        reply(high_watermark=0, last_offset=0), number=first.number, follower=0, leader=1
    )
    refused = replace(
        reply(high_watermark=-1, last_offset=None, error_code=error_code),
        number=question.number,
        follower=0,
        leader=1,
    )
    messages = (first, question, read, refused)
    assert told_at(2, *messages, leader=1) == [is_unlikely]
    handled = ControlAnswered(number=NUMBER, api="LeaderAndIsr", broker=1, error_code=0, errors={})
    assert told_at(1, handled, *messages, leader=1) == [False]


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


def asked_as_follower(fetch_offset: int) -> RequestSeen:
    fetch = FetchAsked(fetch_offset=fetch_offset, leader_epoch=2, last_fetched_epoch=1)
    return replace(asked(8, 0), follower=0, leader=1, partitions={T: fetch})


@pytest.mark.parametrize(("fetch_offset", "is_unlikely"), [(2, False), (1, True)])
def test_a_produce_was_read_if_its_broker_fetches_from_beyond_it_later(
    fetch_offset: int, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("n", 0, acks=-1),))
    told = ClientAnswered(operation="n", outcome="info", base_offset=-1, error="NOT_LEADER")
    lookahead = to_come(told, asked_as_follower(fetch_offset))
    (step,) = internal_steps(world.state(EMPTY), lookahead, 0, 0)
    assert (step.known_replica(0, T).log.log_end_offset, step.is_unlikely) == (2, is_unlikely)


@pytest.mark.parametrize(("requested_epoch", "is_unlikely"), [(1, False), (0, True)])
def test_a_produce_was_read_if_its_broker_asks_for_its_epoch_later(
    requested_epoch: int, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("n", 0, acks=-1),))
    told = ClientAnswered(operation="n", outcome="info", base_offset=-1, error="NOT_LEADER")
    asks = EpochAsked(requested_epoch=requested_epoch, leader_epoch=2)
    question = replace(asked(8, 0), follower=0, leader=1, partitions={T: asks})
    (step,) = internal_steps(world.state(EMPTY), to_come(told, question), 0, 0)
    assert step.is_unlikely is is_unlikely


@pytest.mark.parametrize(("leader_epoch", "is_unlikely"), [(1, True), (2, False)])
@pytest.mark.parametrize("leader", [0, 1], ids=["it leads on", "it follows"])
def test_a_leader_goes_to_another_epoch_after_it_has_appended_what_it_sends_of_its_own(
    leader: int, leader_epoch: int, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    led = LeaderAndIsr(states=(state(leader, 2, (0, 1)),))
    world.put(("control", 0), (replace(RECEIVED, request=led),))
    said = FetchAnswered(
        error_code=0,
        high_watermark=1,
        base_offset=1,
        last_offset=1,
        first_leader_epoch=leader_epoch,
    )
    sent_later = replace(reply(high_watermark=1, last_offset=1), partitions={T: said})
    news = told_unlikely(world, sent_later, broker=0)
    assert news == [is_unlikely]


@pytest.mark.parametrize(("checkpointed", "is_unlikely"), [(0, True), (1, False)])
def test_a_follower_that_ends_with_less_was_told_to_stop_before_it_learnt_more(
    checkpointed: int, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_replica(1, T, replace(world.known_replica(1, T), high_watermark=0))
    news = FetchAnswer(batches=(), high_watermark=1)
    delivered = replace(FETCH, asked=((T, ASKS_ON),), stage=Stage.DELIVERED, answers=((T, news),))
    world.put_exchanges(1, 0, (delivered,))
    ends = replace(ENDS, checkpointed=(("t", 0, checkpointed),))
    learns = [
        step.is_unlikely
        for step in internal_steps(world.state(EMPTY), to_come(ends), 0, 0)
        if step.known_replica(1, T).high_watermark == 1
    ]
    assert learns == [is_unlikely]


@pytest.mark.parametrize(("fetch_offset", "is_unlikely"), [(2, True), (1, False)])
def test_a_leader_appends_what_it_fetches_from_beyond_before_it_follows(
    fetch_offset: int, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("n", 0, acks=-1),))
    deposed = LeaderAndIsr(states=(state(1, 2, (0, 1)),))
    world.put(("control", 0), (replace(RECEIVED, request=deposed),))
    later = asked_as_follower(fetch_offset)

    def follows(*items: Observation | Produce | StopBroker) -> list[bool]:
        return told_unlikely(world, *items, later, broker=0)

    assert follows() == [is_unlikely]
    # It is told before a client sends, and has not answered the controller then.
    world.put(("sent",), None)
    handled = replace(ANSWERED, api="LeaderAndIsr")
    stops = replace(ENDS, broker=0)
    assert follows(handled) == [False]
    for end in (handled, stops):
        assert follows(write("n", 0, acks=-1), end) == [is_unlikely]
        assert follows(end, write("n", 0, acks=-1)) == [False]
    assert follows(write("n", 1, acks=-1), handled) == [False]


@pytest.mark.parametrize(("fetch_offset", "is_unlikely"), [(2, True), (1, False)])
@pytest.mark.parametrize(
    "request_of", [StopReplica(partition=T), LeaderAndIsr(states=(state(0, 2, (0, 1)),))]
)
def test_a_follower_appends_what_it_fetches_from_beyond_before_it_is_told_to_stop(
    fetch_offset: int, request_of: StopReplica | LeaderAndIsr, *, is_unlikely: bool
) -> None:
    """Its leader has answered with the record at offset 1; then its partition leaves the thread."""
    world = fetching()
    happen(world, write("n", 0), {})
    news = FetchAnswer(batches=world.known_replica(0, T).log.batches[1:], high_watermark=1)
    asks = replace(ASKED, fetch_offset=1)
    answered = replace(FETCH, asked=((T, asks),), stage=Stage.ANSWERED, answers=((T, news),))
    world.put_exchanges(1, 0, (answered,))
    world.put(("control", 1), (replace(RECEIVED, request=request_of),))
    later = replace(asked_as_follower(fetch_offset), follower=1, leader=0)
    stops = told_unlikely(world, later)
    assert stops == [is_unlikely]


@pytest.mark.parametrize(("leader_epoch", "is_unlikely"), [(1, False), (2, True)])
def test_a_follower_that_refuses_to_stop_may_do_so_before_it_appends(
    leader_epoch: int, *, is_unlikely: bool
) -> None:
    """A StopReplica of the epoch that it has changes nothing (FENCED_LEADER_EPOCH, 2.8.2)."""
    world = fetching(release="2.8.2")
    happen(world, write("n", 0), {})
    news = FetchAnswer(batches=world.known_replica(0, T).log.batches[1:], high_watermark=1)
    answered = replace(FETCH, asked=((T, ASKED),), stage=Stage.ANSWERED, answers=((T, news),))
    world.put_exchanges(1, 0, (answered,))
    stops = StopReplica(partition=T, leader_epoch=leader_epoch)
    world.put(("control", 1), (replace(RECEIVED, request=stops),))
    later = replace(asked_as_follower(2), follower=1, leader=0)
    (told,) = (
        step
        for step in internal_steps(world.state(EMPTY), to_come(later), 0, 0)
        if step.get(("control", 1))[0].errors is not None
    )
    assert told.is_unlikely is is_unlikely


@pytest.mark.parametrize("leader", [1, 2], ids=["it leads", "another leads"])
def test_a_broker_that_still_asks_a_leader_hears_of_another_after_that(leader: int) -> None:
    """Up to 2.0 a Fetch does not say its leader epoch."""
    world = fetching()
    led = LeaderAndIsr(states=(state(leader, 2, (0, 1)),))
    world.put(("control", 1), (replace(RECEIVED, request=led),))
    fetch = FetchAsked(fetch_offset=1, leader_epoch=None, last_fetched_epoch=None)
    asks = replace(asked(8, 0), partitions={T: fetch})
    back = replace(
        sent((7, 2)),
        api="LeaderAndIsr",
        broker=1,
        states=(state(0, 3, (0, 1)),),
        told=frozenset({T}),
    )

    unlikely = partial(told_unlikely, world)

    assert unlikely(asks) == [True]
    assert unlikely() == [False]
    assert unlikely(replace(asks, partitions={})) == [False]
    assert unlikely(back, asks) == [False]
    # It is told once more, and not of the one that it asks.
    assert unlikely(replace(back, states=(state(leader, 3, (0, 1)),)), asks) == [True]


@pytest.mark.parametrize("leader", [1, 2], ids=["it leads", "another leads"])
def test_who_is_to_lead_takes_the_high_watermark_first_that_it_tells_later(leader: int) -> None:
    """The answer with it is seen before its own to the controller: it handles one after the other.

    Who follows on learns it from the next leader.
    """
    world = fetching()
    world.put_exchanges(1, 0, (FETCH,))
    known = world.known_replica(1, T).high_watermark
    led = LeaderAndIsr(states=(state(leader, 2, (0, 1)),))
    world.put(("control", 1), (replace(RECEIVED, number=(9, 1), request=led),))
    news = reply(high_watermark=known + 1, last_offset=None)
    done = replace(ANSWERED, number=(9, 1), api="LeaderAndIsr", broker=1, errors={T: 0})
    told = replace(
        reply(high_watermark=known + 1, last_offset=2), number=(8, 0), follower=0, leader=1
    )

    unlikely = partial(told_unlikely, world)

    assert unlikely(news, done, told) == [leader == 1]
    # Its own answer was first, it tells less later, or nothing says with what it began.
    assert unlikely(done, news, told) == [False]
    less = replace(told, partitions=reply(high_watermark=known, last_offset=2).partitions)
    assert unlikely(news, done, less) == [False]
    without = replace(told, partitions=reply(high_watermark=known + 1, last_offset=None).partitions)
    assert unlikely(news, done, without) == [False]


@pytest.mark.parametrize(("release", "is_late"), [("2.0.1", True), ("2.8.2", False)])
def test_a_fetch_that_nobody_saw_is_sent_after_the_follower_hears_of_its_leader_again(
    release: str, *, is_late: bool
) -> None:
    """Many came before it that said the same; the one that is answered was sent last.

    Where a Fetch carries its leader epoch, links record the first of the next one.
    """
    state_before = fetching(release=release).state(EMPTY)
    before = replace(asked(7, 1), partitions={T: replace(fetch_from_0(1), fetch_offset=1)})
    answer = replace(reply(high_watermark=1, last_offset=None), number=(7, 9))
    again = replace(sent((9, 0)), api="LeaderAndIsr", broker=1, states=(state(0, 2, (0, 1)),))
    away = replace(again, states=(state(1, 2, (0, 1)),))

    def unlikely(*items: Observation) -> list[bool]:
        return [
            step.is_unlikely
            for step in internal_steps(state_before, to_come(before, *items, answer), 1, 0)
            if any(request.number == answer.number for request in step.exchanges(1, 0))
        ]

    assert unlikely() == [False]
    assert unlikely(again) == [is_late]
    assert unlikely(away) == [False]


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


@pytest.mark.parametrize(
    ("release", "leader_epoch", "is_unlikely"),
    [("2.2.2", 1, True), ("2.2.2", 2, False), ("2.0.1", 1, False)],
)
def test_a_fetch_of_an_older_epoch_came_before_its_leader_took_over_the_next(
    release: str, leader_epoch: int, *, is_unlikely: bool
) -> None:
    """Counted after that, who asked counts as caught up, and keeps the high watermark back.

    Up to 2.0 a Fetch does not say its leader epoch.
    """
    world = fetching(release=release)
    become_leader(world, 0, T, state(0, 2, (0,)))
    fetch = FetchState(fetch_offset=1, state=FetcherState.FETCHING, leader_epoch=leader_epoch)
    world.put_thread(1, 0, FetcherThread(partitions=((T, fetch),), session=frozenset({T})))
    (step,) = internal_steps(world.state(EMPTY), to_come(), 0, 0)
    view = step.known_replica(0, T).view(1)
    assert view is not None
    assert (view.log_end_offset, step.is_unlikely) == (1, is_unlikely)


@pytest.mark.parametrize(
    ("fetch_offset", "last_offset", "is_unlikely"),
    [(1, None, True), (0, None, True), (2, None, False), (1, 1, False)],
    ids=["from its offset", "from before it", "from beyond it", "it is read"],
)
def test_a_leader_appends_after_the_answer_that_has_no_records(
    fetch_offset: int, last_offset: int | None, *, is_unlikely: bool
) -> None:
    world = fetching()
    world.put(("sent",), (write("n", 0, acks=1),))
    before_state = world.state(EMPTY)
    asks = replace(asked(7, 1), partitions={T: replace(fetch_from_0(1), fetch_offset=fetch_offset)})
    answer = reply(high_watermark=1, last_offset=last_offset)
    ok = ClientAnswered(operation="n", outcome="ok", base_offset=1, error="")

    def unlikely(*items: Observation) -> list[bool]:
        return [
            step.is_unlikely
            for step in internal_steps(before_state, to_come(*items), 0, 0)
            if step.known_replica(0, T).log.log_end_offset == 2
        ]

    assert unlikely(asks, answer, ok) == [is_unlikely]
    # Its client was answered first.
    assert unlikely(asks, ok, answer) == [False]


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


@pytest.mark.parametrize(
    ("timeout_s", "connection", "may_give_up"),
    [(1.5, 8, True), (2.5, 8, False), (1.5, 7, False)],
    ids=["too long", "in time", "on the same connection"],
)
def test_a_follower_may_have_given_up_an_answer_that_a_link_passed_on(
    timeout_s: float, connection: int, *, may_give_up: bool
) -> None:
    """It asks anew two seconds after, on another connection, and has not appended."""
    world = fetching()
    batches = world.known_replica(0, T).log.batches
    answer = FetchAnswer(batches=batches, high_watermark=1)
    asks = PartitionRequest(
        leader_epoch=1, carries_leader_epoch=False, fetch_offset=0, requested_epoch=-1
    )
    delivered = replace(
        FETCH, asked=((T, asks),), stage=Stage.DELIVERED, answers=((T, answer),), number=(7, 1)
    )
    world.put_exchanges(1, 0, (delivered,))
    fetch = FetchState(fetch_offset=0, state=FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, FetcherThread(partitions=((T, fetch),)))
    world.put_replica(1, T, replace(world.known_replica(1, T), log=Log()))
    seen = (Seen(what=asked(7, 1), time=1.0), Seen(what=asked(connection, 2), time=3.0))
    lookahead = Lookahead(Record(seen=seen, decided=(), fetch_timeout_s=timeout_s))

    given_up, question = World(world.state(EMPTY)), asked(connection, 2)
    why_not = give_up_others(given_up, question, lookahead)
    assert (why_not, given_up.exchanges(1, 0), given_up.is_unlikely) == (
        ("", (), True) if may_give_up else (HANDLES_FIRST, (delivered,), False)
    )
    # Who asks for the same again most likely never had the answer.
    anew = FetchAsked(fetch_offset=0, leader_epoch=None, last_fetched_epoch=None)
    again = World(world.state(EMPTY))
    give_up_others(again, replace(question, partitions={T: anew}), lookahead)
    assert not again.is_unlikely


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


def test_a_fetch_is_counted_in_the_epoch_in_which_its_follower_joins_the_isr() -> None:
    """A leader looks at its log, takes over the next epoch, and counts the Fetch then."""
    world = fetching(release="2.8.2")
    world.put_exchanges(1, 0, (replace(WAITING, stage=Stage.ARRIVED),))
    arrived = world.state(EMPTY)
    news = replace(sent((9, 0)), api="LeaderAndIsr", states=(state(0, 2, (0,)),))
    wanted = IsrAsked(leader=0, isrs={T: IsrWanted(leader_epoch=2, isr=(0, 1))})

    def unlikely(*items: Observation) -> dict[Stage, bool]:
        return {
            exchange.stage: step.is_unlikely
            for step in internal_steps(arrived, to_come(asked(7, 2), *items), 1, 0)
            for exchange in step.exchanges(1, 0)
        }

    assert unlikely(news, wanted) == {Stage.WAITING: True, Stage.READ: False}
    # It fetches before that, it was in the ISR all the while, or it joins in this epoch.
    with_it = replace(news, states=(state(0, 2, (0, 1)),))
    joins = replace(wanted, isrs={T: IsrWanted(leader_epoch=1, isr=(0, 1))})
    for items in ((news, asked(7, 3), wanted), (with_it, wanted), (news, joins), (news,)):
        assert unlikely(*items) == {Stage.WAITING: False, Stage.READ: False}


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
    [
        ((0, 0, 1), [{T, U}]),
        ((0, 1, 1), [{T}]),
        ((1, 1, 1), []),
        ((0, 0, 0), []),
    ],
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
