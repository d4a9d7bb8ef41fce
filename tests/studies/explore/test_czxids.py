"""Czxids by rank: what a state names of a broker's registrations is numbered from 0."""

import pytest

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.state.state import EMPTY, Broker, Component, State
from kchaos.checkers.model.values.requests import Controller, Received, UpdateMetadata
from kchaos.studies.explore.actions import Action, EndSession, Receive, Register, SeeBrokers
from kchaos.studies.explore.bounds import Faults, Machine
from kchaos.studies.explore.canonical import varying
from kchaos.studies.explore.czxids import by_rank, next_czxid
from kchaos.studies.explore.machine import initial_state
from kchaos.studies.explore.queues import EVENTS, ControlledShutdownReceived
from tests.support.machine_steps import after

REGISTERED, SEEN, PROCESS = ("registered",), ("controller", 1), ("broker", 7)
QUEUE = ("control", 7)
PLACES: dict[int, tuple[Component, ...]] = {7: (REGISTERED, SEEN, PROCESS, QUEUE, EVENTS)}


def process(epoch: int) -> Broker:
    return Broker(
        generation=generation_for("2.8.2"),
        configuration=StartBroker(broker=7, release="2.8.2"),
        epoch=epoch,
    )


def state(*, seen: int, epoch: int, told: int | None = None) -> State:
    """Broker 7 is registered with czxid 1."""
    request = Received(
        number=(1, 1), controller_epoch=1, request=UpdateMetadata(live=frozenset()), broker_epoch=1
    )
    waiting = None if told is None else (request,)
    return EMPTY.changed(
        {
            REGISTERED: ((7, 1),),
            SEEN: Controller(broker=9, seen=((7, seen),)),
            PROCESS: process(epoch),
            QUEUE: waiting,
        }
    )


def test_the_last_one_that_names_an_older_registration_lets_the_others_move_up():
    before = state(seen=0, epoch=1, told=1)
    changes = {SEEN: Controller(broker=9, seen=((7, 1),))}

    ranked = before.changed(by_rank(before, before, PLACES, changes))

    assert ranked(REGISTERED) == ((7, 0),)
    assert ranked(SEEN).seen == ((7, 0),)
    assert ranked(PROCESS).epoch == 0
    (waiting,) = ranked(QUEUE)
    assert (waiting.number, waiting.broker_epoch) == ((1, 0), 0)


def test_an_older_registration_that_something_still_names_stays_apart():
    before = state(seen=0, epoch=0)
    changes = {PROCESS: process(1)}

    assert by_rank(before, before, PLACES, changes) == changes


def test_a_new_registration_is_above_all_that_are_named():
    asked = ControlledShutdownReceived(broker=7, broker_epoch=2)
    known = state(seen=0, epoch=1).changed({EVENTS: (asked,)})

    assert next_czxid(known, PLACES, 7) == 3


@pytest.mark.slow
def test_in_which_order_two_brokers_registered_again_makes_no_other_state():
    machine = Machine(
        generations=dict.fromkeys((0, 1, 2), generation_for("2.8.2")),
        records=1,
        leader_epoch=2,
        log_size=1,
        faults=Faults(expiries=2),
    )

    def back(*brokers: int) -> list[Action]:
        told = [Receive(broker=broker, controller_epoch=1) for broker in (0, 1, 2)]
        ended = [EndSession(broker=broker) for broker in brokers]
        return [*ended, *(Register(broker=broker) for broker in brokers), SeeBrokers(), *told]

    names = varying(machine)
    first, other = after(machine, *back(1, 2)), after(machine, *back(2, 1))
    assert {name: first(name) for name in names} == {name: other(name) for name in names}
    assert first(REGISTERED) == initial_state(machine)(REGISTERED)
