"""The machine as a system of the explorer: every state that interleavings lead to.

The explorer's components are the machine's, but a broker's is only what may change of it: its
generation is no value. Brokers of one generation are alike, so that states which differ only in who
is who count as one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from itertools import permutations
from operator import attrgetter
from typing import Any

from kchaos.checkers.model.state.state import Broker, Component, Read, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.requests import LeaderAndIsr, Outbox
from kchaos.studies.explore.actions import Action, possible_actions
from kchaos.studies.explore.bounds import NO_FAULTS, Machine
from kchaos.studies.explore.canonical import varying
from kchaos.studies.explore.machine import changes_of, initial_state
from kchaos.studies.explore.properties import PROPERTIES, Property
from kchaos.studies.explorer import Move, Permutation, System


def system_of(
    machine: Machine, properties: Collection[str] = ("strong-isr",), *, is_symmetric: bool = True
) -> System:
    """Return the system whose moves are the machine's actions.

    Args:
        machine: What is explored.
        properties: Names of `studies.explore.properties.PROPERTIES` that must hold, or of
            the machine's extension.
        is_symmetric: Whether brokers that are alike may be exchanged.
    """
    state = initial_state(machine)
    names = varying(machine)
    encoding = _Encoding(state, names)
    known = {**PROPERTIES, **machine.extension.properties}
    generations = set(machine.generations.values())
    # Of several that can lead a controller takes the one that is assigned first.
    is_alike = len(generations) == 1 and machine.faults == NO_FAULTS
    is_symmetric = is_symmetric and is_alike and not machine.grain.has_queues
    return System(
        initial={name: encoding.value(name, state(name)) for name in names},
        moves=[
            Move(action, encoding.body(machine, action)) for action in possible_actions(machine)
        ],
        invariants={name: encoding.invariant(known[name]) for name in properties},
        symmetry=_symmetry(machine) if is_symmetric else (),
    )


_CHANGING_NAMES = tuple(
    field.name for field in fields(Broker) if field.name not in ("generation", "configuration")
)
_CHANGING = attrgetter(*_CHANGING_NAMES)


class _Encoding:
    """Between the machine's values and the explorer's."""

    def __init__(self, state: State, names: Collection[Component]) -> None:
        self._names = frozenset(names)
        self._constants = state
        self._brokers: dict[Any, Broker] = {}

    def value(self, component: Component, value: Any) -> Any:
        """Return what the explorer has for a value of the machine."""
        if component[0] != "broker":
            return value
        changing = _CHANGING(value)
        self._brokers.setdefault((component, changing), value)
        return changing

    def reading(self, read: Read) -> Read:
        """Return what reads the machine's components with the explorer's `read`."""

        def read_component(component: Component) -> Any:
            if component not in self._names:
                return self._constants(component)
            value = read(component)
            return self._broker(component, value) if component[0] == "broker" else value

        return read_component

    def body(self, machine: Machine, action: Action) -> Callable[[Read], Any]:
        """Return an action as a move's body."""

        def body(read: Read) -> Mapping[Component, Any] | None:
            changes = changes_of(machine, self.reading(read), action)
            if changes is None:
                return None
            return {name: self.value(name, value) for name, value in changes.items()}

        return body

    def invariant(self, wanted: Property) -> Callable[[Read], str]:
        """Return a property as an invariant."""
        return lambda read: wanted(World(self.reading(read)))

    def _broker(self, component: Component, changing: Any) -> Broker:
        broker = self._brokers.get((component, changing))
        if broker is None:
            # Another process was the first to see it.
            after = dict(zip(_CHANGING_NAMES, changing, strict=True))
            broker = replace(self._constants(component), **after)
            self._brokers[component, changing] = broker
        return broker


def _symmetry(machine: Machine) -> list[Permutation]:
    replicas = sorted(machine.generations)
    orders = [dict(zip(replicas, order, strict=True)) for order in permutations(replicas)]
    return [_exchange(order) for order in orders[1:]]


def _exchange(order: Mapping[int, int]) -> Permutation:
    """Return what lets other brokers take the places of these."""

    def component(old: Any) -> Any:
        match old:
            case ("replica" | "isr change" | "isr request" | "appended", broker, partition):
                return (old[0], order[broker], partition)
            case ("outbox", epoch, broker):
                return (old[0], epoch, order[broker])
            case ("broker" | "leaders", broker):
                return (old[0], order[broker])
            case ("thread" | "exchanges", follower, leader):
                return (old[0], order[follower], order[leader])
        return old

    def value(name: Any, old: Any) -> Any:
        match old:
            case Replica():
                return _replica(order, old)
            case PartitionState():
                return _state(order, old)
            case Outbox():
                told = tuple(
                    LeaderAndIsr(states=tuple(_state(order, state) for state in request.states))
                    for request in old.requests
                    if isinstance(request, LeaderAndIsr)
                )
                return replace(old, requests=told)
        if name[0] == "isr request" and old is not None:
            return old[0], _ids(order, old[1])
        return _ids(order, old) if name[0] == "leaders" and old is not None else old

    return Permutation(component, value)


def _ids(order: Mapping[int, int], ids: Collection[int]) -> tuple[int, ...]:
    return tuple(sorted(order[broker_id] for broker_id in ids))


def _state(order: Mapping[int, int], state: PartitionState) -> PartitionState:
    leader = order.get(state.leader, state.leader)
    return replace(state, leader=leader, isr=_ids(order, state.isr))


def _replica(order: Mapping[int, int], replica: Replica) -> Replica:
    return replace(
        replica,
        leader=None if replica.leader is None else order[replica.leader],
        isr=_ids(order, replica.isr),
        maximal_isr=_ids(order, replica.maximal_isr),
        views=tuple(sorted((order[follower], view) for follower, view in replica.views)),
    )
