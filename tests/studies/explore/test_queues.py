"""Requests and events that wait in a broker's or the controller's queue."""

from dataclasses import replace

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.state.state import Read, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replica import Role
from kchaos.studies.explore import actions as act
from kchaos.studies.explore import system_of
from kchaos.studies.explore.bounds import PARTITION, Faults, Grain, Machine
from kchaos.studies.explore.machine import actions
from kchaos.studies.explore.queues import EVENTS, BrokerChange
from kchaos.studies.explorer import explore
from tests.support.machine_steps import after

ASK = act.Ask(follower=1, leader=0)
ARRIVE = act.Arrive(follower=1, leader=0)
LOOK = act.Look(follower=1, leader=0)
FETCH = (ASK, ARRIVE, LOOK, act.Answer(follower=1, leader=0), act.Handle(follower=1, leader=0))
APPENDED = (act.Write(leader=0), act.MoveHighWatermark(leader=0))
ISR_ASKED = act.ReachController(broker=0, api="AlterPartition")


def machine(
    release: str = "3.9.1",
    faults: Faults | None = None,
    *,
    grain: Grain = Grain.QUEUES,
    leader_epoch: int = 3,
) -> Machine:
    return Machine(
        generations=dict.fromkeys((0, 1), generation_for(release)),
        records=1,
        leader_epoch=leader_epoch,
        log_size=1,
        grain=grain,
        faults=faults or Faults(),
    )


def high_watermark(state: State, broker: int) -> int:
    return World(state).known_replica(broker, PARTITION).high_watermark


def isr(state: State) -> tuple[int, ...]:
    held = World(state).partition_state(PARTITION)
    assert held is not None
    return held.isr


def logs_leaders_and_isrs(release: str, grain: Grain) -> set[tuple[object, ...]]:
    """Return every combination of them that is reached."""
    kept = set()
    names = (("state", PARTITION), ("replica", 0, PARTITION), ("replica", 1, PARTITION))

    def note(read: Read) -> str:
        kept.add(tuple(map(read, names)))
        return ""

    system = system_of(machine(release, grain=grain, leader_epoch=1), (), is_symmetric=False)
    assert explore(replace(system, invariants={"note": note}), most_states=200_000).is_complete
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.10.2.2", "1.1.1", "2.5.1", "3.9.1"])
def test_while_nothing_ends_queues_lead_to_the_same_logs_leaders_and_isrs(release: str):
    """Every order in which queues can be worked off is an order without them, and no other is."""
    without, queued = (logs_leaders_and_isrs(release, each) for each in (Grain.READS, Grain.QUEUES))
    assert without == queued
    assert len(without) > 100


def test_a_fetch_in_the_leaders_queue_outlives_its_sender_and_one_on_its_way_does_not():
    model = machine(faults=Faults(kills=1))
    asked = after(model, *APPENDED, ASK, *FETCH, ASK)
    late = act.AnswerGivenUp(follower=1, leader=0)
    lost = after(model, act.Kill(broker=1), state=asked)
    assert late not in actions(model, lost)
    waiting = after(model, ARRIVE, act.Kill(broker=1), state=asked)
    assert high_watermark(waiting, 0) == 0
    assert high_watermark(after(model, late, late, state=waiting), 0) == 1
    assert late not in actions(machine(faults=Faults(kills=1), grain=Grain.READS), lost)


@pytest.mark.parametrize(("release", "role"), [("2.1.1", Role.LEADER), ("2.2.2", Role.NONE)])
def test_a_queue_ends_with_its_process_and_what_is_sent_again_kip_380_refuses(
    release: str, role: Role
):
    model = machine(release, Faults(kills=1))
    reach, serve = (kind(broker=1, controller_epoch=1) for kind in (act.ReachBroker, act.Serve))
    reached = after(model, act.Elect(leader=1), reach)
    assert reach not in actions(model, reached)
    killed = after(model, act.Kill(broker=1), act.Start(broker=1), state=reached)
    assert serve not in actions(model, killed)
    heard = after(model, reach, serve, state=killed)
    assert World(heard).known_replica(1, PARTITION).role is role


def test_a_request_in_a_brokers_queue_outlives_its_controller():
    model = machine(faults=Faults(controllers=1))
    reached = after(
        model,
        act.Elect(leader=1),
        act.ReachBroker(broker=1, controller_epoch=1),
        act.MoveController(),
    )
    resigned = after(model, act.Resign(controller_epoch=1), state=reached)
    assert act.ReachBroker(broker=0, controller_epoch=1) not in actions(model, resigned)
    late = act.Serve(broker=1, controller_epoch=1)
    handled = after(model, late, state=resigned)
    assert World(handled).known_replica(1, PARTITION).role is Role.LEADER
    # Without queues a request is handled while its controller is one, or never.
    without = machine(faults=Faults(controllers=1), grain=Grain.READS)
    gone = after(without, act.Elect(leader=1), act.MoveController(), act.Resign(controller_epoch=1))
    assert World(gone).outbox(1, 1) is None
    # One who has heard of the newer controller refuses it (KafkaController epochs).
    newer = (kind(broker=1, controller_epoch=2) for kind in (act.ReachBroker, act.Serve))
    fenced = after(model, *newer, state=resigned)
    assert World(after(model, late, state=fenced)).known_replica(1, PARTITION).role is Role.FOLLOWER


@pytest.mark.parametrize(("release", "live"), [("2.1.1", {1}), ("2.2.2", {0, 1})])
def test_requests_of_two_connections_are_handled_in_either_order_and_kip_380_refuses_the_older(
    release: str, live: set[int]
):
    """The controller saw broker 1 leave and come back; what it sent first is handled last."""
    model = machine(release, Faults(expiries=2), leader_epoch=5)
    reach = act.ReachBroker(broker=1, controller_epoch=1)
    # First that broker 1 leads, then that broker 0 does not live.
    state = after(model, act.EndSession(broker=0), act.SeeBrokers(), reach)
    state = after(model, act.Serve(broker=1, controller_epoch=1), reach, state=state)
    state = after(model, act.EndSession(broker=1), act.SeeBrokers(), state=state)
    state = after(
        model, act.Register(broker=0), act.Register(broker=1), act.SeeBrokers(), state=state
    )
    state = after(model, act.HearOwnEpoch(broker=1), reach, state=state)
    first, second = (act.Serve(broker=1, controller_epoch=1, place=place) for place in (0, 1))
    assert {first, second} <= set(actions(model, state))
    told = after(model, second, state=state)
    broker = World(told).broker(1)
    assert broker is not None
    assert broker.live == {0, 1}
    broker = World(after(model, first, state=told)).broker(1)
    assert broker is not None
    assert set(broker.live) == live


def test_what_a_leader_asked_for_is_written_though_its_process_has_ended():
    model = machine(faults=Faults(kills=1))
    asked = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1))
    write = act.WriteIsr(leader=0)
    assert write not in actions(model, asked)
    queued = after(model, ISR_ASKED, act.Kill(broker=0), state=asked)
    assert isr(after(model, write, state=queued)) == (0,)
    lost = after(model, act.Kill(broker=0), state=asked)
    assert ISR_ASKED not in actions(model, lost)


def test_the_controller_writes_what_was_queued_before_it_looks_who_is_gone():
    model = machine(faults=Faults(kills=1))
    queued = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1), ISR_ASKED)
    dead = after(model, act.Kill(broker=0), act.EndSession(broker=0), state=queued)
    assert World(dead).get(EVENTS)[-1] == BrokerChange()
    assert act.SeeBrokers() not in actions(model, dead)
    assert isr(after(model, act.WriteIsr(leader=0), act.SeeBrokers(), state=dead)) == (0,)


def test_what_a_leader_asked_for_under_an_earlier_registration_is_refused_and_asked_again():
    model = machine(faults=Faults(expiries=1))
    asked = after(
        model, act.Write(leader=0), act.Shrink(leader=0, follower=1), act.EndSession(broker=0)
    )
    back = after(model, ISR_ASKED, act.Register(broker=0), act.SeeBrokers(), state=asked)
    assert isr(back) == (1,)
    assert ISR_ASKED not in actions(model, back)
    refused = after(model, act.WriteIsr(leader=0), state=back)
    assert isr(refused) == (1,)
    assert ISR_ASKED in actions(model, refused)


def test_the_watch_fires_once_for_all_that_nobody_has_looked_at():
    model = machine("2.1.1", faults=Faults(expiries=2))
    ended = after(model, act.EndSession(broker=0), act.EndSession(broker=1), act.Register(broker=0))
    assert World(ended).get(EVENTS) == (BrokerChange(),)
    looked = after(model, act.SeeBrokers(), state=ended)
    assert World(looked).get(EVENTS) is None
    assert act.SeeBrokers() not in actions(model, looked)
    again = after(model, act.Register(broker=1), state=looked)
    assert World(again).get(EVENTS) == (BrokerChange(),)


def test_a_shutdown_that_was_queued_before_a_change_is_granted_before_it():
    model = machine(faults=Faults(stops=1, expiries=1))
    stop = act.ReachController(broker=0, api="ControlledShutdown")
    first = after(model, act.AskToStop(broker=0), stop, act.EndSession(broker=1))
    assert act.LetStop(broker=0) in actions(model, first)
    assert act.SeeBrokers() not in actions(model, first)
    second = after(model, act.AskToStop(broker=0), act.EndSession(broker=1), stop)
    assert act.LetStop(broker=0) not in actions(model, second)
    granted = after(model, act.LetStop(broker=0), state=first)
    assert act.Stop(broker=0) in actions(model, granted)
    seen = after(model, act.SeeBrokers(), act.LetStop(broker=0), state=second)
    assert (isr(granted), isr(seen)) == ((1,), (0,))


def test_a_process_that_is_no_more_may_be_let_go_and_its_next_life_does_not_stop():
    model = machine(faults=Faults(stops=1, kills=1))
    stop = act.ReachController(broker=0, api="ControlledShutdown")
    queued = after(model, act.AskToStop(broker=0), stop, act.Kill(broker=0), act.Start(broker=0))
    granted = after(model, act.LetStop(broker=0), state=queued)
    assert isr(granted) == (1,)
    assert act.Stop(broker=0) not in actions(model, granted)


@pytest.mark.parametrize(("release", "is_granted"), [("2.1.1", True), ("2.2.2", False)])
def test_a_shutdown_for_an_earlier_registration_is_refused_from_kip_380_on(
    release: str, is_granted: bool
):
    model = machine(release, Faults(stops=1, expiries=1))
    stop = act.ReachController(broker=0, api="ControlledShutdown")
    ended = after(
        model, act.AskToStop(broker=0), act.EndSession(broker=0), stop, act.Register(broker=0)
    )
    handled = after(model, act.SeeBrokers(), act.LetStop(broker=0), state=ended)
    assert (act.Stop(broker=0) in actions(model, handled)) is is_granted


def test_a_new_controller_begins_with_an_empty_queue_and_is_asked_again():
    model = machine(faults=Faults(controllers=1))
    asked = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1), ISR_ASKED)
    moved = after(model, act.MoveController(), state=asked)
    assert World(moved).get(EVENTS) is None
    assert isr(after(model, ISR_ASKED, act.WriteIsr(leader=0), state=moved)) == (0,)
