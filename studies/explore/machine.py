"""The state machine: its actions that are enabled in a state, and the state after each.

One partition on a few brokers, under controllers that are none of them. What clients, controllers,
leaders and fetcher threads do next is open, and so is how late a broker hears of a decision. What
ends and comes back besides, processes, sessions, controllers, requests, and who holds the
partition, is bounded by the machine's faults. The transitions are those by which runs are judged;
`studies.explore` looks at every state that they lead to.

Left out: batches of several records, disks that lose something, and a controller that decides after
another was elected.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.broker import control_handling, process
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import EMPTY, Component, Read, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.model.values.requests import Controller, Outbox, Received, UpdateMetadata
from kchaos.studies.explore.actions import Action, Receive, possible_actions
from kchaos.studies.explore.bounds import (
    CONTROLLER_EPOCH,
    FAULTS,
    LAGS,
    PARTITION,
    PROMISED,
    RECORDS,
    Machine,
)
from kchaos.studies.explore.canonical import canonical, form_of, promises
from kchaos.studies.explore.controller import create
from kchaos.studies.explore.transitions import act

__all__ = ["Action", "Machine", "actions", "initial_state", "next_state"]


def initial_state(machine: Machine) -> State:
    """Return the state in which the first broker leads in epoch 0 and every broker knows that."""
    world = World(EMPTY)
    replicas = machine.assigned
    live = frozenset(machine.generations)
    seen = tuple((broker_id, 0) for broker_id in sorted(live))
    world.put(("registered",), seen)
    for broker_id, generation in machine.generations.items():
        _start(world, machine, broker_id, generation)
        told = Received(
            number=(CONTROLLER_EPOCH, 0),
            controller_epoch=CONTROLLER_EPOCH,
            request=UpdateMetadata(live=live),
        )
        control_handling.handle(world, broker_id, told)
    for epoch in machine.controller_epochs:
        # A controller's own release says whether it tells a broker that came back from another.
        _start(world, machine, machine.controller_of(epoch), machine.generations[replicas[0]])
    outboxes.topic_created(world, TopicCreated(topic=PARTITION.topic, assignment=(replicas,)))
    world.put(("controllers",), (CONTROLLER_EPOCH,))
    world.put(("last controller epoch",), CONTROLLER_EPOCH)
    first = Controller(broker=machine.controller_of(CONTROLLER_EPOCH), seen=seen)
    world.put(("controller", CONTROLLER_EPOCH), first)
    for broker_id in live:
        world.put(("outbox", CONTROLLER_EPOCH, broker_id), Outbox())
    create(world, machine)
    for broker_id in replicas:
        act(world, machine, Receive(broker=broker_id, controller_epoch=CONTROLLER_EPOCH))
    world.put(RECORDS, 0)
    world.put(PROMISED, frozenset())
    for component, value in machine.extension.components.items():
        world.put(component, value)
    world.put(LAGS, 0)
    world.put(FAULTS, machine.faults)
    changes = canonical(form_of(machine), EMPTY, world.get, world.changes)
    return EMPTY.changed({**world.changes, **changes})


def _start(world: World, machine: Machine, broker_id: int, generation: Generation) -> None:
    release = ".".join(str(part) for part in generation.versions.release)
    start = StartBroker(
        broker=broker_id, release=release, unclean_leader_election=machine.is_unclean
    )
    process.start(world, start, generation)


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
    changes = canonical(form_of(machine), read, world.get, world.changes)
    if machine.remembers_promises:
        changes[PROMISED] = promises(world, changes)
    if machine.extension.remembered is not None:
        changes |= machine.extension.remembered(World(read), action, changes)
    return changes
