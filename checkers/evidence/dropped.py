"""Followers that left the ISR while their leader kept a fetch of theirs unread (KIP-501).

That a fetch has arrived and is not read yet is known of the named points of Kafka's code alone: the
links do not record fetches that bring nothing new.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kchaos.checkers.acts import PauseBroker, ResumeBroker, StartBroker, StopBroker, TopicPartition
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.hits import PointHit
from kchaos.checkers.evidence.partition import DroppedFollower
from kchaos.checkers.model.events import BrokerRegistered, BrokerUnregistered, Event, PartitionState

_FETCH_WAIT = "replica.fetch.wait.max.ms"
_FETCH_WAIT_MS = 500
"""Kafka's default, in all releases."""


# A replica id, or the client id of a fetcher thread.
_FOLLOWER = re.compile(r"(\d+)|broker-(\d+)-fetcher-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueFetch:
    """A follower's fetch that its leader had, and kept for too long before it read.

    Attributes:
        kept_from: In seconds since the epoch.
        kept_until: When the leader went on with it, or died; None if neither was seen.
    """

    follower: int
    leader: int
    kept_from: float
    kept_until: float | None = None


def fetch_wait_s(cluster: Any) -> float:
    """The longest that a leader of this cluster may keep a follower's fetch without fault.

    Args:
        cluster: The cluster of scenario.json, as data.
    """
    given = cluster if isinstance(cluster, Mapping) else {}
    settings = [given, *given.get("brokers", ())]
    waits = [(one.get("properties") or {}).get(_FETCH_WAIT) for one in settings]
    return max(map(int, filter(None, waits)), default=_FETCH_WAIT_MS) / 1000


def overdue_fetches(hits: Iterable[PointHit], wait_s: float) -> tuple[OverdueFetch, ...]:
    """Every follower's fetch that its leader kept for longer than `wait_s`, in their order."""
    found: dict[tuple[int, int], OverdueFetch] = {}
    for hit in hits:
        follower = _FOLLOWER.fullmatch(hit.reader)
        if follower is None:
            continue
        number = (hit.broker, hit.number)
        if hit.fate in ("held", "delayed"):
            found[number] = OverdueFetch(
                follower=int(follower[1] or follower[2]), leader=hit.broker, kept_from=hit.time
            )
        elif number in found:
            found[number] = replace(found[number], kept_until=hit.time)
    return tuple(one for one in found.values() if _end(one.kept_until) - one.kept_from > wait_s)


def dropped_followers(
    events: Iterable[TimedEvent],
    overdue: Sequence[OverdueFetch],
    about: TopicPartition,
) -> Iterator[DroppedFollower]:
    """Yields each follower that ran, was registered, waited for its leader, and left the ISR.

    Whoever waits for the leader's answer can do nothing to stay in sync. What is yielded ends when
    the follower is in the ISR again, when the partition has a leader in another leader epoch, or
    when the follower itself stops, stands still or loses its registration.
    """
    brokers = _Healthy()
    before: PartitionState | None = None
    out: dict[int, DroppedFollower] = {}
    for timed in events:
        event, time = timed.event, timed.time
        ended = brokers.failed(event)
        if isinstance(event, PartitionState) and (event.topic, event.partition) == about:
            ended = set(out) if _is_new_term(before, event) else set(out) & set(event.isr)
            out = {one: _led(drop, event.leader, time) for one, drop in out.items()}
            dropped = _dropped(before, event, time, overdue)
            out |= {one.broker: one for one in dropped if one.broker in brokers}
            before = event
        for broker in ended & set(out):
            yield replace(out.pop(broker), ended_at=time)
    yield from out.values()


@dataclass(frozen=True, slots=True)
class _Healthy:
    """Brokers that are registered, run and do not stand still."""

    registered: set[int] = field(default_factory=set)
    still: set[int] = field(default_factory=set)

    def __contains__(self, broker: int) -> bool:
        return broker in self.registered and broker not in self.still

    def failed(self, event: Event) -> set[int]:
        """Takes note of the event; returns whom it makes fail."""
        match event:
            case BrokerRegistered(broker=broker):
                self.registered.add(broker)
            case StartBroker(broker=broker) | ResumeBroker(broker=broker):
                self.still.discard(broker)
            case BrokerUnregistered(broker=broker):
                self.registered.discard(broker)
                return {broker}
            case StopBroker(broker=broker) | PauseBroker(broker=broker):
                self.still.add(broker)
                return {broker}
            case _:
                pass
        return set()


def _is_new_term(before: PartitionState | None, now: PartitionState) -> bool:
    return before is not None and now.leader >= 0 and now.leader_epoch != before.leader_epoch


def _dropped(
    before: PartitionState | None,
    now: PartitionState,
    time: float,
    overdue: Sequence[OverdueFetch],
) -> Iterator[DroppedFollower]:
    """Yields those whom a leader that goes on has dropped while it kept a fetch of theirs."""
    if before is None or now.leader < 0 or now.leader != before.leader:
        return
    for follower in sorted(set(before.isr) - set(now.isr)):
        for one in overdue:
            is_kept = one.kept_from < time < _end(one.kept_until)
            if (one.follower, one.leader) == (follower, now.leader) and is_kept:
                yield DroppedFollower(
                    broker=follower, leader=now.leader, kept_from=one.kept_from, dropped_at=time
                )
                break


def _led(drop: DroppedFollower, leader: int, time: float) -> DroppedFollower:
    """The same once the partition has this leader."""
    if leader < 0 and drop.leaderless_at is None:
        return replace(drop, leaderless_at=time)
    return drop


def _end(time: float | None) -> float:
    return math.inf if time is None else time
