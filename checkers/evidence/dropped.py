"""Followers that left the ISR while their leader kept a fetch of theirs unread (KIP-501).

That a fetch has arrived and is not read yet is known of the named points of Kafka's code alone: the
links do not record fetches that bring nothing new.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kchaos.checkers.acts import PauseBroker, ResumeBroker, StartBroker, StopBroker, TopicPartition
from kchaos.checkers.evidence.about import ClusterAsked, number_in
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.partition import DroppedFollower
from kchaos.checkers.formats.point_hit import FETCH_BEGUN, FETCH_COUNTED, PointHit
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    Event,
    PartitionState,
)

_FETCH_WAIT = "replica.fetch.wait.max.ms"
_FETCH_WAIT_MS = 500
"""Kafka's default, in all releases."""


# A replica id, or the client id of a fetcher thread.
_FOLLOWER = re.compile(r"(\d+)|broker-(\d+)-fetcher-\d+")
_COUNTED = re.compile(r"Replica\(replicaId=(\d+)[,)]")


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


def fetch_wait_s(cluster: ClusterAsked) -> float:
    """Return the longest time for which a leader may keep a follower's fetch without a fault."""
    settings = [cluster.properties, *(broker.properties for broker in cluster.brokers)]
    waits = [number_in(properties, _FETCH_WAIT) for properties in settings]
    return max(filter(None, waits), default=_FETCH_WAIT_MS) / 1000


def overdue_fetches(hits: Iterable[PointHit], wait_s: float) -> tuple[OverdueFetch, ...]:
    """Return the followers' fetches that leaders kept for longer than `wait_s`, in order.

    What a fault kept at a point it kept until it let it on. Otherwise a leader that tells when it
    begins to read for a fetch has kept it until it counted one of that follower's, or began anew.
    """
    fetches: dict[tuple[int, int], OverdueFetch] = {}
    begun: dict[tuple[int, int], tuple[int, int]] = {}
    for hit in hits:
        if hit.fate == "told":
            _take_report(hit, fetches, begun)
            continue
        follower = _FOLLOWER.fullmatch(hit.reader)
        if follower is None:
            continue
        number = (hit.broker, hit.number)
        if hit.fate in ("held", "delayed"):
            fetches[number] = OverdueFetch(
                follower=int(follower[1] or follower[2]), leader=hit.broker, kept_from=hit.time
            )
        elif number in fetches:
            fetches[number] = replace(fetches[number], kept_until=hit.time)
    return tuple(
        fetch for fetch in fetches.values() if _end(fetch.kept_until) - fetch.kept_from > wait_s
    )


def reported_follower(hit: PointHit) -> int | None:
    """Return the follower whose read the leader reports to begin, or to have counted."""
    named = None
    if hit.fate == "told" and hit.point == FETCH_BEGUN:
        named = _FOLLOWER.fullmatch(hit.reader)
    elif hit.fate == "told" and hit.point == FETCH_COUNTED:
        named = _COUNTED.search(hit.seen)
    return None if named is None else int(next(filter(None, named.groups())))


def _take_report(
    hit: PointHit,
    fetches: dict[tuple[int, int], OverdueFetch],
    begun: dict[tuple[int, int], tuple[int, int]],
) -> None:
    """Take a leader's report; a new read or a counted one ends the follower's previous read."""
    follower = reported_follower(hit)
    if follower is None:
        return
    who = (hit.broker, follower)
    before = begun.pop(who, None)
    if before is not None:
        fetches[before] = replace(fetches[before], kept_until=hit.time)
    if hit.point == FETCH_BEGUN:
        begun[who] = (hit.broker, hit.number)
        fetches[begun[who]] = OverdueFetch(follower=follower, leader=hit.broker, kept_from=hit.time)


def dropped_followers(
    events: Iterable[TimedEvent],
    overdue: Sequence[OverdueFetch],
    partition: TopicPartition,
    *,
    looks: Mapping[int, Sequence[float]],
    wait_s: float,
) -> Iterator[DroppedFollower]:
    """Yield each running, registered follower that left the ISR while it waited for its leader.

    Whoever waits for the leader's answer can do nothing to stay in sync; nor can one whose fetch
    was read less than `wait_s` before the leader looked. What is yielded ends when
    the follower is in the ISR again, when the partition has a leader in another leader epoch, or
    when the follower itself stops, stands still or loses its registration.

    `looks` has the ascending times at which each leader checked the ISR, where it reports them;
    ZooKeeper has the result later.
    """
    brokers = Healthy()
    before: PartitionState | None = None
    out: dict[int, DroppedFollower] = {}
    for timed in events:
        event, time = timed.event, timed.time
        ended = brokers.failed(event)
        if isinstance(event, PartitionState) and (event.topic, event.partition) == partition:
            ended = set(out) if _is_new_term(before, event) else set(out) & set(event.isr)
            out = {follower: _led(drop, event.leader, time) for follower, drop in out.items()}
            decided = _looked(looks.get(event.leader, ()), time)
            dropped = _dropped(before, event, (decided, time), overdue, wait_s)
            out |= {follower.broker: follower for follower in dropped if follower.broker in brokers}
            before = event
        for broker in ended & set(out):
            yield replace(out.pop(broker), ended_at=time)
    yield from out.values()


@dataclass(frozen=True, slots=True)
class Healthy:
    """Brokers that are registered, run and do not stand still; with KRaft they are unfenced too."""

    registered: set[int] = field(default_factory=set)
    still: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)

    def __contains__(self, broker: int) -> bool:
        return broker in self.registered and broker not in self.still | self.fenced

    def failed(self, event: Event) -> set[int]:
        """Take note of the event; return the brokers that it makes fail."""
        match event:
            case BrokerRegistered(broker=broker):
                self.registered.add(broker)
            case BrokerRegistrationChanged(broker=broker):
                self.fenced.discard(broker)
                if event.is_fenced or event.is_shutting_down:
                    self.fenced.add(broker)
                    return {broker}
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


def _looked(looks: Sequence[float], time: float) -> float:
    """Return the leader's last look before a time, or the time itself if it reports none."""
    index = bisect_right(looks, time)
    return looks[index - 1] if index else time


def _dropped(
    before: PartitionState | None,
    now: PartitionState,
    times: tuple[float, float],
    overdue: Sequence[OverdueFetch],
    wait_s: float,
) -> Iterator[DroppedFollower]:
    """Yield the followers that a continuing leader dropped while it kept their fetch.

    `times` are those of the decision and of its write.
    """
    decided, written = times
    if before is None or now.leader < 0 or now.leader != before.leader:
        return
    for follower in sorted(set(before.isr) - set(now.isr)):
        for fetch in overdue:
            is_kept = fetch.kept_from < decided < _end(fetch.kept_until) + wait_s
            if (fetch.follower, fetch.leader) == (follower, now.leader) and is_kept:
                yield DroppedFollower(
                    broker=follower,
                    leader=now.leader,
                    kept_from=fetch.kept_from,
                    dropped_at=written,
                )
                break


def _led(drop: DroppedFollower, leader: int, time: float) -> DroppedFollower:
    """Return the drop with the partition's next leader."""
    if leader < 0 and drop.leaderless_at is None:
        return replace(drop, leaderless_at=time)
    return drop


def _end(time: float | None) -> float:
    return math.inf if time is None else time
