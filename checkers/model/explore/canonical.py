"""Canonical states: what means nothing for what may happen next is left out.

Left out: checkpoints, answers to clients, what a follower still remembers of having led, epochs
that a release never looks at, and answers that nobody waits for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kchaos.checkers.model.explore.acts import CZXID
from kchaos.checkers.model.explore.bounds import (
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
from kchaos.checkers.model.explore.controller import REASSIGNED
from kchaos.checkers.model.explore.queues import EVENTS
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import Broker, Checkpoint, Component
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import FetcherThread, FollowerView, Replica, Role
from kchaos.checkers.model.values.requests import (
    Controller,
    Exchange,
    Outbox,
    PartitionRequest,
    Stage,
)

_CARRYING = PartitionRequest(
    leader_epoch=0, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1
)


def varying(machine: Machine) -> tuple[Component, ...]:
    """Return the components that may change."""
    return _varying(
        tuple(sorted(machine.generations)),
        machine.controller_epochs[-1],
        machine.grain,
        machine.faults,
        machine.remembers_promises,
        tuple(machine.extension.components),
    )


@cache
def _varying(
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
        yield ("last czxid",)
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


def relevant(machine: Machine, changes: Mapping[Component, Any]) -> dict[Component, Any]:
    """Return the changes without what has no meaning."""
    kept: dict[Component, Any] = {}
    names = varying(machine)
    for component, value in changes.items():
        if component not in names:
            continue
        kind, subject = component[0], component[1:]
        match kind, value:
            case ("replica", Replica()):
                value = relevant_replica(machine.generations[subject[0]], value)
            case ("thread", FetcherThread()):
                value = _thread(machine, value)
            case ("exchanges", _):
                left = (
                    _exchange(exchange) for exchange in value or () if _counts(machine, exchange)
                )
                value = tuple(left) or None
            case ("outbox", Outbox()) if not machine.grain.has_queues:
                value = replace(value, is_unanswered=False, connection=0)
            case ("checkpoint", Checkpoint()):
                value = Checkpoint(known=value.known, possible=(value.known,))
        kept[component] = None if kind == "leaders" and not value else value
    return kept


def without_counts(generations: Mapping[int, Generation], component: Component, value: Any) -> Any:
    """Return the value without what says only how often something was done before.

    This is the form for schedules, in which nothing is under way between two acts; `relevant` is
    that for interleavings.
    """
    match component[0], value:
        case _, None:
            return None
        case "answer", _:
            return None
        case "checkpoint", _:
            return Checkpoint()
        case "cuts", _:
            return tuple(sorted(value, key=lambda cut: (cut.source, cut.target)))
        case "replica", _:
            generation = generations.get(component[1])
            return value if generation is None else relevant_replica(generation, value)
        case "registered", _:
            return tuple((broker, CZXID) for broker, _ in value)
        case _, Broker():
            # After each act everybody has heard of every registration.
            return replace(value, epoch=min(value.epoch, CZXID))
        case _, Controller():
            return replace(value, seen=tuple((broker, CZXID) for broker, _ in value.seen))
        case _, PartitionState():
            return replace(value, version=0)
    return value


def _counts(machine: Machine, request: Exchange) -> bool:
    """Tell whether anybody waits for a request, or a leader may still handle it."""
    if request.is_awaited:
        return True
    keeps = machine.faults.time_outs or machine.grain.splits_reads
    return bool(keeps) and request.stage in (Stage.SENT, Stage.ARRIVED, Stage.READ)


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
    """Whether a follower has caught up and asks to join says nothing of a member of the ISR."""
    return replace(
        view,
        may_join_isr=False,
        is_caught_up=view.is_caught_up or is_in_isr,
        asks_to_join=view.asks_to_join and not is_in_isr,
    )


def _thread(machine: Machine, thread: FetcherThread) -> FetcherThread:
    generations = machine.generations.values()
    if not any(map(_tells_sessions_apart, generations)):
        thread = replace(thread, session=None)
    if any(map(_looks_at_epochs, generations)):
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
    """Tell whether it matters under which leader epoch a follower asks."""
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
