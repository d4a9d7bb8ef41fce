"""Each rule that a release follows: what is predicted without it, and what with it.

Where a few events show the difference they are played; where it takes more, the decision point
itself is asked.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow, generation_for, predict
from kchaos.checkers.model.broker import control_handling, exchange, log_start, tier
from kchaos.checkers.model.broker.follower import (
    become_follower,
    handle_fetch_answer,
    move,
    taken_of,
)
from kchaos.checkers.model.broker.leader import (
    become_leader,
    may_ask_for,
    refuse_unverified,
    update_view,
    want_isr,
)
from kchaos.checkers.model.controller.decisions import ControllerContext, LeaderAndIsr, explain
from kchaos.checkers.model.controller.outboxes import deliver, queue
from kchaos.checkers.model.controller.quorum import (
    IsrProposal,
    directory_assigned,
    fenced,
    isr_asked_for,
    reassigned,
    registered,
    unfenced,
)
from kchaos.checkers.model.follow.counted_in_part import yet_to_read
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import take
from kchaos.checkers.model.releases.every_rule import RULES
from kchaos.checkers.model.releases.generation import FollowerLog, Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.predict import left_alone_after
from kchaos.checkers.model.values.requests import LeaderAndIsr as LeaderToldAndIsr
from kchaos.studies.explore.actions import AskToStop, EndSession, Kill, LetStop, MoveController
from kchaos.studies.explore.bounds import PARTITION, Faults, Machine
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explore.moves import ChaosMove
from tests.golden.stored import HARD, recorded
from tests.golden.test_borders import RUNS as BORDERED
from tests.golden.test_borders import Border
from tests.support.known_holes import (
    EPOCH_CACHES,
    KAFKA_7128,
    KAFKA_7164,
    KAFKA_7415,
    KAFKA_7601,
    KAFKA_7897,
    flapping,
)
from tests.support.machine_steps import after
from tests.support.model_timelines import (
    kill,
    kip_101_1,
    kip_279_1,
    left_alone,
    payloads,
    replica,
    start,
    state,
    write,
)
from tests.support.quorums import ELIGIBLE, PLACE, UNCLEAN, quorum
from tests.support.rule_timelines import (
    alone,
    asked_in_an_older_epoch,
    bounced_while_the_controller_slept,
    diverging,
    elected_after_truncation,
    fenced_for_an_older_epoch,
    fenced_in_session,
    joins_unknown_to_its_leader,
    late_stop,
    leaves_after_the_record,
    made_again_while_away,
    one_of_two_moves,
    pair,
    restarted_after,
    shorter_leader,
    told_again,
    without_end,
    without_epochs,
    zombie_leader,
)

T = m.TopicPartition("t", 0)
AFTER = m.Snapshot(label="after")
EPOCHS_0_1 = (m.EpochEntry(0, 0), m.EpochEntry(1, 1))

Look = Callable[[Generation], Any]

_TWO = {"min.insync.replicas": "2"}
_NOBODY: dict[str, Any] = {
    "leader": -1,
    "last_known": (0,),
    "fenced": (0, 1, 2),
    "features": ELIGIBLE,
}
_BEGUN: dict[str, Any] = {"RemovingReplicas": (2,)}
_REASSIGNED: dict[str, Any] = {"Replicas": (0, 1), "Leader": 0, "Directories": ("D0", "D1")}
_MOVING: dict[str, Any] = {
    "replicas": (0, 2, 3, 1),
    "directories": ("D0", "D2", "D3", "D1"),
    "adding": (3,),
    "removing": (1,),
}


def _with_3_in_sync() -> IsrProposal:
    """Broker 0 takes broker 3 into the ISR; broker 2 stays out of it."""
    return IsrProposal(
        leader=0,
        leader_epoch=3,
        partition_epoch=7,
        broker_epoch=10,
        isr=((0, 10), (1, 11), (3, 13)),
        is_recovering=False,
    )


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a rule shows on a release that has it, or to which it is added.

    Attributes:
        look: From a generation to what is to be seen of it.
        also: Other rules that are added both times.
        without: Other rules that are left out both times, since they hide this one.
        message_format: Of both generations.
        mode: Of both generations.
    """

    release: str
    look: Look
    old: Any
    new: Any
    also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    message_format: str | None = None
    mode: m.Mode = "zookeeper"

    def seen(self, rule: str, *, with_it: bool) -> Any:
        """What is seen with the rule or without."""
        generation = generation_for(
            self.release,
            message_format=self.message_format,
            mode=self.mode,
            without=self.without if with_it else (*self.without, rule),
            also=(*self.also, rule) if with_it else self.also,
        )
        return self.look(generation)


def predicted(events: Iterable[m.Event], see: Callable[[m.Prediction], Any]) -> Look:
    """What is seen after these events when every broker is of the generation."""
    timeline = tuple(events)
    return lambda known: see(predict(timeline, generations=dict.fromkeys(range(4), known)))


def in_prediction(
    release: str,
    timeline: Callable[[str], Iterable[m.Event]],
    see: Callable[[m.Prediction], Any],
    **more: Any,
) -> Shown:
    """How a rule shows in what is predicted for a timeline of brokers of that release."""
    return Shown(release=release, look=predicted(timeline(release), see), **more)


def explains(name: str) -> Look:
    """Whether a run that is hard to follow is explained within a few states."""

    def look(known: Generation) -> bool:
        record = recorded(name, runs=HARD)
        generations = dict.fromkeys(range(4), known)
        prediction = follow(record, generations=generations, patience=6_000)
        return not prediction.limit and prediction.emptied_by is None

    return look


def end_of(broker: int) -> Callable[[m.Prediction], int]:
    return lambda prediction: replica(prediction, broker).log_end_offset


def high_watermark_of(broker: int) -> Callable[[m.Prediction], int]:
    return lambda prediction: replica(prediction, broker).high_watermarks[0]


def fetcher_of(broker: int) -> Callable[[m.Prediction], tuple[str, int]]:
    def see(prediction: m.Prediction) -> tuple[str, int]:
        held = replica(prediction, broker)
        return held.fetcher, held.log_end_offset

    return see


def disallowed(prediction: m.Prediction) -> int:
    return len(prediction.disallowed)


def violation(moves: Sequence[ChaosMove], brokers: int = 3, *, agreement: bool = True) -> Look:
    """Which property the explorer's moves break, its first word alone."""

    def look(known: Generation) -> str:
        setup = Setup(generations=dict.fromkeys(range(brokers), known), checks_agreement=agreement)
        return play(setup, moves).violation.partition(":")[0]

    return look


# -- elections and what a new leader begins with ---------------------------------------------------


def recovers_zero(known: Generation) -> bool:
    return known.recovers_epoch(0)


def last_epoch_after_a_move(known: Generation) -> int:
    """The last leader epoch that a leader knows after a move: no record has epoch 1."""
    events = [*pair("2.1.0"), write("a", 0, acks=-1), state(0, 1, (0, 1))]
    world = m.World(left_alone(events, dict.fromkeys(range(3), known)))
    move(world, m.ReplicaMoved(broker=0, partition=T))
    return m.latest_epoch(world.known_replica(0, T).epochs.entries)


def follower_log(*, fetch_offset: int, high_watermark: int) -> FollowerLog:
    return FollowerLog(
        end_of_epoch=lambda _: m.UNDEFINED,
        log=m.Log(log_end_offset=9),
        fetch_offset=fetch_offset,
        high_watermark=high_watermark,
    )


def log_start_after_an_answer(known: Generation) -> int:
    """Where a follower's log begins after an answer of a leader whose log begins at 2."""
    world = m.World(m.EMPTY)
    happen(world, start(1, "2.4.1")[0], {1: known})
    batches = m.batches_of(("a", "b", "c"), base_offset=0, leader_epoch=0, magic=2, codec="none")
    log = m.Log(batches=m.Shared(batches), log_end_offset=3)
    world.put_replica(1, T, m.Replica(log=log, role=m.Role.FOLLOWER, leader=0, high_watermark=3))
    fetch = m.FetchState(fetch_offset=3, state=m.FetcherState.FETCHING, leader_epoch=0)
    world.put_thread(1, 0, m.FetcherThread().with_fetch(T, fetch))
    asked = m.PartitionRequest(
        leader_epoch=0, carries_leader_epoch=True, fetch_offset=3, requested_epoch=0
    )
    answer = m.FetchAnswer(high_watermark=3, log_start_offset=2)
    handle_fetch_answer(world, 1, 0, T, asked, answer)
    return world.known_replica(1, T).log.log_start_offset


def fetched_into_an_empty_log(known: Generation) -> tuple[int, int]:
    """Where a log begins and ends that was empty at 1, and got a batch from 0 to 2."""
    world = m.World(m.EMPTY)
    happen(world, start(1, "1.1.1")[0], {1: known})
    log = m.Log(log_start_offset=1, log_end_offset=1)
    world.put_replica(1, T, m.Replica(log=log, role=m.Role.FOLLOWER, leader=0))
    fetch = m.FetchState(fetch_offset=1, state=m.FetcherState.FETCHING, leader_epoch=0)
    world.put_thread(1, 0, m.FetcherThread().with_fetch(T, fetch))
    asked = m.PartitionRequest(
        leader_epoch=0, carries_leader_epoch=True, fetch_offset=1, requested_epoch=0
    )
    batches = m.batches_of(("a", "b", "c"), base_offset=0, leader_epoch=0, magic=2, codec="none")
    answer = m.FetchAnswer(batches=batches, high_watermark=3, log_start_offset=1)
    handle_fetch_answer(world, 1, 0, T, asked, answer)
    seen = world.known_replica(1, T).log
    return seen.log_start_offset, seen.log_end_offset


def furthest_log_start(known: Generation) -> int:
    """How far retention may go in a log of 3 records whose high watermark is 1."""
    world = m.World(m.EMPTY)
    happen(world, start(1, "1.1.1")[0], {1: known})
    world.put(("deletes", "t"), True)
    replica = m.Replica(log=m.Log(log_end_offset=3), high_watermark=1)
    world.put_replica(1, T, replica)
    return log_start.furthest(world, 1, T, replica)


LOG_STARTS = {
    "KIP-107": Shown(release="1.1.1", look=log_start_after_an_answer, old=0, new=2),
    "KAFKA-5634": Shown(release="1.1.1", look=furthest_log_start, old=3, new=1),
    "KAFKA-6975": Shown(release="1.1.1", look=fetched_into_an_empty_log, old=(1, 1), new=(1, 3)),
    "KAFKA-9491": Shown(
        release="2.4.1", look=lambda known: known.high_watermark_of_restarted(2, 5), old=2, new=5
    ),
}

ELECTIONS = {
    "KAFKA-3978": in_prediction(
        "1.1.1", elected_after_truncation, high_watermark_of(0), old=-1, new=0
    ),
    "high watermark in the log": in_prediction(
        "2.4.1", elected_after_truncation, high_watermark_of(0), old=-1, new=1
    ),
    "recovery without epoch 0": Shown(release="2.1.1", look=recovers_zero, old=True, new=False),
    "epochs of the log after a move": Shown(
        release="2.1.0", look=last_epoch_after_a_move, old=1, new=0
    ),
    "KAFKA-10432": Shown(release="2.6.0", look=recovers_zero, old=False, new=True),
}

# -- truncation ------------------------------------------------------------------------------------


def by_fetch(prediction: m.Prediction) -> list[bool]:
    return [round_.by_fetch for round_ in prediction.rounds if round_.follower == 0]


def answered(known: Generation) -> tuple[str, bool]:
    """How a leader whose log begins at 5 answers a diverging fetch from 3."""
    asked = m.PartitionRequest(
        leader_epoch=2, carries_leader_epoch=True, fetch_offset=3, requested_epoch=1
    )
    log = m.Log(log_end_offset=9, log_start_offset=5)
    answer = known.answer_diverging(m.EpochEnd(0, 2), asked, m.Replica(log=log))
    assert answer is not None
    return answer.error, answer.diverging is not None


def forgotten(known: Generation) -> int:
    """What a follower says as its last epoch after a first answer without records."""
    fetch = known.first_fetch(m.Replica(entries=EPOCHS_0_1))
    return known.last_fetched_epoch(known.fetch_after_append(fetch, 0), EPOCHS_0_1)


def answered_before_truncating(known: Generation) -> tuple[int, m.FetcherState]:
    """Where the log of broker 1 ends that gets a record which leader 0 has cut off since.

    Broker 1 led in between and is to truncate; its thread lives on for another topic.
    """
    events = [
        *pair("1.0.2"),
        m.TopicCreated(topic="u", assignment=((0, 1),)),
        state(0, 0, (0, 1), topic="u"),
        write("both", 0, acks=-1),
        m.Hold(name="ask", api="Fetch", source=1, target=0),
        write("cut off", 0),
        m.Hold(name="answer", api="Fetch", source=1, target=0, direction="response"),
        m.ReleaseHold(name="ask"),
        state(1, 1, (0, 1)),
    ]
    world = m.World(left_alone(events, dict.fromkeys(range(3), known)))
    assert world.known_replica(0, T).log.log_end_offset == 1
    become_follower(world, 1, T, state(0, 2, (0, 1)))
    (held,) = world.exchanges(1, 0)
    exchange.handle(world, 1, 0, held)
    thread = world.thread(1, 0)
    fetch = None if thread is None else thread.fetch(T)
    assert fetch is not None
    return world.known_replica(1, T).log.log_end_offset, fetch.state


def high_watermark_at_divergence(known: Generation) -> int:
    behind = m.Replica(log=m.Log(log_end_offset=3), high_watermark=1)
    asked = m.PartitionRequest(
        leader_epoch=1, carries_leader_epoch=True, fetch_offset=3, requested_epoch=0
    )
    leader = m.Replica(log=m.Log(log_end_offset=2), high_watermark=2)
    answer = known.answer_diverging(m.EpochEnd(0, 1), asked, leader)
    assert answer is not None
    return known.high_watermark_at_divergence(behind, answer)


N20 = predicted(
    kip_279_1("2.0.0", 20),
    lambda prediction: payloads(replica(prediction, 1)) == payloads(replica(prediction, 0)),
)


def runs(prediction: m.Prediction) -> bool:
    return replica(prediction, 1).is_running


TRUNCATION = {
    "KIP-101": in_prediction(
        "0.11.0.3",
        kip_101_1,
        lambda prediction: replica(prediction, 2, "A follows B").log_end_offset,
        old=1,
        new=2,
    ),
    "OffsetForLeaderEpoch v0": in_prediction(
        "0.11.0.3",
        diverging,
        lambda prediction: [round_.end_offset for round_ in prediction.rounds],
        old=[],
        new=[-1, 1],
    ),
    "fetch answer before a truncation": Shown(
        release="1.0.2",
        look=answered_before_truncating,
        old=(1, m.FetcherState.TRUNCATING),
        new=(2, m.FetcherState.FETCHING),
    ),
    "KAFKA-6857": in_prediction(
        "1.1.1",
        without_epochs,
        lambda prediction: replica(prediction, 0).batches == replica(prediction, 1).batches,
        message_format="0.10.2",
        old=False,
        new=True,
    ),
    "initial fetch offset": Shown(
        release="1.1.1",
        look=lambda known: (
            known.truncate(m.UNDEFINED, follower_log(fetch_offset=3, high_watermark=5)).offset
        ),
        old=5,
        new=3,
    ),
    "KIP-279": Shown(release="2.0.0", look=N20, old=False, new=True),
    "OffsetForLeaderEpoch v1": Shown(release="2.0.0", look=N20, old=False, new=True),
    "KAFKA-4039": in_prediction(
        "0.11.0.3", shorter_leader, runs, message_format="0.10.2", old=True, new=False
    ),
    "KAFKA-7414": in_prediction(
        "2.0.0", shorter_leader, runs, message_format="0.10.2", old=False, new=True
    ),
    "KAFKA-7164": Shown(release="2.0.0", look=violation(KAFKA_7164), old="agreement", new=""),
    "KAFKA-7415": Shown(release="2.0.0", look=violation(KAFKA_7415), old="agreement", new=""),
    "KAFKA-7897": Shown(
        release="2.1.0",
        message_format="0.10.2",
        look=violation(KAFKA_7897),
        also=EPOCH_CACHES,
        old="agreement",
        new="",
    ),
    "KAFKA-10706": in_prediction(
        "2.5.1", without_end, fetcher_of(0), old=("truncating", 1), new=("fetching", 2)
    ),
    "KAFKA-10554": in_prediction("2.8.2", diverging, by_fetch, old=[False], new=[True]),
    "diverging epoch in the Fetch response": in_prediction(
        "2.8.2", diverging, by_fetch, without=("KAFKA-12996",), old=[], new=[True]
    ),
    "KAFKA-12996": Shown(
        release="2.8.2", look=answered, old=("", True), new=("OFFSET_OUT_OF_RANGE", False)
    ),
    "KAFKA-14704": Shown(release="3.6.2", look=high_watermark_at_divergence, old=2, new=1),
    "last fetched epoch lost": Shown(release="3.6.2", look=forgotten, old=1, new=-1),
    "asynchronous epoch checkpoint": Shown(
        release="3.9.1",
        look=lambda known: known.file_may_hold(
            (m.EpochEntry(0, 0), m.EpochEntry(1, 1)), (m.EpochEntry(0, 0),)
        ),
        old=False,
        new=True,
    ),
}

# -- leader epochs in requests ---------------------------------------------------------------------


def taken_in_epoch_0(known: Generation) -> tuple[bool, list[int]]:
    """Whether an answer of epoch 0 counts in epoch 1, and of which epochs it is appended."""
    batches = [
        m.PredictedBatch(base_offset=at, last_offset=at, leader_epoch=epoch, magic=2, payload="")
        for at, epoch in enumerate((0, 0, 1, 0))
    ]
    taken = taken_of(known, 0, batches)
    return known.takes_fetch_answer(0, 1), [batch.leader_epoch for batch in taken]


FENCING = {
    "KIP-320": in_prediction("2.5.1", zombie_leader, end_of(1), old=1, new=0),
    "OffsetForLeaderEpoch v2": in_prediction(
        "2.5.1",
        partial(zombie_leader, with_record=True),
        fetcher_of(1),
        without=("Fetch v10",),
        old=("fetching", 2),
        new=("truncating", 1),
    ),
    "Fetch v10": in_prediction("2.5.1", zombie_leader, end_of(1), old=1, new=0),
    "KAFKA-9338": in_prediction("2.4.1", fenced_in_session, end_of(1), old=2, new=1),
    "KAFKA-7786": in_prediction(
        "2.1.1", asked_in_an_older_epoch, fetcher_of(1), old=("none", 1), new=("fetching", 2)
    ),
    "KAFKA-9654": in_prediction(
        "2.8.2", fenced_for_an_older_epoch, fetcher_of(1), old=("failed", 2), new=("fetching", 3)
    ),
    "KAFKA-18723": Shown(
        release="3.9.1", look=taken_in_epoch_0, old=(True, [0, 0, 1, 0]), new=(False, [0, 0])
    ),
}

# -- the ISR and the high watermark ----------------------------------------------------------------


def falls_out(known: Generation) -> bool:
    """Whether a follower that has everything falls out for the time alone."""
    return known.falls_out_of_isr(1, 1)


def led_by_0(known: Generation) -> m.World:
    """Broker 0 leads t-0 in epoch 1 alone, and has one record; broker 1 follows it."""
    world = m.World(m.EMPTY)
    for broker in (0, 1):
        for event in start(broker, "3.2.3"):
            happen(world, event, {0: known, 1: known})
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, m.Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    happen(world, write("m", 0), {})
    return world


def gives_up_failed_isr(known: Generation) -> bool:
    """Whether a leader goes back to the ISR that it had when the controller wrote no other."""
    world, to_come = led_by_0(known), Lookahead(Record(seen=(), decided=()))
    want_isr(world, 0, T, (0, 1))
    failure = m.IsrAnswered(leader=0, isrs={}, failed=frozenset({T}))
    take(world, failure, to_come, generations={}, decided=0)
    return any(
        step.known_replica(0, T).maximal_isr == (0,)
        for step in internal_steps(world.state(m.EMPTY), to_come, 0, 0)
    )


def counts_election(known: Generation) -> bool:
    """Whether a follower outside the ISR counts as caught up after the next epoch."""
    world = led_by_0(known)
    become_leader(world, 0, T, state(0, 2, (0,)))
    happen(world, write("n", 0), {})
    update_view(world, 0, T, 1, 1)
    view = world.known_replica(0, T).view(1)
    assert view is not None
    return view.is_caught_up


def follower_whose_fetch_fails(known: Generation) -> tuple[int, bool]:
    """Where a follower ends for its leader after a fetch out of range, and is it caught up."""
    world = led_by_0(known)
    happen(world, write("n", 0), {})
    update_view(world, 0, T, 1, 1)
    asked = m.PartitionRequest(
        leader_epoch=1, carries_leader_epoch=True, fetch_offset=99, requested_epoch=-1
    )
    fetch = exchange.send(world, 1, 0, m.Exchange(api=exchange.FETCH, asked=((T, asked),)))
    answered, _ = exchange.read(world, 1, 0, fetch)
    ((_, answer),) = answered.answers
    assert answer.error == "OFFSET_OUT_OF_RANGE"
    view = world.known_replica(0, T).view(1)
    assert view is not None
    return view.log_end_offset, view.is_caught_up


def partitions_read_later(known: Generation) -> set[int]:
    """A Fetch moves the high watermark of t-0, and has a record of t-1 that is not there yet."""
    world, other = led_by_0(known), m.TopicPartition("t", 1)
    led = world.known_replica(0, T)
    world.put_replica(0, other, led)
    world.put_replica(0, T, replace(led, isr=(0, 1), maximal_isr=(0, 1)))
    happen(world, write("n", 0), {})
    asks = [
        m.PartitionRequest(
            leader_epoch=1, carries_leader_epoch=True, fetch_offset=offset, requested_epoch=-1
        )
        for offset in (2, 1)
    ]
    asked = ((T, asks[0]), (other, asks[1]))
    fetch = m.Exchange(api=exchange.FETCH, asked=asked, stage=m.Stage.ARRIVED)
    world.put_exchanges(1, 0, (fetch,))
    nothing = m.FetchAnswered(error_code=0, high_watermark=1, base_offset=None, last_offset=None)
    seen = m.ResponseSeen(
        number=(7, 1),
        fate=m.Fate.ARRIVES,
        api=exchange.FETCH,
        follower=1,
        leader=0,
        partitions={T: nothing, other: replace(nothing, base_offset=1, last_offset=1)},
    )
    later = yet_to_read(world, 1, 0, fetch, seen, frozenset())
    return {partition.partition for partition in later}


def waits_for_the_dead(known: Generation) -> bool:
    return known.waits_outside_isr(1, frozenset({0}))


def last_member_goes(known: Generation) -> tuple[int, ...]:
    return known.isr_without((1,), 1, True)


def elected_again(known: Generation) -> bool:
    """Broker 1 shuts down; broker 0 leads by then, and is written once more."""
    context = ControllerContext(
        assignment=(0, 1),
        live=frozenset({0, 1}),
        shutting_down=frozenset({1}),
        elects_again=known.elects_all_again,
        isr_without=known.isr_without,
        isr_of_preferred=known.proposed.isr_of_preferred,
    )
    moved = LeaderAndIsr(leader=0, isr=(0,))
    return explain(context, moved, moved, surely_live={0, 1})


MEMBERSHIP = {
    "all are elected again": Shown(release="2.3.1", look=elected_again, old=False, new=True),
    "KAFKA-16624": Shown(
        release="3.9.1",
        look=lambda generation: fenced(
            quorum(generation, leader=-1, isr=(1,), features={"metadata.version": 8}), 1
        ),
        old={PLACE: {"Leader": -1}},
        new={},
    ),
    "KAFKA-12670": Shown(
        release="3.9.1",
        look=lambda generation: unfenced(
            quorum(generation, leader=-1, isr=(1,), fenced=(0, 1, 2), topic=UNCLEAN), 2
        ),
        old={},
        new={PLACE: {"Isr": (2,), "Leader": 2, "LeaderRecoveryState": 1}},
    ),
    "KAFKA-15665": Shown(
        release="3.9.1",
        look=lambda generation: reassigned(quorum(generation, isr=(0, 2)), PLACE, (0, 1)),
        old=_REASSIGNED | {"Isr": (0,)},
        new=_BEGUN,
    ),
    "KAFKA-19975": Shown(
        release="4.3.1",
        look=lambda generation: isr_asked_for(
            quorum(generation, isr=(0, 1), **_MOVING), PLACE, _with_3_in_sync()
        ),
        old={"Isr": (0, 1, 3)},
        new={
            "Isr": (0, 3),
            "Leader": 0,
            "Replicas": (0, 2, 3),
            "Directories": ("D0", "D2", "D3"),
            "RemovingReplicas": (),
            "AddingReplicas": (),
        },
    ),
    "KAFKA-18106": Shown(
        release="4.3.1",
        look=lambda generation: registered(quorum(generation), 1, "another", is_clean=True),
        old={},
        new={PLACE: {"Isr": (0, 2)}},
    ),
    "KAFKA-19522": Shown(
        release="4.3.1",
        look=lambda generation: registered(
            quorum(generation, isr=(), eligible=(0,), **_NOBODY), 0, "another", is_clean=False
        ),
        old={
            PLACE: {
                "EligibleLeaderReplicas": (),
                "Isr": (0,),
                "Leader": 0,
                "LeaderRecoveryState": 1,
                "LastKnownElr": (),
            }
        },
        new={PLACE: {"EligibleLeaderReplicas": ()}},
    ),
    "last known leader": Shown(
        release="4.3.1",
        look=lambda generation: registered(
            quorum(generation, isr=(1,), **_NOBODY | {"last_known": ()}),
            1,
            "another",
            is_clean=True,
        ),
        old={PLACE: {"EligibleLeaderReplicas": (1,), "Isr": (), "LastKnownElr": (-1,)}},
        new={PLACE: {"EligibleLeaderReplicas": (1,), "Isr": ()}},
    ),
    "eligible replicas of an assigned directory": Shown(
        release="4.3.1",
        look=lambda generation: directory_assigned(
            quorum(generation, isr=(0,), eligible=(1,), features=ELIGIBLE, topic=_TWO),
            PLACE,
            1,
            "D9",
        ),
        old={"Directories": ("D0", "D9", "D2"), "EligibleLeaderReplicas": ()},
        new={"Directories": ("D0", "D9", "D2")},
    ),
    "last member stays in the ISR": Shown(release="1.1.0", look=last_member_goes, old=(), new=(1,)),
    "KAFKA-7128": Shown(
        release="2.0.0", look=violation(KAFKA_7128, agreement=False), old="promises", new=""
    ),
    "KAFKA-7152": Shown(release="2.1.0", look=falls_out, old=True, new=False),
    "KIP-497": in_prediction("2.8.2", leaves_after_the_record, high_watermark_of(0), old=2, new=1),
    "KAFKA-13091": in_prediction(
        "3.1.2", leaves_after_the_record, high_watermark_of(0), old=1, new=2
    ),
    "KAFKA-8400": Shown(
        release="2.4.0", look=follower_whose_fetch_fails, old=(-1, False), new=(1, False)
    ),
    "KAFKA-8841": in_prediction("2.8.2", one_of_two_moves, high_watermark_of(0), old=2, new=1),
    "KAFKA-13141": in_prediction(
        "2.8.1", partial(diverging, holds=True), high_watermark_of(1), old=2, new=1
    ),
    "KAFKA-15583": in_prediction(
        "3.9.1", partial(alone, min_insync_replicas=2), high_watermark_of(0), old=2, new=1
    ),
    "high watermark wakes fetches": Shown(
        release="2.5.1", look=explains("2.5.1"), old=False, new=True
    ),
    "KIP-227": Shown(release="2.1.1", look=explains("2.1.1-told-once"), old=False, new=True),
    "KAFKA-13254": Shown(release="3.1.2", look=gives_up_failed_isr, old=False, new=True),
    "KAFKA-14010": Shown(release="3.2.1", look=gives_up_failed_isr, old=True, new=False),
    "KAFKA-13837": Shown(release="3.3.2", look=partitions_read_later, old=set(), new={1}),
    "KIP-841": in_prediction("3.3.2", joins_unknown_to_its_leader, disallowed, old=0, new=1),
    "no fetch at an election": Shown(release="3.3.2", look=counts_election, old=True, new=False),
    "KAFKA-15021": Shown(release="3.6.2", look=waits_for_the_dead, old=True, new=False),
}

# -- producers with ids ---------------------------------------------------------------------------


def sent(operation: str, base_sequence: int, *, records: int = 1, **more: Any) -> m.Produce:
    """A batch of producer 7 in epoch 0."""
    mark = m.ProducerMark(
        **{"producer_id": 7, "producer_epoch": 0, "base_sequence": base_sequence, **more}
    )
    return replace(write(operation, 0, count=records), producer=mark)


MARKER = sent("end", -1, is_transactional=True, coordinator_epoch=0)
LATER_MARKER = sent("end", -1, producer_epoch=1, is_transactional=True, coordinator_epoch=0)


def told(operation: str) -> Callable[[m.Prediction], tuple[str, int]]:
    """With which error a produce is answered, and where it lies."""

    def see(prediction: m.Prediction) -> tuple[str, int]:
        (produce,) = [each for each in prediction.produces if each.operation == operation]
        return produce.error, produce.base_offset

    return see


def refused_by_the_coordinator(known: Generation) -> tuple[bool, bool, bool]:
    """Whether the first batch of a transaction may be, the second, and what is of none."""
    first = sent("first", 0, is_transactional=True)
    seen = left_alone(pair("3.9.1"), dict.fromkeys(range(3), known))
    errors = ("INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE")
    answers = [all(refuse_unverified(m.World(seen), first, error) for error in errors)]
    answers.append(refuse_unverified(m.World(seen), sent("of none", 0), "INVALID_TXN_STATE"))
    seen, _ = left_alone_after(seen, first, dict.fromkeys(range(3), known))
    second = sent("second", 1, is_transactional=True)
    answers.append(refuse_unverified(m.World(seen), second, "INVALID_TXN_STATE"))
    return answers[0], answers[1], answers[2]


OF_PRODUCERS = {
    "KAFKA-5494": Shown(
        release="1.1.1",
        look=predicted(
            [*pair("1.1.1"), sent("a", 0, records=2), sent("b", 2), sent("again", 0, records=2)],
            told("again"),
        ),
        old=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        new=("", 0),
    ),
    "KAFKA-5793": Shown(
        release="1.1.1",
        look=predicted([*pair("1.1.1"), sent("a", 5)], told("a")),
        old=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        new=("UNKNOWN_PRODUCER_ID", -1),
    ),
    "KAFKA-7298": Shown(
        release="2.4.1",
        look=predicted([*pair("2.4.1"), MARKER, sent("a", 5)], told("a")),
        old=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        new=("UNKNOWN_PRODUCER_ID", -1),
    ),
    "KIP-360": Shown(
        release="2.8.2",
        look=predicted([*pair("2.8.2"), sent("a", 5)], told("a")),
        old=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        new=("", 0),
    ),
    "KAFKA-9144": Shown(
        release="2.5.1",
        look=predicted([*restarted_after("2.5.1", LATER_MARKER), sent("a", 0)], told("a")),
        old=("", 1),
        new=("INVALID_PRODUCER_EPOCH", -1),
    ),
    "KIP-890": Shown(
        release="3.9.1",
        look=refused_by_the_coordinator,
        old=(False, False, False),
        new=(True, False, False),
    ),
}

# -- formats, control, failures, tiers -------------------------------------------------------------


def flaps(release: str) -> Look:
    """What breaks when brokers of two message formats take turns to lead."""

    def look(known: Generation) -> str:
        setup = flapping(release, also=EPOCH_CACHES, without=NOT_7601 - {*known.rules})
        return play(setup, KAFKA_7601).violation.partition(":")[0]

    return look


NOT_7601 = frozenset({"KAFKA-7601"})


def leader_epoch_of(broker: int) -> Callable[[m.Prediction], int]:
    return lambda prediction: replica(prediction, broker).leader_epoch


def stopped_for_an_earlier_generation(known: Generation) -> bool:
    """Whether a StopReplica stops a broker whose return the controller has not seen yet."""
    events = [*pair("2.2.2"), *kill(1), state(0, 1, (0,)), *start(1, "2.2.2", czxid=201)]
    generations = dict.fromkeys(range(3), known)
    world = m.World(left_alone([*events, state(0, 1, (0, 1))], generations))
    controller = world.controller(1)
    seen = tuple({**dict(controller.seen), 1: 101}.items())
    world.put(("controller", 1), replace(controller, seen=seen))
    queue(world, 1, 1, m.StopReplica(partition=T))
    deliver(world, 1, 1)
    thread = world.thread(1, 0)
    return thread is None or thread.fetch(T) is None


def highest_copied(known: Generation) -> int:
    """What a leader of epochs 0 and 1 takes for copied when only a dead lineage was."""
    dead = m.RemoteSegment(
        segment_id="a",
        start_offset=0,
        end_offset=2,
        leader_epochs=EPOCHS_0_1[:1],
        chain=EPOCHS_0_1[:1],
        batches=(),
        is_finished=True,
    )
    return known.highest_remote_offset(EPOCHS_0_1, 3, (dead,))


def local_start_after_rebuilding(known: Generation) -> int:
    """Where an empty follower believes that its local log begins, rebuilt up to offset 2."""
    world = m.World(m.EMPTY)
    for broker in (0, 1):
        for event in start(broker, "3.9.1"):
            happen(world, event, {0: known, 1: known})
    world.put(("assignment", T), (0, 1))
    world.put(("topics",), (T,))
    records = [("a", 0, 0), ("b", 1, 1), ("c", 2, 1)]
    batches = tuple(
        batch
        for value, offset, epoch in records
        for batch in m.batches_of(
            (value,), base_offset=offset, leader_epoch=epoch, magic=2, codec="none"
        )
    )
    log = m.Log(batches=m.Shared(batches), log_end_offset=3)
    world.put_replica(0, T, m.Replica(log=log, entries=EPOCHS_0_1, high_watermark=3))
    become_leader(world, 0, T, state(0, 1, (0,)))
    copied = m.RemoteSegment(
        segment_id="b",
        start_offset=0,
        end_offset=1,
        leader_epochs=EPOCHS_0_1,
        chain=EPOCHS_0_1,
        batches=batches[:2],
        is_finished=True,
    )
    world.put(("remote", T), (copied,))
    tier.lose_local(world, 0, T, 2)
    world.put_replica(1, T, m.Replica(role=m.Role.FOLLOWER, leader=0, leader_epoch=1))
    fetch = m.FetchState(fetch_offset=0, state=m.FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, m.FetcherThread().with_fetch(T, fetch))
    assert tier.rebuild(world, 1, 0, T, copied)
    return tier.local_start(world.known_replica(1, T))


def epoch_of_the_stop(known: Generation) -> int:
    """The leader epoch in what a controller sends to a follower that it lets shut down."""
    machine = Machine(
        generations={0: known, 1: known},
        records=1,
        leader_epoch=2,
        log_size=1,
        faults=Faults(stops=1),
    )
    reached = after(machine, AskToStop(broker=1), LetStop(broker=1))
    outbox = m.World(reached).outbox(1, 1)
    assert outbox is not None
    stops = outbox.requests[-1]
    assert isinstance(stops, m.StopReplica)
    return stops.leader_epoch


def isr_after_a_failover(generation: Generation) -> tuple[int, int, tuple[int, ...]]:
    """Return leader epoch, leader and ISR that a new controller leaves when a follower is gone."""
    machine = Machine(
        generations={0: generation, 1: generation},
        records=1,
        leader_epoch=3,
        log_size=1,
        faults=Faults(kills=1, controllers=1),
    )
    reached = after(machine, Kill(broker=1), EndSession(broker=1), MoveController())
    written = m.World(reached).partition_state(PARTITION)
    assert written is not None
    return written.leader_epoch, written.leader, written.isr


def role_after_a_refusal(known: Generation) -> m.Role:
    """What broker 1 makes of a replica whose LeaderAndIsr it refuses for another topic id."""
    after = left_alone(made_again_while_away("3.0.2"), dict.fromkeys(range(3), known))
    return m.World(after).known_replica(1, T).role


def id_in_a_fetch(known: Generation) -> str:
    """By which id a follower fetches that was told one."""
    events = [*pair("3.1.2")[:-1], m.TopicIdentified(topic="t", topic_id="id"), state(0, 0, (0, 1))]
    world = m.World(left_alone(events, dict.fromkeys(range(3), known)))
    fetch = exchange.question(world, 1, 0, exchange.FETCH)
    assert fetch is not None
    return dict(fetch.asked)[T].topic_id


TOPIC_IDS = {
    "KIP-516": in_prediction("2.8.2", told_again, leader_epoch_of(1), old=1, new=0),
    "topic ids in requests": in_prediction("2.8.2", told_again, leader_epoch_of(1), old=1, new=0),
    "KAFKA-12426": in_prediction(
        "3.1.2",
        made_again_while_away,
        lambda prediction: replica(prediction, 1).is_hosted,
        old=True,
        new=False,
    ),
    "refused replica offline": Shown(
        release="3.0.2", look=role_after_a_refusal, old=m.Role.NONE, new=m.Role.OFFLINE
    ),
    "KAFKA-13111": Shown(release="3.1.2", look=id_in_a_fetch, old="", new="id"),
}

CONTROL_AND_STORAGE = {
    "KIP-380": in_prediction(
        "2.2.0", bounced_while_the_controller_slept, leader_epoch_of(1), old=-1, new=0
    ),
    "broker epochs": in_prediction(
        "2.5.1",
        late_stop,
        fetcher_of(1),
        without=("KAFKA-9839",),
        old=("none", 1),
        new=("fetching", 2),
    ),
    "broker epochs in requests": Shown(
        release="2.2.2", look=stopped_for_an_earlier_generation, old=True, new=False
    ),
    "KAFKA-9839": Shown(
        release="2.5.1",
        look=lambda known: known.error_of_broker_epoch(201, 101),
        old="UNKNOWN_SERVER_ERROR",
        new="",
    ),
    "KIP-570": Shown(
        release="2.6.0", look=lambda known: known.refuses_stop(0, 0), old=False, new=True
    ),
    "KAFKA-13972": Shown(
        release="3.4.1", look=lambda known: known.refuses_stop(0, 0), old=True, new=False
    ),
    "KAFKA-9198": Shown(
        release="2.4.0", look=lambda known: known.fails_on_waiting_fetch, old=True, new=False
    ),
    "leader epochs in StopReplica": Shown(release="2.6.0", look=epoch_of_the_stop, old=-1, new=0),
    "KAFKA-3143": Shown(
        release="2.3.1", look=isr_after_a_failover, old=(0, 0, (0, 1)), new=(1, 0, (0,))
    ),
    "KIP-461": in_prediction(
        "2.3.1",
        partial(kip_279_1, n=15),
        lambda prediction: fetcher_of(1)(prediction)[0],
        without=("KIP-279", "OffsetForLeaderEpoch v1", "OffsetForLeaderEpoch v2"),
        old="dead-thread",
        new="failed",
    ),
    "KAFKA-7601": Shown(release="2.2.1", look=flaps("2.2.1"), old="agreement", new=""),
    "KAFKA-15241": Shown(release="3.9.1", look=highest_copied, old=2, new=0),
    "KAFKA-17062": Shown(
        release="3.9.1", look=lambda known: known.counts_failed_copies, old=True, new=False
    ),
    "KAFKA-15695": Shown(release="3.9.1", look=local_start_after_rebuilding, old=0, new=2),
}

# -- with KRaft ------------------------------------------------------------------------------------


def reads(world: m.World, broker: int, request: m.ControlRequest) -> None:
    """Let a broker take up a part of a delta of the metadata log."""
    control_handling.handle(
        world, broker, m.Received(number=(-1, 0), controller_epoch=0, request=request)
    )


def role_without_leader(known: Generation) -> m.Role:
    """What a leader is after it has read that the partition has no leader."""
    world = led_by_0(known)
    reads(world, 0, LeaderToldAndIsr(states=(state(-1, 2, ()),)))
    return world.known_replica(0, T).role


def asks_for(registered: set[int], epochs: set[tuple[int, int]], replica_epoch: int) -> Look:
    """Whether a leader would ask for follower 1, which fetched with that broker epoch."""

    def look(known: Generation) -> bool:
        world = led_by_0(known)
        reads(
            world,
            0,
            m.UpdateMetadata(
                live=frozenset(registered),
                registered=frozenset(registered),
                epochs=frozenset(epochs),
            ),
        )
        update_view(world, 0, T, 1, 1, replica_epoch=replica_epoch)
        return may_ask_for(world, 0, T, 1)

    return look


def answer_to_a_former_process(known: Generation) -> str:
    """What a leader answers to a Fetch with broker epoch 5, where it has read of 9."""
    world = led_by_0(known)
    happen(world, write("n", 0), {})
    both = frozenset({0, 1})
    reads(world, 0, m.UpdateMetadata(live=both, registered=both, epochs=frozenset({(1, 9)})))
    asked = m.PartitionRequest(
        leader_epoch=1, carries_leader_epoch=True, fetch_offset=1, requested_epoch=-1
    )
    fetch = m.Exchange(api=exchange.FETCH, asked=((T, asked),), replica_epoch=5)
    answered, _ = exchange.read(world, 1, 0, exchange.send(world, 1, 0, fetch))
    ((_, answer),) = answered.answers
    assert isinstance(answer, m.FetchAnswer)
    return answer.error


def has_the_new_topic(known: Generation) -> bool:
    """Whether a broker that was away has a replica of the topic that was made again."""
    world = led_by_0(known)
    reads(world, 0, m.StopReplica(partition=T, deletes=True, is_stray=True))
    reads(world, 0, LeaderToldAndIsr(states=(state(1, 2, (1,)),), registered=frozenset({0, 1})))
    return world.replica(0, T) is not None


WITH_KRAFT = {
    "decisions by the metadata log": Shown(
        release="4.1.2",
        mode="kraft",
        look=role_without_leader,
        old=m.Role.LEADER,
        new=m.Role.FOLLOWER,
    ),
    "leaders ignored in shutdown": Shown(
        release="3.3.1",
        mode="kraft",
        look=lambda known: known.ignores_leaders_in_shutdown,
        old=False,
        new=True,
    ),
    "unregistered brokers join the ISR": Shown(
        release="3.4.1", mode="kraft", look=asks_for({0}, set(), -1), old=False, new=True
    ),
    "KIP-903": Shown(
        release="3.6.2", mode="kraft", look=asks_for({0, 1}, {(1, 9)}, 5), old=True, new=False
    ),
    "KAFKA-15221": Shown(
        release="3.7.2",
        mode="kraft",
        look=answer_to_a_former_process,
        old="",
        new="NOT_LEADER_FOR_PARTITION",
    ),
    "KAFKA-14616": Shown(
        release="3.7.1", mode="kraft", look=has_the_new_topic, old=False, new=True
    ),
}

SHOWN: dict[str, Shown] = {
    **LOG_STARTS,
    **ELECTIONS,
    **TRUNCATION,
    **FENCING,
    **MEMBERSHIP,
    **OF_PRODUCERS,
    **TOPIC_IDS,
    **CONTROL_AND_STORAGE,
    **WITH_KRAFT,
}

AT_BORDERS = {
    "maximal ISR after the append": "maximal-isr-is-enough-3.6.2",
    "KAFKA-9579": "refused-while-told-3.6.2",
    "leader's state after the fetch": "moved-high-watermark-1.1.0",
}
"""Rules without which `tests.golden.test_borders` has a stored run explained by nothing."""


def test_every_rule_of_a_release_is_shown_but_the_one_that_all_begin_with():
    """Without "truncation to the high watermark" there would be no generation to compare with."""
    (first, *others) = RULES
    assert first.name == "truncation to the high watermark"
    assert {*SHOWN, *AT_BORDERS} == {rule.name for rule in others}
    assert not {*SHOWN} & {*AT_BORDERS}


@pytest.mark.parametrize("rule", AT_BORDERS)
def test_a_rule_that_no_prediction_shows_stands_at_the_border_of_a_stored_run(rule: str):
    assert BORDERED[AT_BORDERS[rule]] == Border(without=(rule,))


# Real runs are followed with and without these.
SLOW = ("high watermark wakes fetches", "KIP-227")


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[pytest.mark.slow] * (rule in SLOW)) for rule in SHOWN]
)
def test_a_rule_changes_what_is_predicted(rule: str):
    shown = SHOWN[rule]
    assert shown.seen(rule, with_it=False) == shown.old
    assert shown.seen(rule, with_it=True) == shown.new
    assert shown.old != shown.new


def test_a_leader_counts_the_followers_of_which_its_broker_has_read():
    world = led_by_0(generation_for("4.1.2", mode="kraft"))
    reads(world, 0, LeaderToldAndIsr(states=(state(0, 1, (0, 1)),), replicas=(0, 1)))
    # The controllers have decided on another assignment.
    world.put(("assignment", T), (0, 2))
    happen(world, write("n", 0), {})
    assert world.known_replica(0, T).high_watermark == 1
    update_view(world, 0, T, 1, 2)
    assert world.known_replica(0, T).high_watermark == 2
    reads(world, 0, LeaderToldAndIsr(states=(state(0, 1, (0, 1)),), replicas=(0, 2)))
    assert [follower for follower, _ in world.known_replica(0, T).views] == [2]
