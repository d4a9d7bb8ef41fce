"""What of a state has a meaning for what may happen next, so that states that are alike are equal.

Left out: checkpoints, answers to clients, what a follower still remembers of having led, epochs
that a release never looks at, and answers that nobody waits for.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checkers.model.bounds import CONTROLLER_EPOCH, PARTITION, PROMISED, RECORDS, Machine
from checkers.model.generation import Generation
from checkers.model.replica import FetcherThread, FollowerView, Replica, Role
from checkers.model.requests import Asked, Exchange, Outbox, Stage
from checkers.model.state import Component
from checkers.model.world import World

_CARRYING = Asked(leader_epoch=0, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1)


def varying(machine: Machine) -> tuple[Component, ...]:
    """Return the components that may change."""
    replicas = sorted(machine.generations)
    pairs = [(one, other) for one in replicas for other in replicas if one != other]
    return (
        RECORDS,
        *([PROMISED] if machine.remembers_promises else []),
        ("state", PARTITION),
        *(("replica", one, PARTITION) for one in replicas),
        *(("outbox", CONTROLLER_EPOCH, one) for one in replicas),
        *(("isr change", one, PARTITION) for one in replicas),
        *(("broker", one) for one in replicas),
        *(("leaders", one) for one in replicas),
        *(("thread", *pair) for pair in pairs),
        *(("exchanges", *pair) for pair in pairs),
    )


def relevant(machine: Machine, changes: Mapping[Component, Any]) -> dict[Component, Any]:
    """Return the changes without what has no meaning."""
    kept: dict[Component, Any] = {}
    for component, value in changes.items():
        kind, about = component[0], component[1:]
        match kind, value:
            case ("replica", Replica()):
                kept[component] = relevant_replica(machine.generations[about[0]], value)
            case ("thread", _) if about[0] != about[1]:
                kept[component] = value and _thread(machine, value)
            case ("exchanges", _) if about[0] != about[1]:
                awaited = [_exchange(one) for one in value or () if one.is_awaited]
                kept[component] = tuple(awaited) or None
            case ("outbox", Outbox()):
                kept[component] = replace(value, is_unanswered=False)
            case ("leaders", _):
                kept[component] = value or None
            case ("state" | "isr change" | "broker" | "records", _):
                kept[component] = value
    return kept


def promises(world: World, changes: Mapping[Component, Any]) -> frozenset[tuple[int, str]]:
    """Return what was below some leader's high watermark up to now."""
    found: frozenset[tuple[int, str]] = world.get(PROMISED)
    for component, value in changes.items():
        if component[0] == "replica" and value.role is Role.LEADER:
            found |= {
                (batch.base_offset, batch.payload)
                for batch in value.log.batches
                if batch.last_offset < value.high_watermark
            }
    return found


def relevant_replica(generation: Generation, replica: Replica) -> Replica:
    """Return the replica without what it remembers of having led, and what its release ignores."""
    if replica.role is not Role.LEADER:
        return replace(replica, views=(), epoch_start_offset=0)
    needs_start = generation.needed_for_isr(Replica(epoch_start_offset=1)) > 0
    start = replica.epoch_start_offset if needs_start else 0
    views = tuple((one, _view(view, one in replica.isr)) for one, view in replica.views)
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
    partitions = tuple((one, replace(fetch, leader_epoch=0)) for one, fetch in thread.partitions)
    return replace(thread, partitions=partitions)


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
        (one, replace(asked, carries_leader_epoch=False, is_incremental=False, requested_epoch=-1))
        for one, asked in request.asked
    )
    return replace(request, asked=asked)
