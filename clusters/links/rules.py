"""The rules that a link obeys, and those in force.

Cuts come first: nothing passes a cut. Then holds are asked in the order in which they were
installed, and the first that matches decides; a message that a hold let go is not asked again.
What a forgery is about is replaced when nothing stops it any more. Disturbances are of clients,
whose links have rules of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, get_args

from kchaos.checkers import acts
from kchaos.checkers.acts import FORGED_ERRORS, Direction, ForgeAnswers
from kchaos.checkers.formats.api_keys import ApiKey, unknown_api
from kchaos.checkers.formats.link_record import LinkRecord
from kchaos.clusters.errors import AwaitTimeout, RuleRefused
from kchaos.clusters.links.details import METADATA_TOPIC
from kchaos.clusters.links.layouts import PARTITION_API_KEYS
from kchaos.clusters.links.messages import Message, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which messages a rule is about. A field that is None does not restrict.

    ``source`` is the broker that sends the request, also where ``direction`` is ``response``;
    ``target`` is the broker that answers. ``partition`` matches a message that covers it, with
    whatever else it covers: what is held is the whole message. A response covers what its request
    covered. ``fetch_offset_at_least`` (inclusive) looks at the fetch offset of ``partition``, or
    of any partition without one, and is for Fetch only.

    A Fetch of the metadata log is matched where ``target`` or ``partition`` says so: what holds the
    replication of topics leaves the news of the controllers alone.

    Raises RuleRefused when the links could never tell whether a message matches.
    """

    api_keys: frozenset[ApiKey] | None = None
    source: int | None = None
    target: int | None = None
    partition: TopicPartition | None = None
    fetch_offset_at_least: int | None = None
    direction: Direction = "request"

    def __post_init__(self) -> None:
        """Refuse what cannot be decided for any message."""
        if self.direction not in ("request", "response"):
            raise RuleRefused(f"direction is {self.direction!r}; use 'request' or 'response'")
        if self.api_keys is not None and not self.api_keys:
            raise RuleRefused("api_keys is empty and matches nothing; leave it out to match all")
        unread = sorted((self.api_keys or frozenset()) - PARTITION_API_KEYS)
        if self.partition is not None and unread:
            readable = ", ".join(sorted(key.name for key in PARTITION_API_KEYS))
            raise RuleRefused(
                f"{', '.join(ApiKey(key).name for key in unread)} cannot be matched by partition; "
                f"leave the partition out, or use some of {readable}"
            )
        if self.fetch_offset_at_least is not None and self.api_keys != frozenset({ApiKey.FETCH}):
            raise RuleRefused("fetch_offset_at_least needs api_keys=frozenset({ApiKey.FETCH})")

    def decides(self, message: Message) -> bool | None:
        """Return whether the message matches, or None if that is unknown.

        What kchaos itself delivers late was held long enough: no rule keeps it back again.
        """
        if message.client_id == acts.STALE_CLIENT_ID:
            return False
        if message.direction != self.direction:
            return False
        if self.api_keys is not None and message.api_key not in self.api_keys:
            return False
        if self.target is not None and message.target != self.target:
            return False
        if self.source is not None and message.source is not None and message.source != self.source:
            return False
        if self.target is None and self.partition is None and _reads_metadata_log(message):
            return False
        covers = self._covers(message)
        if covers is not True:
            return covers
        return None if self.source is not None and message.source is None else True

    def _covers(self, message: Message) -> bool | None:
        if self.partition is None and self.fetch_offset_at_least is None:
            return True
        offsets = message.fetch_offsets
        if self.partition is not None:
            offsets = {key: offset for key, offset in offsets.items() if key == self.partition}
        least = self.fetch_offset_at_least
        if any(least is None or (offset or 0) >= least for offset in offsets.values()):
            return True
        if self.partition is not None and offsets:
            return False
        return False if message.is_complete else None

    def to_json(self) -> dict[str, Any]:
        """Return the match in plain values, for messages; API keys by name."""
        keys = None if self.api_keys is None else sorted(ApiKey(key).name for key in self.api_keys)
        return {
            "api_keys": keys,
            "source": self.source,
            "target": self.target,
            "partition": None if self.partition is None else list(self.partition),
            "fetch_offset_at_least": self.fetch_offset_at_least,
            "direction": self.direction,
        }

    @classmethod
    def of(cls, hold: acts.Hold) -> Match:
        """Return the match of an act; nothing else makes one.

        Raises RuleRefused as the constructor does, and for half a partition or no known API.
        """
        unknown = unknown_api(hold.api)
        if unknown:
            raise RuleRefused(unknown)
        if (hold.topic is None) != (hold.partition is None):
            raise RuleRefused(
                f"hold {hold.name!r} names topic {hold.topic!r} and partition {hold.partition}: "
                "give both, or neither to hold what concerns any partition"
            )
        partition = None
        if hold.topic is not None and hold.partition is not None:
            partition = (hold.topic, hold.partition)
        return cls(
            api_keys=frozenset({ApiKey(hold.api)}),  # type: ignore[arg-type] # It takes names too.
            source=hold.source,
            target=hold.target,
            partition=partition,
            fetch_offset_at_least=hold.fetch_offset_at_least,
            direction=hold.direction,
        )


def _reads_metadata_log(message: Message) -> bool:
    return message.api_key == ApiKey.FETCH and (METADATA_TOPIC, 0) in message.fetch_offsets


class Rules:
    """The rules in force. Reading them takes no lock: each list is replaced, never changed."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.cuts: tuple[Cut, ...] = ()
        self.holds: tuple[Hold, ...] = ()
        self.forgeries: tuple[Forgery, ...] = ()
        self.disturbances: tuple[Disturbance, ...] = ()

    def install(self, rule: Rule) -> None:
        """Put a rule in force, after those that are."""
        with self.changed:
            if isinstance(rule, Cut):
                self.cuts = (*self.cuts, rule)
            elif isinstance(rule, Forgery):
                self.forgeries = (*self.forgeries, rule)
            elif isinstance(rule, Disturbance):
                self.disturbances = (*self.disturbances, rule)
            else:
                self.holds = (*self.holds, rule)

    def remove(self, rule: Rule) -> None:
        """Take a rule away and wake whatever waits at it; doing it twice does no harm."""
        with self.changed:
            if isinstance(rule, Cut) and rule in self.cuts:
                rule.look_at_senders()
            self.cuts = tuple(cut for cut in self.cuts if cut is not rule)
            self.holds = tuple(other for other in self.holds if other is not rule)
            self.forgeries = tuple(other for other in self.forgeries if other is not rule)
            self.disturbances = tuple(other for other in self.disturbances if other is not rule)
            self.changed.notify_all()

    def wake(self) -> None:
        """Let everything that waits look again."""
        with self.changed:
            self.changed.notify_all()


class _Removable:
    """Leaving the context removes the rule."""

    _rules: Rules

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rules.remove(self)  # type: ignore[arg-type]


class Cut(_Removable):
    """A cut between two brokers, or between a broker and ZooKeeper, while it lasts.

    `checkers.acts.CutLink` says what it does. With ``reset``, new connections are reset as soon as
    it is known who made them; one way and ``reset`` together mean that connections from source to
    target are reset while those from target to source live.
    """

    def __init__(self, *, rules: Rules, act: acts.CutLink | acts.CutZooKeeper) -> None:
        unknown = acts.unknown_style(act)
        if unknown:
            raise RuleRefused(unknown)
        self._rules = rules
        self.act = act
        # What is made after a cut that drops connections meets a silent one.
        self.style: acts.CutStyle = "silent" if act.style == "dropped" else act.style
        self._waiting: set[Callable[[], bool]] = set()
        self._gone: set[Callable[[], bool]] = set()

    def heal(self) -> None:
        """End the cut. Safe to call twice."""
        self._rules.remove(self)

    @property
    def is_healed(self) -> bool:
        """Whether the cut has ended."""
        return self not in self._rules.cuts

    def wait(self, is_over: Callable[[], bool], is_sender_gone: Callable[[], bool]) -> bool:
        """Return when the cut has ended, or the link that waits is over.

        ``is_sender_gone`` is asked by the thread that heals, while the one that calls this waits.

        Returns whether the sender of what waits was gone at the moment of healing: not later, or
        what happens next would depend on how soon the waiting thread gets its place.
        """
        with self._rules.changed:
            self._waiting.add(is_sender_gone)
            self._rules.changed.wait_for(lambda: is_over() or self.is_healed)
            self._waiting.discard(is_sender_gone)
            return is_sender_gone in self._gone

    def look_at_senders(self) -> None:
        """Note who is gone now, when the cut heals; `Rules` calls this, with its lock."""
        self._gone = {is_gone for is_gone in self._waiting if is_gone()}

    def involves(self, target: int | None) -> bool:
        """Return whether connections to this target can be affected."""
        if isinstance(self.act, acts.CutZooKeeper):
            return target is None
        return target in (self.act.source, self.act.target)

    def covers(self, source: int | None, target: int | None, direction: Direction) -> bool | None:
        """Return whether it stops that direction, or None if the source is unknown."""
        if not self.involves(target):
            return False
        if source is None:
            return None
        if isinstance(self.act, acts.CutZooKeeper):
            return source == self.act.broker
        pair = (self.act.source, self.act.target)
        if not self.act.one_way:
            return {source, target} == set(pair)
        if self.style == "reset" or direction == "request":
            return (source, target) == pair
        return (target, source) == pair


class Hold(_Removable):
    """Holds every message that matches, until it is released.

    A connection is an ordered stream: what follows a held message on its connection in the same
    direction waits behind it. A message whose sender has gone meanwhile is still delivered.
    """

    def __init__(self, *, rules: Rules, match: Match, act: acts.Hold | None = None) -> None:
        self._rules = rules
        self.match = match
        self.act = act
        self._waiting: dict[int, LinkRecord] = {}

    @property
    def held(self) -> tuple[LinkRecord, ...]:
        """Messages that are held now, in the order of arrival."""
        with self._rules.changed:
            return tuple(self._waiting[ticket] for ticket in sorted(self._waiting))

    def release(self) -> None:
        """Remove the rule and let everything held pass in the order of arrival. Safe to repeat."""
        self._rules.remove(self)

    @property
    def is_released(self) -> bool:
        """Whether the rule is gone."""
        return self not in self._rules.holds

    def await_held(self, count: int = 1, *, timeout_s: float, waiting_for: str) -> None:
        """Return once at least ``count`` messages are held; raise AwaitTimeout otherwise."""
        with self._rules.changed:
            if self._rules.changed.wait_for(lambda: len(self._waiting) >= count, timeout_s):
                return
            seen = [record.describe() for record in self._waiting.values()]
        raise AwaitTimeout(
            waited_for=f"{waiting_for} (held at a link: {self.match.to_json()})",
            last_seen=f"{len(seen)} held: {seen}",
            remedy="see Links.counts() for what passed; the source may be another broker",
            timeout_s=timeout_s,
        )

    def enter(self, record: LinkRecord) -> HeldPlace:
        """Add a waiting message; the relay calls this."""
        with self._rules.changed:
            self._waiting[record.sequence] = record
            self._rules.changed.notify_all()
        return HeldPlace(hold=self, ticket=record.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlace:
    """The place of one message among those that a hold holds."""

    hold: Hold
    ticket: int

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Return when the message may go: released and first in order, or its link is over."""
        rules, waiting = self.hold._rules, self.hold._waiting
        with rules.changed:
            rules.changed.wait_for(
                lambda: (
                    is_over()
                    or (self.hold not in rules.holds and self.ticket == min(waiting, default=None))
                )
            )

    def end(self) -> None:
        """Let the next message in order go. Safe to call twice."""
        with self.hold._rules.changed:
            if self.hold._waiting.pop(self.ticket, None) is not None:
                self.hold._rules.changed.notify_all()


class Disturbance(_Removable):
    """Resets connections of clients, or keeps their messages back, until it is ended."""

    def __init__(self, *, rules: Rules, act: acts.DisturbClients) -> None:
        if refused := disturbance_refused(act):
            raise RuleRefused(refused)
        self._rules = rules
        self.act = act
        self.met = 0

    def end(self) -> None:
        """Let messages pass again. Safe to call twice."""
        self._rules.remove(self)

    def meet(self, is_over: Callable[[], bool]) -> bool:
        """Keep a message back as long as it says; return whether the connection is to be reset."""
        with self._rules.changed:
            self.met += 1
            if self.act.effect != "disconnect":
                timeout_s = self.act.delay_ms / 1000 if self.act.effect == "delay" else None
                self._rules.changed.wait_for(
                    lambda: is_over() or self not in self._rules.disturbances, timeout_s
                )
        return self.act.effect == "disconnect"


def disturbance_refused(act: acts.DisturbClients) -> str:
    """Return why there is no such disturbance, or ""."""
    if act.api is not None and (unknown := unknown_api(act.api)):
        return unknown
    if act.effect not in get_args(acts.ClientEffect):
        return f"effect is {act.effect!r}; use {' or '.join(get_args(acts.ClientEffect))}"
    if (act.effect == "delay") is not (act.delay_ms > 0):
        return f"effect is {act.effect!r}, and delay_ms is {act.delay_ms}: they belong together"
    if (act.topic is None) != (act.partition is None):
        return f"disturbance {act.name!r} names a topic or a partition: name both, or neither"
    if act.topic is not None and act.api not in ("Produce", "Fetch"):
        return "a partition is read in messages of Produce and Fetch: name one of these APIs"
    return ""


class Forgery(_Removable):
    """Replaces a leader's answers to one broker's OffsetForLeaderEpoch by an error."""

    def __init__(self, *, rules: Rules, act: ForgeAnswers) -> None:
        if act.error not in FORGED_ERRORS:
            known = ", ".join(FORGED_ERRORS)
            raise RuleRefused(f"no answer can be forged to be {act.error!r}; known: {known}")
        self._rules = rules
        self.act = act
        self.error_code = FORGED_ERRORS[act.error]

    def end(self) -> None:
        """Let answers pass unchanged again. Safe to call twice."""
        self._rules.remove(self)

    def concerns(self, message: Message) -> bool:
        """Return whether it affects this message's pair of brokers."""
        return (message.source, message.target) == (self.act.source, self.act.target)


Rule = Cut | Hold | Forgery | Disturbance
