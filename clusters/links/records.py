"""The journal of the links: what passed, what waited, how often."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import takewhile

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.api_keys import ApiKey, api_key_of
from kchaos.checkers.formats.link_record import Fate, LinkRecord
from kchaos.clusters.errors import AwaitTimeout, LinkError
from kchaos.clusters.links.fetches import Fetches
from kchaos.clusters.links.messages import Message
from kchaos.clusters.system.standstill import awake_s
from kchaos.clusters.system.waiting import patience


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkKey:
    """Unit of counting: one kind of message between two brokers."""

    source: int | None
    target: int | None
    api_key: ApiKey | int
    api_version: int
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounts:
    """Numbers of messages of one kind, by fate.

    ``passed`` counts all that went on, whatever they waited for before, ``abandoned`` those that
    reached nobody, ``forged`` those that went on with another body. ``undecided`` counts those for
    which a rule could not be decided; they pass. ``unread`` counts those whose version or body the
    relay cannot read; they pass as well.
    """

    passed: int = 0
    held: int = 0
    cut: int = 0
    abandoned: int = 0
    forged: int = 0
    undecided: int = 0
    unread: int = 0


_WATCH_S = 0.2
_COUNTERS = ("passed", "held", "cut", "abandoned", "forged", "undecided", "unread")


class LinkJournal:
    """Counts and records of all links. Every method may be called from any thread.

    Of each API the newest `most_of_an_api` records are kept. Whoever asks for older ones gets an
    error: a forgotten record is never taken for one that was not there. What is asked of fetches,
    of which there are most, has an index that forgets nothing.

    Attributes:
        fetches: That index.
    """

    def __init__(self, *, most_of_an_api: int = 50_000) -> None:
        self._sink: Callable[[LinkRecord], None] | None = None
        self._changed = threading.Condition()
        self._most_of_an_api = most_of_an_api
        self._kept: dict[int, deque[LinkRecord]] = {}
        self._forgotten: dict[int, int] = {}
        self.fetches = Fetches()
        self._last_sequence = 0
        self._counts: dict[tuple[int | None, int | None, int, int, Direction], dict[str, int]] = {}
        self._broken_streams = 0
        self._sink_error: Exception | None = None

    def set_sink(self, sink: Callable[[LinkRecord], None] | None, since: int | None) -> None:
        """Replace the sink; what the one before failed with is forgotten."""
        with self._changed:
            if sink is not None and since is not None:
                for record in self._since(since, ()):
                    sink(record)
            self._sink = sink
            self._sink_error = None

    @property
    def next_sequence(self) -> int:
        """The sequence number that the next record will have."""
        with self._changed:
            return self._last_sequence + 1

    def count(self, message: Message, *counters: str) -> None:
        """Count a message that gets no record."""
        with self._changed:
            self._count(message, counters)

    def _count(self, message: Message, counters: tuple[str, ...]) -> None:
        # A plain tuple: this happens for every message, and it is far cheaper to hash.
        key = (
            message.source,
            message.target,
            message.api_key,
            message.api_version,
            message.direction,
        )
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = dict.fromkeys(_COUNTERS, 0)
        for counter in counters:
            counts[counter] += 1

    def add(self, message: Message, fate: Fate, connection: int) -> LinkRecord:
        """Record and count a message; return its record."""
        counter = "passed" if fate == "released" else fate
        # The forged one that follows counts, or the one of a head did.
        counters = () if fate in ("replaced", "completed") else (counter,)
        key = api_key_of(message.api_key)
        with self._changed:
            self._count(message, counters)
            self._last_sequence += 1
            record = LinkRecord(
                sequence=self._last_sequence,
                monotonic_s=time.monotonic(),
                wall_time_s=time.time(),
                connection=connection,
                source=message.source,
                target=message.target,
                api_key=message.api_key,
                api=key.spelled if isinstance(key, ApiKey) else None,
                api_version=message.api_version,
                correlation_id=message.correlation_id,
                client_id=message.client_id,
                direction=message.direction,
                fate=fate,
                detail=message.detail,
            )
            self.keep(record)
            if self._sink is not None and self._sink_error is None:
                try:
                    self._sink(record)
                except Exception as error:  # noqa: BLE001 - raised by check() in the caller's thread
                    self._sink_error = error
            self._changed.notify_all()
        return record

    def keep(self, record: LinkRecord) -> None:
        """Keep a record, and forget the oldest of its API if there are too many."""
        with self._changed:
            kept = self._kept.setdefault(record.api_key, deque())
            kept.append(record)
            if len(kept) > self._most_of_an_api:
                self._forgotten[record.api_key] = kept.popleft().sequence
            self.fetches.add(record)

    def broken_stream(self) -> None:
        """Count a connection whose bytes stopped to be Kafka's protocol."""
        with self._changed:
            self._broken_streams += 1

    @property
    def broken_streams(self) -> int:
        """Number of connections that are passed on as bytes because their frames made no sense."""
        with self._changed:
            return self._broken_streams

    def counts(self) -> dict[LinkKey, LinkCounts]:
        """Return a copy of the counts."""
        with self._changed:
            return {
                LinkKey(
                    source=source,
                    target=target,
                    api_key=api_key_of(api_key),
                    api_version=api_version,
                    direction=direction,
                ): LinkCounts(**counts)
                for (source, target, api_key, api_version, direction), counts in (
                    self._counts.items()
                )
            }

    def log(self, since: int, *api_keys: int) -> list[LinkRecord]:
        """Return the records of these APIs, or of all, from ``since`` on, oldest first.

        Raises:
            LinkError: Some of them are no longer kept.
        """
        with self._changed:
            return self._since(since, api_keys)

    def _since(self, since: int, api_keys: Collection[int]) -> list[LinkRecord]:
        found: list[LinkRecord] = []
        for api_key in api_keys or self._kept:
            forgotten = self._forgotten.get(api_key, 0)
            if forgotten and since <= forgotten:
                raise LinkError(
                    f"links keep the newest {self._most_of_an_api} records of an API, and none of "
                    f"{api_key_of(api_key)!r} up to record {forgotten}: ask for later ones than "
                    f"{since}, or read links.jsonl"
                )
            newest_first = reversed(self._kept.get(api_key, ()))
            found += takewhile(lambda record: record.sequence >= since, newest_first)
        return sorted(found, key=lambda record: record.sequence)

    def check(self) -> None:
        """Raise LinkError if the sink failed to take a record."""
        with self._changed:
            error = self._sink_error
        if error is not None:
            raise LinkError(
                f"the link log could not be written: {error!r}; it is incomplete, "
                "so treat the run as unknown"
            ) from error

    def await_record(
        self,
        predicate: Callable[[LinkRecord], bool],
        *,
        timeout_s: float,
        waiting_for: str,
        since: int | None,
        abort: Callable[[], None] | None,
        api_keys: Collection[int],
    ) -> LinkRecord:
        """Return the first record from ``since`` on (None: from now on) that fulfils it."""
        timeout_s *= patience()
        deadline = awake_s() + timeout_s
        next_sequence = self.next_sequence if since is None else since
        last_seen = "no record"
        while True:
            wait_s = max(0.0, deadline - awake_s())
            if abort is not None:
                wait_s = min(wait_s, _WATCH_S)
            with self._changed:
                self._changed.wait_for(lambda: self._last_sequence >= next_sequence, wait_s)  # noqa: B023
                fresh = self._since(next_sequence, api_keys)
                next_sequence = max(next_sequence, self._last_sequence + 1)
            self.check()
            for record in fresh:
                if predicate(record):
                    return record
            if fresh:
                last_seen = fresh[-1].describe()
            if abort is not None:
                abort()
            if awake_s() >= deadline:
                raise AwaitTimeout(
                    waited_for=f"{waiting_for} at a link",
                    last_seen=last_seen,
                    remedy="see Links.counts() for what passed, idle fetches included",
                    timeout_s=timeout_s,
                )
