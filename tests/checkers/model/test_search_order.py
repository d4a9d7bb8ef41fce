"""What a search explains or leaves out, whatever is left to come."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

import tests.support.model as m
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker.exchange import count
from kchaos.checkers.model.broker.leader import (
    NO_FETCH_YET,
    become_leader,
    increment_high_watermark,
    update_view,
    wait_no_longer,
)
from kchaos.checkers.model.follow.internal_leader_steps import likely_at_leader
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import take
from kchaos.checkers.model.follow.reachable import grows_too_early, never_answered
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.record import record_of
from tests.golden.stored import CASES, unpacked
from tests.support.model_timelines import start, state, write

T = m.TopicPartition("t", 0)
U = m.TopicPartition("t", 1)
NUMBER = (7, 1)
TOLD = m.UpdateMetadata(live=frozenset({0, 1}), told=frozenset({T}))
RECEIVED = m.Received(number=NUMBER, controller_epoch=1, request=TOLD)
ANSWERED = m.ControlAnswered(number=NUMBER, api="UpdateMetadata", broker=0, error_code=0, errors={})
ASKED = m.PartitionRequest(
    leader_epoch=1, carries_leader_epoch=False, fetch_offset=0, requested_epoch=-1
)
FETCH = m.Exchange(api="Fetch", asked=((T, ASKED),), stage=m.Stage.ARRIVED, number=NUMBER)


def to_come(*items: m.Observation | m.StopBroker | m.Produce) -> Lookahead:
    return Lookahead(Record(seen=tuple(m.Seen(what=item, time=1.0) for item in items), decided=()))


def cluster(release: str = "2.0.1") -> m.World:
    world = m.World(m.EMPTY)
    for broker in (0, 1):
        for event in start(broker, release):
            happen(world, event, {})
    return world


def sent(number: tuple[int, int]) -> m.ControlSent:
    return m.ControlSent(
        number=number, api="UpdateMetadata", controller=1, controller_epoch=2, broker=0
    )


def reply(*, high_watermark: int, last_offset: int | None, error_code: int = 0) -> m.ResponseSeen:
    said = m.FetchAnswered(
        error_code=error_code,
        high_watermark=high_watermark,
        base_offset=None if last_offset is None else 0,
        last_offset=last_offset,
    )
    return m.ResponseSeen(
        number=NUMBER, fate=m.Fate.ARRIVES, api="Fetch", follower=1, leader=0, partitions={T: said}
    )


def fetching(*, isr: tuple[int, ...] = (0,), release: str = "2.0.1") -> m.World:
    """Broker 0 leads t-0 with one record; broker 1 has it, and fetches what comes next."""
    world = cluster(release)
    world.put(("assignment", T), (0, 1))
    for broker in (0, 1):
        world.put_replica(broker, T, m.Replica())
    become_leader(world, 0, T, state(0, 1, isr))
    happen(world, write("m", 0), {})
    led = world.known_replica(0, T)
    world.put_replica(1, T, replace(led, role=m.Role.FOLLOWER, views=()))
    fetch = m.FetchState(fetch_offset=1, state=m.FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, m.FetcherThread(partitions=((T, fetch),)))
    return world


ASKS_ON = m.PartitionRequest(
    leader_epoch=1, carries_leader_epoch=False, fetch_offset=1, requested_epoch=-1
)
WAITING = replace(FETCH, asked=((T, ASKS_ON),), stage=m.Stage.WAITING, number=(7, 2))


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
    told: m.ResponseSeen, *, is_possible: bool
):
    world = fetching()
    world.put_exchanges(1, 0, (WAITING,))
    steps = list(internal_steps(world.state(m.EMPTY), to_come(told), 1, 0))
    assert [step.exchanges(1, 0) for step in steps] == [()] * is_possible


@pytest.mark.parametrize(("release", "is_possible"), [("2.5.1", True), ("2.6.3", False)])
def test_a_fetch_that_finds_nothing_may_be_answered_at_once_with_what_was_told_before(
    release: str, *, is_possible: bool
):
    world = fetching(release=release)
    world.put_exchanges(1, 0, (replace(WAITING, stage=m.Stage.ARRIVED),))
    told = to_come(reply(high_watermark=1, last_offset=0))
    steps = internal_steps(world.state(m.EMPTY), told, 1, 0)
    assert (() in [step.exchanges(1, 0) for step in steps]) is is_possible


@pytest.mark.parametrize("answers_others", [True, False])
def test_a_fetch_that_finds_records_of_internal_topics_alone_is_answered_with_what_was_first_read(
    *, answers_others: bool
):
    world = fetching(isr=(0, 1), release="2.8.2")
    world.put_exchanges(1, 0, (replace(WAITING, stage=m.Stage.ARRIVED),))
    nothing = reply(high_watermark=0, last_offset=None)
    seen = replace(nothing, number=(7, 2), answers_others=answers_others)
    steps = internal_steps(world.state(m.EMPTY), to_come(seen), 0, 0)
    answered = [
        step.known_replica(0, T).high_watermark
        for step in steps
        for exchange in step.exchanges(1, 0)
        if exchange.stage is m.Stage.ANSWERED
    ]
    assert answered == [1] * answers_others


@pytest.mark.parametrize(
    ("behind", "outcome", "read"),
    [
        ({}, "ok", ["a", "b"]),
        ({"b": ("a",)}, "ok", ["a"]),
        ({"other": ("a",), "b": ("other",)}, "ok", ["a"]),
        ({"b": ("a",)}, "info", ["a"]),
        ({"b": ("a",)}, None, ["a", "a not"]),
    ],
    ids=["two connections", "one connection", "one between", "with an error", "never answered"],
)
def test_a_broker_reads_a_connection_s_next_produce_when_it_has_answered_the_one_before(
    behind: dict[str, tuple[str, ...]], outcome: Literal["ok", "info"] | None, read: list[str]
):
    def possible() -> list[str]:
        waiting = {*lookahead.connections.waiting(world.get(("sent",)), 2)}
        return [
            request.operation if ("replica", 0, T) in after.changes else f"{request.operation} not"
            for after in internal_steps(world.state(m.EMPTY), lookahead, 2, 0)
            for request in waiting - {*lookahead.connections.waiting(after.get(("sent",)) or (), 2)}
        ]

    world = fetching()
    world.put_thread(1, 0, None)
    sent = [write(operation, 0, acks=-1) for operation in ("a", "b")]
    answered = [
        m.ClientAnswered(operation="a", outcome=told, base_offset=-1, error="")
        for told in filter(None, [outcome])
    ]
    seen = [*(m.Seen(what=each, time=1.0) for each in sent)]
    seen += (m.Seen(what=each, time=1.0) for each in answered)
    lookahead = Lookahead(Record(seen=tuple(seen), decided=(), behind=behind))
    for request in sent:
        take(world, request, lookahead, generations={}, decided=0)

    assert possible() == read

    world.answer(m.PredictedProduce(operation="a", acknowledged=True, base_offset=1))
    world.put(("sent",), lookahead.connections.without(world.get(("sent",)), "a", 2))
    assert possible() == ["b"]


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_produce_that_nobody_answered_was_not_appended_where_a_snapshot_has_another(
    *, is_copied: bool
):
    world = fetching()
    world.put_thread(1, 0, None)
    world.put(("sent",), (write("a", 0, acks=-1),))
    (batch,) = m.batches_of(["a-0"], base_offset=1, leader_epoch=0, magic=2, codec="none")
    replica = world.known_replica(0, T)
    world.put_replica(0, T, replace(replica, log=replica.log.truncate_to(1)))
    header = (1, 1, replica.leader_epoch, 2)
    payload = batch.payload if is_copied else "another"
    files = m.Files(batches=(header,), epoch_entries=None, payloads=(payload,))
    lookahead = to_come(m.CopyBegun(label="s", broker=0, files=((T, files),)))

    (step,) = internal_steps(world.state(m.EMPTY), lookahead, 0, 0)

    assert step.is_unlikely is not is_copied


@pytest.mark.parametrize("stage", [m.Stage.READ, m.Stage.WAITING])
def test_a_partition_that_was_refused_is_answered_with_nothing_else(stage: m.Stage):
    """What is refused beside it says nothing about it."""

    def why(error_code: int) -> str:
        seen = reply(high_watermark=0, last_offset=None)
        said = {T: replace(seen.partitions[T], error_code=error_code)}
        said[U] = replace(seen.partitions[T], error_code=3)
        lookahead = to_come(replace(seen, partitions=said))
        state = world.state(m.EMPTY)
        return never_answered(state, {("exchanges", 1, 0): world.exchanges(1, 0)}, lookahead, 0)

    world = fetching(release="2.8.2")
    refused = frozenset({T, U})
    world.put_exchanges(
        1, 0, (replace(FETCH, asked=((T, ASKED), (U, ASKED)), stage=stage, refused=refused),)
    )

    assert (why(3), why(100)) == ("", "")
    assert why(0) == "t-0: error 0, possible was UNKNOWN_TOPIC_OR_PARTITION"
    assert why(6) == "t-0: error 6, possible was UNKNOWN_TOPIC_OR_PARTITION"


def fetches(fetch_offset: int, last_fetched_epoch: int | None) -> m.RequestSeen:
    """Broker 1 asks its next leader."""
    anew = m.FetchAsked(
        fetch_offset=fetch_offset, leader_epoch=2, last_fetched_epoch=last_fetched_epoch
    )
    return replace(asked(8, 0), partitions={T: anew}, is_full=True)


@pytest.mark.parametrize(
    ("fetch_offset", "is_read_before", "is_unlikely"),
    [(2, False, False), (1, False, True), (2, True, True)],
)
def test_a_former_leader_that_fetches_from_behind_a_batch_has_appended_it(
    fetch_offset: int, *, is_read_before: bool, is_unlikely: bool
):
    """There it gives its followers a batch of another epoch, later or before."""
    world = fetching()
    world.answer(m.PredictedProduce(operation="n", acknowledged=None, base_offset=-1))
    world.put(("sent",), (write("n", 0, acks=-1),))
    told = m.LeaderAndIsr(states=(replace(state(1, 2, (0, 1)), leader=1),))
    world.put_received(0, (m.Received(number=(9, 1), controller_epoch=1, request=told),))
    refused = m.ClientAnswered(
        operation="n", outcome="fail", base_offset=-1, error="NOT_LEADER_FOR_PARTITION"
    )
    asks = replace(fetches(fetch_offset, 1), follower=0, leader=1)
    batch = m.FetchAnswered(
        error_code=0, high_watermark=1, base_offset=1, last_offset=1, first_leader_epoch=3
    )
    later = replace(reply(high_watermark=1, last_offset=1), partitions={T: batch})
    lookahead = to_come(refused, *((later, asks) if is_read_before else (asks, later)))

    appended = [
        step
        for step in internal_steps(world.state(m.EMPTY), lookahead, 0, 0)
        if step.known_replica(0, T).log.log_end_offset == 2
    ]

    assert [step.is_unlikely for step in appended] == [is_unlikely]


TOO_FEW = m.ClientAnswered(
    operation="n", outcome="info", base_offset=-1, error="NOT_ENOUGH_REPLICAS"
)
ACKNOWLEDGED = replace(TOO_FEW, outcome="ok", base_offset=1, error="")
ASKS_FOR_LESS = m.IsrAsked(leader=0, isrs={T: m.IsrWanted(leader_epoch=1, isr=(0,))})


@pytest.mark.parametrize(
    ("later", "is_early"),
    [
        ((TOO_FEW,), True),
        ((ACKNOWLEDGED,), False),
        ((ASKS_FOR_LESS, TOO_FEW), False),
        ((TOO_FEW, ASKS_FOR_LESS), True),
    ],
)
def test_an_isr_grows_after_the_answer_that_too_few_are_in_it(
    later: tuple[m.Observation, ...], *, is_early: bool
):
    before = fetching().state(m.EMPTY)
    lookahead = to_come(write("n", 0, acks=-1), *later)
    component = ("replica", 0, T)
    grown = replace(before(component), isr=(0, 1))
    assert grows_too_early(before, {component: grown}, lookahead, 0) is is_early
    assert not grows_too_early(before, {component: before(component)}, lookahead, 0)


@pytest.mark.parametrize("is_named", [True, False])
def test_an_answer_has_no_records_of_a_partition_although_it_has_records_of_others(
    *, is_named: bool
):
    begins = replace(fetches(1, 1), partitions=dict.fromkeys((T, U), fetches(1, 1).partitions[T]))
    goes_on = replace(asked(8, 1), is_full=False)
    news = reply(high_watermark=1, last_offset=1).partitions[T]
    nothing = reply(high_watermark=1, last_offset=None).partitions if is_named else {}
    answer = replace(
        reply(high_watermark=1, last_offset=None), number=(8, 1), partitions={U: news, **nothing}
    )

    lookahead = to_come(begins, goes_on, answer)

    assert [*lookahead.empty_answers(0, T, 1, "n", 0)] == [(8, 1)]
    assert not [*lookahead.empty_answers(0, U, 1, "n", 0)]


def test_a_fetch_that_moves_a_high_watermark_waits_for_no_answer_with_the_one_before():
    world = fetching(isr=(0, 1), release="2.8.2")
    fetch = replace(WAITING, stage=m.Stage.ARRIVED)
    world.put_exchanges(1, 0, (fetch,))
    seen = replace(reply(high_watermark=0, last_offset=None), number=(7, 2), answers_others=True)

    steps = likely_at_leader(world.state(m.EMPTY), 1, 0, fetch, to_come(seen), 0)
    first = next(step for step in steps if not step.is_unlikely)

    assert [exchange.stage for exchange in first.exchanges(1, 0)] == [m.Stage.ANSWERED]


def asked(connection: int, number: int, fate: m.Fate = m.Fate.ARRIVES) -> m.RequestSeen:
    return m.RequestSeen(
        number=(connection, number), fate=fate, api="Fetch", follower=1, leader=0, partitions={}
    )


def test_a_fetcher_has_sent_nothing_between_requests_whose_numbers_follow_each_other():
    waits, other = asked(7, 4, m.Fate.WAITS), asked(8, 5)
    lookahead = to_come(asked(7, 1), asked(7, 3), waits, other, asked(7, 4), asked(8, 6))
    may_have = [lookahead.may_have_repeated(1, 0, index) for index in range(7)]
    # After the last nobody knows; one request was before 1, and one between 1 and 3.
    assert may_have == [True, True, False, False, False, False, True]
    assert not to_come(asked(7, 0)).may_have_repeated(1, 0, 0)


def fetch_from_0(leader_epoch: int) -> m.FetchAsked:
    return m.FetchAsked(fetch_offset=0, leader_epoch=leader_epoch, last_fetched_epoch=None)


def waits_for_1(*messages: m.Seen, lag_s: float) -> list[int]:
    """The high watermarks that leader 0 may come to, before the last of the messages."""
    world = cluster()
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, m.Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    update_view(world, 0, T, 1, 0)
    happen(world, write("m", 0), {})
    assert world.known_replica(0, T).high_watermark == 0
    lookahead = Lookahead(Record(seen=messages, decided=(), lag_s=lag_s))
    reached = []
    for after in internal_steps(world.state(m.EMPTY), lookahead, len(messages) - 1, 0):
        if after.is_unlikely:
            increment_high_watermark(after, 0, T)
            reached.append(after.known_replica(0, T).high_watermark)
    return reached


def fetched(number: int, time: float, fate: m.Fate = m.Fate.ARRIVES) -> m.Seen:
    return m.Seen(what=replace(asked(7, number, fate), partitions={T: fetch_from_0(1)}), time=time)


def test_a_leader_waits_for_a_follower_outside_the_isr_only_as_long_as_it_may_lag():
    messages = (fetched(1, 1.0), m.Seen(what=asked(7, 2), time=11.0))
    assert waits_for_1(*messages, lag_s=9.5) == [1]
    assert waits_for_1(*messages, lag_s=10.5) == []


def test_a_fetch_that_is_held_counts_the_follower_as_caught_up_when_it_arrives():
    waits = m.Fate.WAITS
    messages = (fetched(1, 1.0), fetched(2, 2.0, waits), fetched(2, 3.0), fetched(3, 4.0, waits))
    assert waits_for_1(*messages, fetched(3, 11.0), lag_s=9.5) == [1]
    assert waits_for_1(*messages, fetched(3, 11.0), lag_s=10.5) == []


@pytest.mark.slow
def test_a_stored_run_is_explained_only_by_a_leader_that_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    record = record_of(RunEvidence(unpacked("caught_up_lapses", tmp_path, runs=CASES)))

    own = follow(record)
    monkeypatch.setattr(Lookahead, "may_lag_too_long", lambda *_: False)
    waits_without_limit = follow(record)

    assert (own.limit, own.emptied_by) == ("", None)
    assert waits_without_limit.limit == ""
    assert waits_without_limit.emptied_by is not None


def told_at(
    index: int, *questions: m.Observation | m.StopBroker, leader: int = 0, stops: bool = False
) -> list[bool]:
    """Whether what broker 1 does with a LeaderAndIsr of epoch 2 is unlikely before these.

    Or with a StopReplica.
    """
    world = cluster("2.8.2")
    world.put(("assignment", T), (0, 1))
    happen(world, state(0, 1, (0, 1)), {})
    led = m.LeaderAndIsr(states=(state(leader, 2, (0, 1)),))
    request = m.StopReplica(partition=T) if stops else led
    if stops:
        world.put_replica(1, T, m.Replica())
    world.put(("control", 1), (replace(RECEIVED, controller_epoch=1, request=request),))
    world.put(("leaders", 1), (0,))
    before = world.state(m.EMPTY)
    lookahead = to_come(*questions)
    steps = [
        after
        for after in internal_steps(before, lookahead, index, 0)
        if after.get(("control", 1))[0].errors is not None
    ]
    return [after.is_unlikely for after in steps]


ENDS = m.StopBroker(broker=1, clean=True)


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
    later: tuple[m.RequestSeen | m.StopBroker, ...], fetches: list[bool]
):
    world = cluster("2.8.2")
    follower = world.broker(1)
    assert follower is not None
    world.put_broker(1, replace(follower, live=frozenset({0, 1})))
    world.put(("assignment", T), (0, 1))
    world.put_replica(1, T, m.Replica())
    led = m.LeaderAndIsr(states=(state(0, 2, (0, 1)),))
    world.put(("control", 1), (replace(RECEIVED, request=led),))
    steps = [
        step
        for step in internal_steps(world.state(m.EMPTY), to_come(*later), 0, 0)
        if step.get(("control", 1))[0].errors is not None
    ]
    assert [step.thread(1, 0) is not None for step in steps] == fetches
    assert {step.known_replica(1, T).role for step in steps} == {m.Role.FOLLOWER}


def test_a_broker_leaves_a_leader_after_the_unseen_fetch_whose_answer_is_seen():
    answered = replace(reply(high_watermark=0, last_offset=None), number=(9, 5))
    handled = m.ControlAnswered(
        number=NUMBER, api="LeaderAndIsr", broker=1, error_code=0, errors={}
    )

    assert told_at(0, answered, handled, leader=-1) == [True]
    assert told_at(0, answered, handled, leader=0) == [False]
    assert told_at(0, replace(answered, partitions={}), handled, leader=-1) == [False]
    assert told_at(1, answered, handled, leader=-1) == [False]
    assert told_at(0, handled, answered, leader=-1) == [False]


def test_a_follower_sends_a_fetch_without_a_partition_before_it_follows_it():
    without, handled = (
        fetch_of(U, 1),
        m.ControlAnswered(number=NUMBER, api="LeaderAndIsr", broker=1, error_code=0, errors={}),
    )

    assert told_at(0, without, handled) == [True]
    assert told_at(0, handled, without) == [False]
    assert told_at(0, fetch_of(T, 2), handled) == [False]
    assert told_at(0, without, handled, leader=-1) == [False]


def fetch_of(partition: m.TopicPartition, leader_epoch: int) -> m.RequestSeen:
    said = {partition: fetch_from_0(leader_epoch)}
    return replace(asked(8, 0), partitions=said, is_full=True)


def test_a_follower_stops_fetching_after_it_has_learnt_what_it_ends_with():
    ends = m.StopBroker(broker=1, clean=True, checkpointed=(("t", 0, 5),))
    told = m.ControlSent(
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


def epoch_asked(number: int, *partitions: int, connection: int = 1) -> m.RequestSeen:
    said = {
        m.TopicPartition("t", partition): m.EpochAsked(requested_epoch=0, leader_epoch=None)
        for partition in partitions
    }
    return replace(asked(connection, number), api="OffsetForLeaderEpoch", partitions=said)


def epoch_answered(number: int, **error_codes: int) -> m.ResponseSeen:
    said = {
        m.TopicPartition("t", int(name[1:])): m.EpochAnswered(
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
    before: tuple[m.Observation, ...], backing_off: set[int]
):
    lookahead = to_come(*before, epoch_asked(9, 3))
    assert {partition for _, partition in lookahead.backing_off[1, 9]} == backing_off


def fetched_on(connection: int, number: int, *partitions: int) -> m.RequestSeen:
    said = {m.TopicPartition("t", partition): fetch_from_0(0) for partition in partitions}
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
    before: tuple[m.Observation, ...], backing_off: set[int]
):
    lookahead = to_come(*before, epoch_asked(9, 3, connection=2))
    assert {partition for _, partition in lookahead.backing_off[2, 9]} == backing_off


@pytest.mark.parametrize(
    ("late", "repeats"),
    [((7, 9), True), ((9, 0), False)],
    ids=["on the connection before", "on a later connection"],
)
def test_a_late_fetch_of_an_earlier_connection_is_not_what_the_fetcher_asked_last(
    late: tuple[int, int], *, repeats: bool
):
    fetches = (
        replace(asked(8, 0), partitions={T: fetch_from_0(2)}),
        replace(asked(*late, m.Fate.ABANDONED), partitions={T: fetch_from_0(1)}),
    )
    again = replace(ASKED, leader_epoch=2)
    assert to_come(*fetches).has_asked_so(1, 0, T, len(fetches), again) == repeats


@pytest.mark.parametrize(
    ("session", "is_possible"), [(None, True), ({T}, True), ({T, U}, False), (set(), False)]
)
def test_a_fetch_that_leaves_a_partition_of_its_session_out_is_seen(
    session: set[m.TopicPartition] | None, *, is_possible: bool
):
    world = fetching(release="2.8.2")
    thread = world.thread(1, 0)
    assert thread is not None
    kept = None if session is None else frozenset(session)
    world.put_thread(1, 0, replace(thread, session=kept))
    before = replace(asked(7, 1), partitions={T: replace(fetch_from_0(1), fetch_offset=1)})
    answer = replace(reply(high_watermark=1, last_offset=None), number=(7, 9))
    steps = internal_steps(world.state(m.EMPTY), to_come(before, answer), 1, 0)
    assert [step.exchanges(1, 0) != () for step in steps] == [True] * is_possible


def test_what_was_counted_before_of_a_fetch_moves_the_high_watermark_no_more():
    """Broker 2 kept it back as t-0 was counted, and is waited for no longer, while t-1 is left."""
    world = fetching(isr=(0, 1))
    for event in start(2, "2.0.1"):
        happen(world, event, {})
    world.put(("assignment", T), (0, 1, 2))
    led = world.known_replica(0, T)
    behind = m.FollowerView(log_end_offset=0, is_caught_up=True, last_leader_end_offset=1)
    world.put_replica(0, T, replace(led, views=led.views_with(2, behind)))
    world.put_replica(0, U, replace(led, log=m.Log(), high_watermark=0))
    nothing = m.FetchAnswer(high_watermark=0)
    asks = ((T, ASKS_ON), (U, ASKED))
    looked = replace(WAITING, asked=asks, stage=m.Stage.READ, answers=((T, nothing), (U, nothing)))
    world.put_exchanges(1, 0, (looked,))
    counted, _ = count(world, 1, 0, looked, but={U})
    wait_no_longer(world, 0, T, 2)
    fetch = replace(asked(7, 2), partitions={T: fetch_from_0(1)}, version=8)
    lookahead = to_come(reply(high_watermark=0, last_offset=0), fetch, asked(7, 3))

    assert (
        never_answered(world.state(m.EMPTY), {("exchanges", 1, 0): (counted,)}, lookahead, 2) == ""
    )
    waits, _ = count(world, 1, 0, counted)
    assert (waits.stage, world.known_replica(0, T).high_watermark) == (m.Stage.WAITING, 0)


V = m.TopicPartition("t", 2)


def two_fetch(
    *, stage: m.Stage, release: str = "2.8.2", fetched: tuple[m.TopicPartition, ...] = (T, U, V)
) -> m.World:
    """Broker 0 leads t-0, t-1 and t-2, each with a record that the high watermark has not reached.

    It is about to count a Fetch of broker 1 that moves the three, and has another of broker 2.
    """
    world = fetching(isr=(0, 1), release=release)
    for event in start(2, release):
        happen(world, event, {})
    led = world.known_replica(0, T)
    views = led.views_with(2, m.FollowerView(last_leader_end_offset=NO_FETCH_YET))
    for partition in (T, U, V):
        world.put(("assignment", partition), (0, 1, 2))
        world.put_replica(0, partition, replace(led, views=views))
    asks = tuple((partition, ASKS_ON) for partition in (T, U, V))
    world.put_exchanges(1, 0, (replace(WAITING, asked=asks, stage=m.Stage.ARRIVED),))
    other = tuple((partition, ASKS_ON) for partition in fetched)
    nothing = tuple((partition, m.FetchAnswer(high_watermark=0)) for partition in fetched)
    answers = nothing if stage is m.Stage.READ else ()
    waiting = replace(FETCH, asked=other, stage=stage, number=(8, 1), answers=answers)
    world.put_exchanges(2, 0, (waiting,))
    return world


TWO_ASKED = (asked(7, 2), replace(asked(8, 1), follower=2))


@pytest.mark.parametrize(("stage", "left"), [(m.Stage.ARRIVED, [{U}]), (m.Stage.WAITING, [])])
def test_a_fetch_that_waits_is_told_nothing_of_what_was_counted_and_did_not_move(
    stage: m.Stage, left: list[set[m.TopicPartition]]
):
    """Of t-1 alone the high watermark moves: to have counted the others shows to nobody else."""
    before = two_fetch(stage=stage)
    for partition in (T, V):
        led = before.known_replica(0, partition)
        before.put_replica(0, partition, replace(led, high_watermark=1))
    steps = internal_steps(before.state(m.EMPTY), to_come(*TWO_ASKED), 2, 0)
    uncounted = [
        {T, U, V} - exchange.counted
        for step in steps
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]
    assert uncounted == left


def test_the_parts_of_a_fetch_do_not_double_with_each_partition():
    """A follower that is back joins the ISR of ten partitions by one Fetch, before KIP-497."""
    world = fetching(isr=(0, 1), release="2.0.1")
    led = replace(world.known_replica(0, T), isr=(0,), maximal_isr=(0,), high_watermark=1)
    partitions = [m.TopicPartition("t", number) for number in range(10)]
    for partition in partitions:
        world.put(("assignment", partition), (0, 1))
        world.put_replica(0, partition, led)
    asks = tuple((partition, ASKS_ON) for partition in partitions)
    world.put_exchanges(1, 0, (replace(WAITING, asked=asks, stage=m.Stage.ARRIVED),))

    parts = [
        exchange.counted
        for step in internal_steps(world.state(m.EMPTY), to_come(asked(7, 2)), 1, 0)
        for exchange in step.exchanges(1, 0)
        if exchange.counted
    ]

    assert {len(part) for part in parts} == {9}
    assert len(parts) == 10
