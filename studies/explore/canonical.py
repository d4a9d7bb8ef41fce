"""Canonical states: what means nothing for what may happen next is left out.

Left out: checkpoints, answers to clients, what a follower still remembers of having led, epochs
that a release never looks at, answers that nobody waits for, and how often something was done.
Interleavings and schedules have the same form.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from kchaos.checkers.acts import CutLink
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import Checkpoint, Component, Read
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import FetcherThread, FollowerView, Replica, Role
from kchaos.checkers.model.values.requests import Exchange, Outbox, PartitionRequest, Stage
from kchaos.checkers.model.values.shared import Shared
from kchaos.studies.explore.bounds import (
    CONTROLLER_EPOCH,
    FAULTS,
    LAGS,
    NO_FAULTS,
    PARTITION,
    PROMISED,
    RECORDS,
    Faults,
    Grain,
    Machine,
)
from kchaos.studies.explore.controller import REASSIGNED
from kchaos.studies.explore.czxids import Places, by_rank
from kchaos.studies.explore.queues import EVENTS

_CARRYING = PartitionRequest(
    leader_epoch=0, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A state space's canonical form.

    Attributes:
        generations: Broker id to what it does, of those that have a replica.
        varies: Whether a component is part of a state; else it stays as it was at first.
        components: Those that vary, of a machine.
        places: Components that name a broker's czxids, if there may be several.
        has_queues: Whether requests wait in queues, so that connections are told apart.
        keeps_given_up: Whether a leader may still handle requests that nobody waits for.
        tells_sessions_apart: Whether it matters in which fetch session a follower asks.
        looks_at_epochs: Whether it matters under which leader epoch a follower asks.
    """

    generations: Mapping[int, Generation]
    varies: Callable[[Component], bool]
    components: tuple[Component, ...] = ()
    places: Places = field(default_factory=dict)
    has_queues: bool = False
    keeps_given_up: bool = False
    tells_sessions_apart: bool = True
    looks_at_epochs: bool = True


def form_of(machine: Machine) -> Form:
    """Return the form of a machine's states."""
    return _form_of(
        tuple(machine.generations.items()),
        machine.controller_epochs[-1],
        machine.grain,
        machine.faults,
        machine.remembers_promises,
        tuple(machine.extension.components),
    )


@cache
def _form_of(
    brokers: tuple[tuple[int, Generation], ...],
    last_controller: int,
    grain: Grain,
    faults: Faults,
    remembers_promises: bool,
    further: tuple[Component, ...],
) -> Form:
    generations = dict(brokers)
    components = _components(
        tuple(sorted(generations)), last_controller, grain, faults, remembers_promises, further
    )
    return Form(
        generations=generations,
        varies=frozenset(components).__contains__,
        components=components,
        places={broker: tuple(_places(components, broker, grain)) for broker in generations}
        if faults.has_requests
        else {},
        has_queues=grain.has_queues,
        keeps_given_up=bool(faults.time_outs) or grain.splits_reads,
        tells_sessions_apart=any(map(_tells_sessions_apart, generations.values())),
        looks_at_epochs=any(map(_looks_at_epochs, generations.values())),
    )


def _places(components: tuple[Component, ...], broker: int, grain: Grain) -> Iterator[Component]:
    """Yield where a broker's czxids are named, first where looking costs an explorer the least."""
    if grain.has_queues:
        yield ("broker", broker)
        yield from (name for name in components if name[0] == "outbox" and name[2] == broker)
    yield ("registered",)
    yield from (name for name in components if name[0] == "controller")
    if not grain.has_queues:
        yield ("broker", broker)
    for name in (("new epoch", broker), EVENTS, ("control", broker)):
        if name in components:
            yield name


def form_of_schedules(generations: Mapping[int, Generation]) -> Form:
    """Return the form of states between two acts, in which nothing is under way.

    Every broker has heard of its registration. No process ends, so that no checkpoint is read.
    """
    controller = ("controller", CONTROLLER_EPOCH)
    brokers = (*generations, max(generations) + 1)
    return Form(
        generations=generations,
        varies=lambda component: component[0] not in ("answer", "checkpoint"),
        places={broker: (("registered",), ("broker", broker), controller) for broker in brokers},
    )


def varying(machine: Machine) -> tuple[Component, ...]:
    """Return the components that may change."""
    return form_of(machine).components


def _components(
    replicas: tuple[int, ...],
    last_controller: int,
    grain: Grain,
    faults: Faults,
    remembers_promises: bool,
    further: tuple[Component, ...],
) -> tuple[Component, ...]:
    pairs = [(replica, other) for replica in replicas for other in replicas if replica != other]
    epochs = range(CONTROLLER_EPOCH, last_controller + 1)
    components: list[Component] = [RECORDS]
    components += [PROMISED] if remembers_promises else []
    components += [*further, ("state", PARTITION)]
    components += [("replica", replica, PARTITION) for replica in replicas]
    components += [("outbox", epoch, replica) for epoch in epochs for replica in replicas]
    components += [("isr change", replica, PARTITION) for replica in replicas]
    if grain.has_requests:
        components += [("isr request", replica, PARTITION) for replica in replicas]
    if grain.splits_reads:
        components += [("appended", replica, PARTITION) for replica in replicas]
    if grain.has_queues:
        components += [("control", replica) for replica in replicas]
        components += [EVENTS]
        components += [("new epoch", replica) for replica in replicas if faults.expiries]
    components += [("broker", replica) for replica in replicas]
    components += [("leaders", replica) for replica in replicas]
    components += [("thread", *pair) for pair in pairs]
    components += [("exchanges", *pair) for pair in pairs]
    return (*components, *_varying_with_faults(replicas, epochs, faults))


def _varying_with_faults(
    replicas: tuple[int, ...], epochs: range, faults: Faults
) -> Iterator[Component]:
    if faults != NO_FAULTS:
        yield FAULTS
    if faults.lags:
        yield LAGS
        yield from (("followers", replica) for replica in replicas)
    if faults.has_requests:
        yield ("registered",)
        yield ("controllers",)
        yield ("last controller epoch",)
        yield from (("controller", epoch) for epoch in epochs)
    if faults.kills or faults.stops or faults.reassignments:
        yield from (("checkpoint", replica, PARTITION) for replica in replicas)
    if faults.stops:
        yield from (("stopping", replica) for replica in replicas)
    if faults.reassignments:
        yield REASSIGNED
        yield ("assignment", PARTITION)
        yield from (("partitions", replica) for replica in replicas)


def canonical(
    form: Form, before: Read, after: Read, changes: Mapping[Component, Any]
) -> dict[Component, Any]:
    """Return the changes without what has no meaning.

    Args:
        form: The state space's.
        before: Reads the state before, which is canonical.
        after: Reads the state with the changes.
        changes: Components with new values.
    """
    kept: dict[Component, Any] = {}
    for component, value in changes.items():
        if form.varies(component):
            change = None if value is None else _CHANGES.get(component[0])
            kept[component] = value if change is None else change(form, component, value)
    return by_rank(before, after, form.places, kept) if form.places else kept


def _exchanges(form: Form, _: Component, exchanges: tuple[Exchange, ...]) -> Any:
    left = (_exchange(exchange) for exchange in exchanges if _counts(form, exchange))
    return tuple(left) or None


def _outbox(form: Form, _: Component, outbox: Outbox) -> Outbox:
    return outbox if form.has_queues else replace(outbox, is_unanswered=False, connection=0)


def _checkpoint(_: Form, __: Component, checkpoint: Checkpoint) -> Checkpoint:
    return Checkpoint(known=checkpoint.known, possible=Shared((checkpoint.known,)))


def _cuts(_: Form, __: Component, cuts: tuple[CutLink, ...]) -> tuple[CutLink, ...]:
    return tuple(sorted(cuts, key=lambda cut: (cut.source, cut.target)))


def _state(_: Form, __: Component, state: PartitionState) -> PartitionState:
    return replace(state, version=0) if state.version else state


def _counts(form: Form, request: Exchange) -> bool:
    """Return whether anybody waits for a request, or a leader may still handle it."""
    if request.is_awaited:
        return True
    return form.keeps_given_up and request.stage in (Stage.SENT, Stage.ARRIVED, Stage.READ)


def promises(world: World, changes: Mapping[Component, Any]) -> frozenset[tuple[int, str]]:
    """Return what was below some leader's high watermark up to now."""
    promised: frozenset[tuple[int, str]] = world.get(PROMISED)
    for component, value in changes.items():
        if component[0] == "replica" and value is not None and value.role is Role.LEADER:
            promised |= {
                (batch.base_offset, batch.payload)
                for batch in value.log.batches
                if batch.last_offset < value.high_watermark
            }
    return promised


def relevant_replica(generation: Generation, replica: Replica) -> Replica:
    """Return the replica without what it remembers of having led, and what its release ignores."""
    if replica.role is not Role.LEADER:
        return replace(replica, views=(), epoch_start_offset=0)
    needs_start = generation.needed_for_isr(Replica(epoch_start_offset=1)) > 0
    start = replica.epoch_start_offset if needs_start else 0
    views = tuple(
        (follower, _view(view, follower in replica.isr)) for follower, view in replica.views
    )
    return replace(replica, views=views, epoch_start_offset=start)


def _view(view: FollowerView, is_in_isr: bool) -> FollowerView:
    """Forget of an ISR member whether it has caught up and asks to join."""
    return replace(
        view,
        may_join_isr=False,
        is_caught_up=view.is_caught_up or is_in_isr,
        asks_to_join=view.asks_to_join and not is_in_isr,
    )


def _replica(form: Form, component: Component, replica: Replica) -> Replica:
    return relevant_replica(form.generations[component[1]], replica)


def _thread(form: Form, _: Component, thread: FetcherThread) -> FetcherThread:
    if not form.tells_sessions_apart:
        thread = replace(thread, session=None)
    if form.looks_at_epochs:
        return thread
    partitions = tuple(
        (partition, replace(fetch, leader_epoch=0)) for partition, fetch in thread.partitions
    )
    reset = None if thread.reset is None else replace(thread.reset, leader_epoch=0)
    return replace(thread, partitions=partitions, reset=reset)


def _tells_sessions_apart(generation: Generation) -> bool:
    inside = replace(_CARRYING, is_incremental=True)
    return generation.sees_leader_epoch(_CARRYING) != generation.sees_leader_epoch(inside)


def _looks_at_epochs(generation: Generation) -> bool:
    """Return whether it matters under which leader epoch a follower asks."""
    return (
        generation.sees_leader_epoch(_CARRYING)
        or not generation.takes_epoch_answer(0, 1)
        or not generation.takes_fetch_answer(0, 1)
    )


def _exchange(request: Exchange) -> Exchange:
    if request.stage is not Stage.ANSWERED:
        return request
    asked = tuple(
        (
            partition,
            replace(
                asked,
                carries_leader_epoch=False,
                is_incremental=False,
                requested_epoch=-1,
                ends=(),
                timestamp=None,
            ),
        )
        for partition, asked in request.asked
    )
    return replace(request, asked=asked)


_CHANGES: Mapping[str, Callable[[Form, Component, Any], Any]] = {
    "replica": _replica,
    "thread": _thread,
    "exchanges": _exchanges,
    "outbox": _outbox,
    "checkpoint": _checkpoint,
    "leaders": lambda _form, _component, leaders: leaders or None,
    "cuts": _cuts,
    "state": _state,
    "isr change": _state,
}
"""By kind of component, what is left of a value that is there."""
