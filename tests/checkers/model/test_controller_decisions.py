"""The controller's decisions, the same for the explorer, for schedules and for recorded runs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.controller import decisions
from kchaos.checkers.model.controller.at_once import after_brokers_left, at_failover
from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    LeaderAndIsr,
    elect_for_new,
    elect_for_offline,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
    explain,
    remove_from_isr,
)
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import NO_LEADER, Event, PartitionState, TopicCreated
from kchaos.studies.documents.kip_501_proposals import (
    ISR_ORDER,
    PENDING_READS,
    SLOW_LEADER_GIVES_UP,
    Relinquish,
)
from kchaos.studies.documents.proposal import Proposal, following
from kchaos.studies.explore.actions import (
    Action,
    Answer,
    Ask,
    Elect,
    EndSession,
    Handle,
    Kill,
    Look,
    MoveController,
    Remove,
    SeeBrokers,
    Start,
)
from kchaos.studies.explore.bounds import PARTITION, Faults, Grain, Machine
from kchaos.studies.explore.machine import actions, initial_state, next_state
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explore.moves import ChaosMove
from tests.support.machine_steps import after

ALL_IN_SYNC = LeaderAndIsr(leader=1, isr=(1, 2, 3))


def context(*live: int, release: str = "2.8.2", is_unclean: bool = False) -> ControllerContext:
    generation = generation_for(release)
    return ControllerContext(
        assignment=(1, 2, 3),
        live=frozenset(live),
        is_unclean=is_unclean,
        isr_without=generation.isr_without,
        isr_of_preferred=generation.proposed.isr_of_preferred,
    )


def test_the_first_assigned_replica_that_is_online_and_in_sync_is_elected() -> None:
    elected = elect_for_offline(context(2, 3), ALL_IN_SYNC)
    assert elected == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_offline(context(2), LeaderAndIsr(leader=1, isr=(1,))) is None


def test_an_unclean_election_leaves_the_leader_alone_in_the_isr() -> None:
    only_one = LeaderAndIsr(leader=1, isr=(1,))
    elected = elect_for_offline(context(2, 3, is_unclean=True), only_one)
    assert elected == LeaderAndIsr(leader=2, isr=(2,))


@pytest.mark.parametrize(
    ("live", "isr", "wanted", "leader"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 1), 1),
        ((2, 3), (1, 2, 3), (1, 3, 2), 3),
        ((1, 2, 3), (1, 2, 3), (3, 2), 3),
        ((1, 2, 3), (1, 2), (3, 2), 2),
        ((1, 3), (1, 2), (3, 2), None),
    ],
    ids=["stays", "is-gone", "is-not-wanted", "first-is-not-in-sync", "none-is-able"],
)
def test_a_reassignment_keeps_the_isr_and_the_leader_where_it_can(
    live: tuple[int, ...], isr: tuple[int, ...], wanted: tuple[int, ...], leader: int | None
) -> None:
    known = LeaderAndIsr(leader=1, isr=isr)
    elected = None if leader is None else LeaderAndIsr(leader=leader, isr=isr)
    assert elect_for_reassignment(context(*live), known, wanted) == elected


def test_a_preferred_election_keeps_the_isr() -> None:
    known = LeaderAndIsr(leader=2, isr=(1, 2))
    assert elect_preferred(context(1, 2), known) == LeaderAndIsr(leader=1, isr=(1, 2))
    assert elect_preferred(context(2), known) is None
    assert elect_preferred(context(1, 2), replace(known, isr=(2,))) is None


def test_a_new_partition_has_all_in_sync_that_are_online() -> None:
    stopping = replace(context(1, 2, 3), shutting_down=frozenset({1}))
    assert elect_for_new(context(1, 2, 3)) == ALL_IN_SYNC
    assert elect_for_new(stopping) == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_new(context()) is None


def test_a_broker_that_shuts_down_hands_over_and_leaves_the_isr() -> None:
    stopping = replace(context(1, 2, 3), shutting_down=frozenset({1}))
    assert elect_for_shutdown(stopping, ALL_IN_SYNC) == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_shutdown(stopping, LeaderAndIsr(leader=1, isr=(1,))) is None


def test_replicas_leave_the_isr_one_by_one_down_to_one_member() -> None:
    written = list(after_brokers_left(context(), ALL_IN_SYNC, {1, 2, 3}))
    assert written == [
        LeaderAndIsr(leader=NO_LEADER, isr=(2, 3)),
        LeaderAndIsr(leader=NO_LEADER, isr=(3,)),
        LeaderAndIsr(leader=NO_LEADER, isr=(3,)),
    ]


def test_before_1_1_0_the_last_member_leaves_too_where_unclean_elections_are_allowed() -> None:
    alone = LeaderAndIsr(leader=1, isr=(1,))
    old = remove_from_isr(context(release="1.0.2", is_unclean=True), alone, 1)
    new = remove_from_isr(context(release="1.1.1", is_unclean=True), alone, 1)
    assert old == LeaderAndIsr(leader=NO_LEADER, isr=())
    assert new == LeaderAndIsr(leader=NO_LEADER, isr=(1,))


def test_a_new_controller_removes_who_is_offline_before_it_elects() -> None:
    of_2_2_2 = list(at_failover(context(2, 3), ALL_IN_SYNC, removes_offline=False))
    of_2_3_0 = list(at_failover(context(2, 3), ALL_IN_SYNC, removes_offline=True))
    assert of_2_2_2 == [LeaderAndIsr(leader=2, isr=(2, 3))]
    assert of_2_3_0 == [
        LeaderAndIsr(leader=NO_LEADER, isr=(2, 3)),
        LeaderAndIsr(leader=2, isr=(2, 3)),
    ]


@pytest.mark.parametrize(
    ("written", "surely_live", "is_explained"),
    [
        (LeaderAndIsr(leader=2, isr=(2, 3)), {2, 3}, True),
        (LeaderAndIsr(leader=2, isr=(2, 3)), {1, 2, 3}, False),
        (LeaderAndIsr(leader=3, isr=(3,)), {3}, True),
        (LeaderAndIsr(leader=3, isr=(3,)), {2, 3}, False),
        (LeaderAndIsr(leader=3, isr=(2, 3)), {3}, False),
        (LeaderAndIsr(leader=1, isr=(1, 3)), {1, 3}, True),
        (LeaderAndIsr(leader=1, isr=(1,)), {1, 3}, False),
        (LeaderAndIsr(leader=1, isr=(1, 2, 3)), {1, 2, 3}, False),
        (LeaderAndIsr(leader=1, isr=(1, 2, 3)), {2, 3}, True),
    ],
    ids=[
        "the leader was not seen",
        "the leader was surely seen",
        "only the last was seen",
        "an earlier replica was surely seen",
        "who was not elected cannot stay",
        "a follower was not seen",
        "two followers at once",
        "a new epoch for nothing",
        "a leader that was away for its controller",
    ],
)
def test_a_decision_is_explained_by_what_its_controller_can_have_known(
    written: LeaderAndIsr, surely_live: set[int], is_explained: bool
) -> None:
    known = replace(context(1, 2, 3), was_away=frozenset({1, 2, 3} - surely_live))
    assert explain(known, ALL_IN_SYNC, written, surely_live=surely_live) is is_explained


@pytest.mark.parametrize(
    ("wanted", "assignment", "is_explained"),
    [((2,), (1, 2, 3), False), ((4,), (1, 2, 3, 4), True), ((2,), (2, 3), True)],
    ids=["another leads", "nobody else can lead", "it has no replica any more"],
)
def test_a_leader_that_is_not_wanted_is_removed_where_nobody_took_over(
    wanted: tuple[int, ...], assignment: tuple[int, ...], is_explained: bool
) -> None:
    removed = LeaderAndIsr(leader=NO_LEADER, isr=(2, 3))
    known = replace(context(1, 2, 3, 4), assignment=assignment)
    explained = explain(known, ALL_IN_SYNC, removed, surely_live={1, 2, 3, 4}, wanted=[wanted])
    assert explained is is_explained


SMALL = [(), (1,), (2,), (1, 2), (2, 1, 3), (1, 2, 3)]


@pytest.mark.parametrize(
    "strategy",
    [
        elect_for_offline,
        elect_for_shutdown,
        elect_preferred,
        partial(elect_for_reassignment, wanted=(3, 2)),
    ],
    ids=["offline", "shutdown", "preferred", "reassigned"],
)
@pytest.mark.parametrize("is_unclean", [False, True])
def test_what_is_elected_again_comes_out_the_same(
    strategy: Callable[[ControllerContext, LeaderAndIsr], LeaderAndIsr | None], is_unclean: bool
) -> None:
    count = 0
    for live, isr, stopping in product(SMALL, SMALL, SMALL):
        known = LeaderAndIsr(leader=2, isr=isr)
        knowing = replace(context(*live, is_unclean=is_unclean), shutting_down=frozenset(stopping))
        elected = strategy(knowing, known)
        if elected is None:
            continue
        count += 1
        # The same strategy decides about the ISR that it wrote, whoever led before.
        assert strategy(knowing, replace(elected, leader=known.leader)) == elected
        again = replace(knowing, elects_again=True)
        assert explain(again, elected, elected, surely_live=live)
    assert count > 0


@pytest.mark.slow
def test_a_single_partition_is_not_elected_again() -> None:
    """With and without the rule the explorer reaches the same decisions by as many states."""
    reached = []
    for without in ((), ("all are elected again",)):
        machine = Machine(
            generations=dict.fromkeys((0, 1), generation_for("2.3.1", without=without)),
            records=0,
            leader_epoch=2,
            log_size=0,
            faults=Faults(stops=1),
        )
        states = reachable(machine)
        written = {World(state).partition_state(PARTITION) for state in states}
        reached.append((len(states), written))
    assert reached[0] == reached[1]
    assert len(reached[0][1]) > 3


def reachable(machine: Machine) -> set[State]:
    """Return every state that a machine reaches."""
    first = initial_state(machine)
    states, waiting = {first}, [first]
    while waiting:
        state = waiting.pop()
        for action in actions(machine, state):
            after_it = next_state(machine, state, action)
            if after_it not in states:
                states.add(after_it)
                waiting.append(after_it)
    return states


def explored(*kills: int, release: str) -> State:
    """Return the state after brokers died and were missed at one look of the controller."""
    machine = Machine(
        generations=dict.fromkeys((1, 2, 3), generation_for(release)),
        records=1,
        leader_epoch=5,
        log_size=1,
        faults=Faults(kills=len(kills)),
    )
    steps: list[Action] = [
        *(Kill(broker=broker) for broker in kills),
        *(EndSession(broker=broker) for broker in kills),
        SeeBrokers(),
        Start(broker=1),
        SeeBrokers(),
    ]
    return after(machine, *steps)


@pytest.mark.parametrize("release", ["1.1.1", "2.2.2", "2.8.2"])
def test_the_explorer_leaves_one_member_in_an_isr_that_is_gone(release: str) -> None:
    written = World(explored(1, 2, 3, release=release)).partition_state(PARTITION)
    assert written is not None
    assert (written.leader_epoch, written.leader, written.isr) == (3, NO_LEADER, (3,))


def test_the_explorer_elects_uncleanly_where_that_is_allowed() -> None:
    machine = Machine(
        generations=dict.fromkeys((1, 2), generation_for("2.8.2")),
        records=1,
        leader_epoch=5,
        log_size=1,
        faults=Faults(kills=2),
        is_unclean=True,
    )
    steps: list[Action] = [
        *(Kill(broker=2), EndSession(broker=2), SeeBrokers()),
        *(Kill(broker=1), EndSession(broker=1), SeeBrokers()),
        *(Start(broker=2), SeeBrokers()),
    ]
    written = World(after(machine, *steps)).partition_state(PARTITION)
    assert written is not None
    assert (written.leader, written.isr) == (2, (2,))


@pytest.mark.parametrize(
    ("release", "written"), [("2.2.2", (1, 1, (1,))), ("2.8.2", (2, NO_LEADER, (2,)))]
)
def test_a_leader_that_was_away_for_a_new_controller_is_elected_again(
    release: str, written: tuple[int, int, tuple[int, ...]]
) -> None:
    machine = Machine(
        generations=dict.fromkeys((1, 2), generation_for(release)),
        records=1,
        leader_epoch=4,
        log_size=1,
        faults=Faults(kills=2, controllers=1),
    )
    steps: list[Action] = [
        *(Kill(broker=1), Kill(broker=2), EndSession(broker=1), EndSession(broker=2)),
        *(MoveController(), Start(broker=1), SeeBrokers()),
    ]
    known = World(after(machine, *steps)).partition_state(PARTITION)
    assert known is not None
    assert (known.leader_epoch, known.leader, known.isr) == written


@pytest.mark.parametrize(
    ("decided_by", "action"),
    [
        ("elect_for_offline", Remove(broker=0, leader=1)),
        ("remove_from_isr", Remove(broker=1, leader=0)),
        ("elect_preferred", Elect(leader=1)),
        ("elect_for_offline", Relinquish(leader=0)),
    ],
    ids=["a leader leaves", "a follower leaves", "another is preferred", "a leader gives up"],
)
@pytest.mark.parametrize("order", [(), (ISR_ORDER,)], ids=["by-assignment", "by-isr"])
def test_without_the_controllers_decision_the_explorer_chooses_no_leader(
    monkeypatch: pytest.MonkeyPatch, decided_by: str, action: Action, order: tuple[Proposal, ...]
) -> None:
    proposed = (PENDING_READS, SLOW_LEADER_GIVES_UP, *order)
    released = Machine(
        generations=dict.fromkeys((0, 1), generation_for("2.8.2")),
        records=1,
        leader_epoch=1,
        log_size=1,
        grain=Grain.READS,
    )
    machine = following(released, *proposed)
    ask, look = Ask(follower=1, leader=0), Look(follower=1, leader=0)
    answered = (Answer(follower=1, leader=0), Handle(follower=1, leader=0))
    state = after(machine, ask, ask, look, *answered, ask, look)
    assert action in actions(machine, state)

    monkeypatch.setattr(decisions, decided_by, lambda *_: None)
    assert action not in actions(machine, state)


@pytest.mark.parametrize(
    ("moves", "written"),
    [
        ((), [(0, 0, (0, 1)), (1, 0, (0, 1))]),
        (("expire",), [(0, 0, (0, 1)), (1, 1, (1,)), (2, 1, (1,))]),
        (("expire", "expire"), [(0, 0, (0, 1)), (1, 1, (1,)), (2, NO_LEADER, (1,))]),
    ],
    ids=["it stays", "it has been replaced", "nobody can lead"],
)
def test_another_order_of_the_replicas_brings_an_epoch_where_a_leader_is_there(
    moves: tuple[str, ...], written: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    setup = Setup(generations=dict.fromkeys((0, 1), generation_for("2.8.2")))
    acts = [ChaosMove(kind, number) for number, kind in enumerate(moves)]
    timeline = play(setup, (*acts, ChaosMove("reorder", 1))).timeline
    (until,) = (number for number, event in enumerate(timeline) if assigned_otherwise(event))
    states = [
        (event.leader_epoch, event.leader, event.isr)
        for event in timeline[: until + 2]
        if isinstance(event, PartitionState)
    ]
    assert states == written


def assigned_otherwise(event: Event) -> bool:
    return isinstance(event, TopicCreated) and event.assignment == ((1, 0),)
