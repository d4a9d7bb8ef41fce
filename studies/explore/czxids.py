"""Czxids of registrations by rank: of those of a broker only the order means anything.

A broker's czxid is compared with others of that broker alone: by a controller with the one that it
has seen, by the broker with the one that a request names (KIP-380). Numbers that rise with every
registration would make new states without end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kchaos.checkers.model.state.state import Broker, Component, Read
from kchaos.checkers.model.values.requests import Received
from kchaos.studies.explore.queues import AlterPartitionReceived, ControlledShutdownReceived, Event

Places = Mapping[int, tuple[Component, ...]]
"""By broker: components that may name a czxid of its, those first that most often do."""


def next_czxid(read: Read, places: Places, broker: int) -> int:
    """Return a czxid of a broker that is greater than every one that a state names."""
    named = (
        czxid
        for component in places[broker]
        if component[0] not in _LATER
        for of, czxid in _named(component, read(component))
        if of == broker
    )
    return max(named, default=-1) + 1


def by_rank(
    before: Read, after: Read, places: Places, changes: dict[Component, Any]
) -> dict[Component, Any]:
    """Return the changes, so that each broker's czxids are numbered from 0 without a gap.

    Args:
        before: Reads the state before, in which they are numbered so.
        after: Reads the state with the changes.
        places: Where czxids are looked for.
        changes: Components with new values.
    """
    wanted: dict[int, set[int]] = {}
    for broker, czxid in _without_gaps(before, changes):
        wanted.setdefault(broker, set()).add(czxid)
    if not wanted:
        return changes
    ranked = dict(changes)

    def value_of(component: Component) -> Any:
        return ranked[component] if component in ranked else after(component)

    for broker in wanted.keys() & places.keys():
        # An explorer has to read a component that changes in any case.
        changed_first = sorted(places[broker], key=lambda component: component not in changes)
        if not _are_named(value_of, changed_first, broker, wanted[broker]):
            ranked |= _numbered(value_of, places[broker], broker)
    return ranked


def _without_gaps(before: Read, changes: Mapping[Component, Any]) -> Iterator[tuple[int, int]]:
    """Yield the czxids that something must name, or else a number is left out.

    They are those that a change names no more, and those before a new registration's.
    """
    for component, value in changes.items():
        if component[0] not in _NAMED:
            continue
        known, named = _named(component, before(component)), _named(component, value)
        if known != named:
            yield from set(known).difference(named)
            if component == ("registered",):
                new = set(named).difference(known)
                yield from ((broker, czxid - 1) for broker, czxid in new if czxid)


def _are_named(read: Read, components: Iterable[Component], broker: int, czxids: set[int]) -> bool:
    """Return whether each of these is still named; looks no further than it must."""
    left = set(czxids)
    for component in components:
        left.difference_update(
            czxid for of, czxid in _named(component, read(component)) if of == broker
        )
        if not left:
            return True
    return False


def _numbered(read: Read, components: Iterable[Component], broker: int) -> dict[Component, Any]:
    """Return the components whose czxids of a broker change when they are numbered anew."""
    values = {component: read(component) for component in components}
    named = {
        czxid
        for component, value in values.items()
        for of, czxid in _named(component, value)
        if of == broker
    }
    ranks = {czxid: rank for rank, czxid in enumerate(sorted(named))}

    def rank_of(of: int, czxid: int) -> int:
        return ranks.get(czxid, czxid) if of == broker else czxid

    renamed = {
        component: _renamed(component, value, rank_of)
        for component, value in values.items()
        if value is not None
    }
    return {component: value for component, value in renamed.items() if value != values[component]}


_LATER = ("outbox", "control")
"""Kinds that name no czxid above those that the others name."""
_ASKED = (AlterPartitionReceived, ControlledShutdownReceived)
Named = tuple[tuple[int, int], ...]


def _named(component: Component, value: Any) -> Named:
    """Return (broker, czxid) of each registration that a value names."""
    return () if value is None else _NAMED[component[0]](component, value)


def _named_by_broker(component: Component, value: Broker) -> Named:
    return ((component[1], value.epoch),) if value.epoch >= 0 else ()


def _named_in_queue(component: Component, value: tuple[Received, ...]) -> Named:
    return tuple(
        (component[1], czxid)
        for received in value
        for czxid in (received.number[1], received.broker_epoch)
        if czxid >= 0
    )


def _named_by_events(_: Component, value: tuple[Event, ...]) -> Named:
    return tuple(
        (event.broker, event.broker_epoch)
        for event in value
        if isinstance(event, _ASKED) and event.broker_epoch >= 0
    )


_NAMED: Mapping[str, Callable[[Component, Any], Named]] = {
    "registered": lambda _, value: value,
    "controller": lambda _, value: value.seen,
    "broker": _named_by_broker,
    "new epoch": lambda component, value: ((component[1], value),),
    "outbox": lambda component, value: ((component[2], value.connection),),
    "control": _named_in_queue,
    "events": _named_by_events,
}
"""By kind of component."""


def _renamed(component: Component, value: Any, rank_of: Callable[[int, int], int]) -> Any:
    """Return a value that names other czxids in place of those that it names."""
    match component:
        case ("registered",):
            return tuple((broker, rank_of(broker, czxid)) for broker, czxid in value)
        case ("controller", _):
            seen = tuple((broker, rank_of(broker, czxid)) for broker, czxid in value.seen)
            return replace(value, seen=seen)
        case ("broker", broker):
            return replace(value, epoch=rank_of(broker, value.epoch))
        case ("new epoch", broker):
            return rank_of(broker, value)
        case ("outbox", _, broker):
            return replace(value, connection=rank_of(broker, value.connection))
        case ("control", broker):
            return tuple(
                replace(
                    received,
                    number=(received.number[0], rank_of(broker, received.number[1])),
                    broker_epoch=rank_of(broker, received.broker_epoch),
                )
                for received in value
            )
    return tuple(
        replace(event, broker_epoch=rank_of(event.broker, event.broker_epoch))
        if isinstance(event, _ASKED)
        else event
        for event in value
    )
