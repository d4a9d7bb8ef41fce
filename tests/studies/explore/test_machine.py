"""Actions that may happen next, and the state after each."""

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import generation_for
from kchaos.studies.documents.kip_501_proposals import PENDING_READS
from kchaos.studies.documents.proposal import Proposal, following
from kchaos.studies.explore import actions as act
from kchaos.studies.explore import isr_changes
from kchaos.studies.explore.bounds import PARTITION, Faults, Grain, Machine
from kchaos.studies.explore.machine import actions, initial_state, next_state
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explore.moves import ChaosMove
from tests.support.machine_steps import after


def machine(release: str = "1.1.1", grain: Grain = Grain.ANSWERS, leader_epoch: int = 1) -> Machine:
    return Machine(
        generations=dict.fromkeys((0, 1), generation_for(release)),
        records=2,
        leader_epoch=leader_epoch,
        log_size=2,
        grain=grain,
    )


def end_offset(state: m.State, broker: int) -> int:
    return m.World(state).known_replica(broker, PARTITION).log.log_end_offset


ASK, HANDLE = act.Ask(follower=1, leader=0), act.Handle(follower=1, leader=0)


def test_at_first_the_follower_has_not_fetched_and_anyone_but_broker_1_as_a_leader_can_act() -> (
    None
):
    model = machine()
    assert set(actions(model, initial_state(model))) == {
        act.Write(leader=0),
        act.Elect(leader=1),
        act.Remove(broker=0, leader=1),
        act.Remove(broker=1, leader=0),
        act.Shrink(leader=0, follower=1),
        ASK,
    }


def test_explorer_and_lists_ask_one_function_whose_write_of_the_isr_counts(
    monkeypatch: pytest.MonkeyPatch,
):
    model = machine()
    moves = [ChaosMove("cut", 0, 1), ChaosMove("write-one", 0), ChaosMove("shrink", 1)]

    def shrinks() -> tuple[bool, bool]:
        timeline = play(Setup(generations=model.generations), moves).timeline
        isrs = [event.isr for event in timeline if isinstance(event, m.PartitionState)]
        return act.Shrink(leader=0, follower=1) in actions(model, initial_state(model)), (
            0,
        ) in isrs

    assert shrinks() == (True, True)
    monkeypatch.setattr(isr_changes, "true_leader", lambda *_: None)
    assert shrinks() == (False, False)


@pytest.mark.parametrize(("release", "may_join"), [("3.2.3", True), ("3.3.0", False)])
def test_a_leader_takes_nobody_in_who_has_left_its_metadata_cache_since_the_fetch(
    release: str, may_join: bool
):
    model = Machine(
        generations=dict.fromkeys((0, 1), generation_for(release)),
        records=1,
        leader_epoch=1,
        log_size=1,
        faults=Faults(expiries=1),
    )
    expand = act.Expand(leader=0, follower=1)
    out = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1), act.Learn(leader=0))
    level = after(model, ASK, ASK, HANDLE, ASK, state=out)
    gone = after(model, act.EndSession(broker=1), act.SeeBrokers(), state=level)
    assert expand in actions(model, gone)

    told = after(model, act.Receive(broker=0, controller_epoch=1), state=gone)
    assert (expand in actions(model, told)) is may_join


def test_the_state_before_an_action_stays_as_it_was():
    model = machine()
    before = initial_state(model)
    written = next_state(model, before, act.Write(leader=0))
    assert (end_offset(before, 0), end_offset(written, 0)) == (0, 1)
    assert next_state(model, before, act.Write(leader=0)) == written


def test_a_record_reaches_the_follower_and_then_the_high_watermark_moves():
    model = machine()
    written = after(model, act.Write(leader=0), ASK, HANDLE, ASK, HANDLE)
    assert end_offset(written, 1) == 1
    assert m.World(written).known_replica(0, PARTITION).high_watermark == 0
    committed = next_state(model, written, ASK)
    assert m.World(committed).known_replica(0, PARTITION).high_watermark == 1


def test_an_answer_in_flight_is_handled_later():
    model = machine()
    asked = after(model, act.Write(leader=0), ASK, HANDLE, ASK)
    assert end_offset(asked, 1) == 0
    assert ASK not in actions(model, asked)
    assert end_offset(next_state(model, asked, HANDLE), 1) == 1


def test_a_broker_leads_only_once_it_has_heard_of_it():
    model = machine()
    elected = after(model, act.Elect(leader=1))
    assert act.Write(leader=1) not in actions(model, elected)
    told = next_state(model, elected, act.Deliver(broker=1, leader_epoch=1))
    assert {act.Write(leader=0), act.Write(leader=1)} <= set(actions(model, told))


def test_a_leader_takes_a_follower_out_that_is_behind_and_in_once_it_is_level():
    model = machine()
    shrink, expand = act.Shrink(leader=0, follower=1), act.Expand(leader=0, follower=1)
    behind = after(model, act.Write(leader=0))
    assert shrink in actions(model, behind)
    alone = next_state(model, behind, shrink)
    assert m.World(alone).known_replica(0, PARTITION).high_watermark == 1
    assert expand not in actions(model, alone)
    level = after(model, ASK, HANDLE, ASK, HANDLE, ASK, state=alone)
    state = m.World(next_state(model, level, expand)).partition_state(PARTITION)
    assert state is not None
    assert state.isr == (0, 1)


@pytest.mark.parametrize(
    ("release", "first_fetch", "may_fall_out"),
    [("1.1.1", (ASK, HANDLE, ASK), True), ("2.1.1", (ASK, ASK), False)],
)
def test_from_kafka_7152_on_a_level_follower_stays_in_the_isr(
    release: str, first_fetch: tuple[act.Action, ...], may_fall_out: bool
):
    model = machine(release)
    level = after(model, *first_fetch)
    assert (act.Shrink(leader=0, follower=1) in actions(model, level)) is may_fall_out


@pytest.mark.parametrize("skips", [False, True])
def test_a_broker_hears_of_epochs_in_order_unless_it_may_miss_one(skips: bool):
    model = Machine(
        generations=dict.fromkeys((0, 1), generation_for("3.9.1")),
        records=1,
        leader_epoch=2,
        log_size=1,
        skips_epochs=skips,
    )
    state = after(model, act.Elect(leader=1), act.Elect(leader=0))
    late = act.Deliver(broker=0, leader_epoch=2)
    assert (late in actions(model, state)) is skips
    assert act.Deliver(broker=0, leader_epoch=1) in actions(model, state)


def test_what_cannot_happen_is_refused_in_plain_words():
    model = machine()
    with pytest.raises(ModelError, match=r"cannot happen now that a client writes .* broker 1"):
        next_state(model, initial_state(model), act.Write(leader=1))


def test_the_bounds_end_it():
    model = machine(leader_epoch=1)
    full = after(model, act.Write(leader=0), act.Write(leader=0), act.Elect(leader=1))
    left = {type(action) for action in actions(model, full)}
    assert left.isdisjoint({act.Write, act.Elect, act.Remove})


@pytest.mark.parametrize(("proposed", "may_fall_out"), [((), True), ((PENDING_READS,), False)])
def test_by_kip_501_s_text_a_follower_stays_while_the_leader_has_its_fetch_and_no_longer(
    proposed: tuple[Proposal, ...], may_fall_out: bool
):
    released = Machine(
        generations=dict.fromkeys((0, 1), generation_for("2.8.2")),
        records=2,
        leader_epoch=1,
        log_size=2,
        grain=Grain.READS,
    )
    model = following(released, *proposed)
    shrink = act.Shrink(leader=0, follower=1)
    look, answer = act.Look(follower=1, leader=0), act.Answer(follower=1, leader=0)
    fetched = after(model, act.Write(leader=0), ASK, ASK, look, answer, HANDLE)
    pending = after(model, act.Write(leader=0), ASK, look, state=fetched)
    assert (shrink in actions(model, pending)) is may_fall_out

    answered = after(model, answer, state=pending)
    assert shrink in actions(model, answered)
