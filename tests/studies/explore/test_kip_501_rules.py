"""KIP-501's solutions as rules of the machine; each rule once left out and once followed."""

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.state.world import World
from kchaos.studies.documents.kip_501_properties import weighing
from kchaos.studies.documents.kip_501_proposals import (
    CAUGHT_UP_NOW,
    ISR_ORDER,
    PENDING_READS,
    SLOW_LEADER_GIVES_UP,
    Relinquish,
)
from kchaos.studies.documents.proposal import Proposal, following
from kchaos.studies.explore import system_of
from kchaos.studies.explore.actions import Action, Answer, Ask, Handle, Look, PassLag, Shrink, Write
from kchaos.studies.explore.bounds import PARTITION, Faults, Grain, Machine
from kchaos.studies.explore.machine import actions
from kchaos.studies.explorer import explore
from tests.support.machine_steps import after

pytestmark = pytest.mark.slow

WRITE, SHRINK = Write(leader=0), Shrink(leader=0, follower=1)
ASK, LOOK = Ask(follower=1, leader=0), Look(follower=1, leader=0)
ANSWER, HANDLE = Answer(follower=1, leader=0), Handle(follower=1, leader=0)
FETCHED = (ASK, LOOK, ANSWER, HANDLE)


def machine(*proposed: Proposal, **faults: int) -> Machine:
    released = Machine(
        generations=dict.fromkeys((0, 1), generation_for("2.8.2")),
        records=1,
        leader_epoch=1,
        log_size=1,
        grain=Grain.READS,
        faults=Faults(**faults),
    )
    return following(released, *proposed)


def may_shrink(model: Machine, *steps: Action) -> bool:
    return SHRINK in actions(model, after(model, *steps))


def test_with_a_clock_a_leader_drops_nobody_before_the_lag_has_passed():
    steps = (ASK, *FETCHED, WRITE)

    assert may_shrink(machine(), *steps)
    assert not may_shrink(machine(lags=1), *steps)
    assert may_shrink(machine(lags=1), *steps, PassLag())


def test_a_follower_that_fetches_at_the_end_after_the_lag_has_passed_has_caught_up_again():
    level = (ASK, *FETCHED, PassLag(), *FETCHED, WRITE)

    assert not may_shrink(machine(lags=2), *level)
    assert may_shrink(machine(lags=2), *level, PassLag())


@pytest.mark.parametrize(("proposed", "dropped"), [((), True), ((CAUGHT_UP_NOW,), False)])
def test_a_read_that_takes_as_long_as_the_lag_counts_from_its_begin_or_from_its_end(
    proposed: tuple[Proposal, ...], dropped: bool
):
    slow_read = (ASK, *FETCHED, ASK, LOOK, PassLag(), ANSWER, WRITE)

    assert may_shrink(machine(*proposed, lags=1), *slow_read) is dropped


@pytest.mark.parametrize(("proposed", "dropped"), [((), True), ((PENDING_READS,), False)])
def test_while_the_read_takes_longer_than_the_lag_only_the_pending_half_keeps_the_follower(
    proposed: tuple[Proposal, ...], dropped: bool
):
    being_read = (ASK, *FETCHED, WRITE, ASK, LOOK, PassLag())

    assert may_shrink(machine(*proposed, lags=1), *being_read) is dropped
    assert may_shrink(machine(*proposed, CAUGHT_UP_NOW, lags=1), *being_read) is dropped


def test_a_leader_gives_up_only_while_it_keeps_a_fetch_of_a_follower_that_kept_up():
    model = machine(PENDING_READS, SLOW_LEADER_GIVES_UP)
    give_up = Relinquish(leader=0)

    assert give_up not in actions(model, after(model, ASK, *FETCHED))
    assert give_up in actions(model, after(model, ASK, *FETCHED, ASK, LOOK))
    shipped = machine()
    assert give_up not in actions(shipped, after(shipped, ASK, *FETCHED, ASK, LOOK))


@pytest.mark.parametrize(("order", "leads"), [((), 0), ((ISR_ORDER,), 1)])
def test_who_gives_up_is_elected_again_unless_elections_go_by_the_isr(
    order: tuple[Proposal, ...], leads: int
):
    model = machine(PENDING_READS, SLOW_LEADER_GIVES_UP, *order)

    state = after(model, ASK, *FETCHED, ASK, LOOK, Relinquish(leader=0))

    held = World(state).partition_state(PARTITION)
    assert held is not None
    assert (held.leader, held.leader_epoch) == (leads, 1)


def test_a_dead_follower_whose_fetch_is_pending_stays_by_the_first_half():
    for proposed, breaks in (((), False), ((PENDING_READS,), True)):
        model = weighing(machine(*proposed, kills=1, lags=1), ["droppable"])
        explored = explore(system_of(model, ["droppable"]), most_states=20_000)
        assert (explored.violation is not None) is breaks


def test_shipped_code_takes_a_partition_offline_whose_follower_had_kept_up():
    model = weighing(machine(kills=1, lags=1), ["online-if-kept-up"])

    explored = explore(system_of(model, ["online-if-kept-up"]), most_states=400_000)

    assert explored.violation is not None
    names = [type(move).__name__ for move in explored.violation.trace]
    # Of several that are as short, any may be found.
    assert (len(names), "PassLag" in names) == (14, True)
    assert names[-5:] == ["Shrink", "WriteIsr", "Kill", "EndSession", "SeeBrokers"]
