"""The machine: what may happen next in a state, and the state after it.

One partition on brokers that run all the time, under a controller that is none of them. What
clients, controller, leaders and fetcher threads do next is open, and so is how late a broker hears
of a decision. The transitions are those by which runs are judged; `checkers.exploring` looks at
every state that they lead to.

Left out: broker failures other than a broker that leaves the ISR and goes on, batches of several
records, and requests that a fetcher thread gave up and that still reach the leader.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.acts import StartBroker
from checkers.errors import ModelError
from checkers.model import control, process
from checkers.model.acting import act, decide
from checkers.model.actions import (
    Action,
    Answer,
    Ask,
    Deliver,
    Elect,
    Expand,
    Handle,
    Learn,
    Remove,
    Shrink,
    Write,
)
from checkers.model.bounds import CONTROLLER_EPOCH, PARTITION, PROMISED, RECORDS, Grain, Machine
from checkers.model.events import TopicCreated
from checkers.model.relevance import promises, relevant
from checkers.model.requests import Controller, Outbox, UpdateMetadata
from checkers.model.state import EMPTY, Component, Read, State
from checkers.model.world import World

__all__ = ["Action", "Grain", "Machine", "actions", "initial_state", "next_state"]


def initial_state(machine: Machine) -> State:
    """Return the state in which the first broker leads in epoch 0 and every broker knows that."""
    world = World(EMPTY)
    replicas = tuple(machine.generations)
    for broker_id, generation in machine.generations.items():
        release = ".".join(str(part) for part in generation.versions.release)
        process.start(world, StartBroker(broker=broker_id, release=release), generation)
        told = UpdateMetadata(live=frozenset(replicas))
        control.handle(world, broker_id, CONTROLLER_EPOCH, told)
    control.topic_created(world, TopicCreated(topic=PARTITION.topic, assignment=(replicas,)))
    seen = tuple((broker_id, 0) for broker_id in replicas)
    world.put(("controllers",), (CONTROLLER_EPOCH,))
    world.put(("controller", CONTROLLER_EPOCH), Controller(broker=-1, seen=seen))
    for broker_id in replicas:
        world.put(("outbox", CONTROLLER_EPOCH, broker_id), Outbox())
    decide(world, replicas[0], 0, replicas)
    for broker_id in replicas:
        act(world, machine, Deliver(broker=broker_id, leader_epoch=0))
    world.put(RECORDS, 0)
    world.put(PROMISED, frozenset())
    return EMPTY.changed({**world.changes, **relevant(machine, world.changes)})


def possible_actions(machine: Machine) -> Iterator[Action]:
    """Yield every action that may happen in some state, in a fixed order."""
    replicas = sorted(machine.generations)
    for one in replicas:
        yield Write(leader=one)
        yield Elect(leader=one)
        yield Learn(leader=one)
        for leader_epoch in range(1, machine.leader_epoch + 1):
            yield Deliver(broker=one, leader_epoch=leader_epoch)
    for one in replicas:
        for other in replicas:
            if one != other:
                yield from _actions_between(machine, one, other)


def actions(machine: Machine, state: State) -> Iterator[Action]:
    """Yield what may happen next in a state."""
    for action in possible_actions(machine):
        if changes_of(machine, state, action) is not None:
            yield action


def next_state(machine: Machine, state: State, action: Action) -> State:
    """Return the state after an action.

    Raises:
        ModelError: It cannot happen in that state.
    """
    changes = changes_of(machine, state, action)
    if changes is None:
        raise ModelError(f"it cannot happen now that {action}; `actions` yields what can")
    return state.changed(changes)


def changes_of(machine: Machine, read: Read, action: Action) -> Mapping[Component, Any] | None:
    """Return the components that an action changes, None where it cannot happen."""
    world = World(read)
    if not act(world, machine, action):
        return None
    changes = relevant(machine, world.changes)
    if machine.remembers_promises:
        changes[PROMISED] = promises(world, changes)
    return changes


def _actions_between(machine: Machine, one: int, other: int) -> Iterator[Action]:
    yield Remove(broker=one, leader=other)
    yield Shrink(leader=one, follower=other)
    yield Expand(leader=one, follower=other)
    yield Ask(follower=one, leader=other)
    if machine.grain is Grain.REQUESTS:
        yield Answer(follower=one, leader=other)
    if machine.grain is not Grain.ROUNDS:
        yield Handle(follower=one, leader=other)
