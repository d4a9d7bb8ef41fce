"""The gate: where threads of brokers report from named points, and wait to be let on."""

from __future__ import annotations

import errno
import hmac
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kchaos.checkers.acts import HoldPoint
from kchaos.checkers.formats.point_hit import Fate, PointHit
from kchaos.clusters.agent.byteman import GO, HELLO, SKIP, GateAddress
from kchaos.clusters.agent.points import POINTS
from kchaos.clusters.errors import ClusterError

_MOST_BYTES = 1 << 16
_SKIP_S = 0.05
"""Seconds that a thread whose work is left undone waits, since it comes again at once."""
_CLOSE_S = 5.0
_SAYS_WITHIN_S = 10.0
"""A thread says all at once; whoever connects and says less is hung up on."""


class PointHold:
    """A hold that lasts until it is released; made by ``Gate.hold``."""

    def __init__(self, gate: Gate, act: HoldPoint) -> None:
        self.act = act
        self._gate = gate
        self._hits: list[PointHit] = []
        self._waiting: list[tuple[PointHit, socket.socket]] = []
        self._is_released = False

    @property
    def held(self) -> list[PointHit]:
        """Hits that it kept so far: held, delayed or skipped, oldest first."""
        with self._gate.changed:
            return list(self._hits)

    @property
    def waiting(self) -> list[PointHit]:
        """Hits that it keeps now, of processes that live; without those let on by itself."""
        with self._gate.changed:
            return [hit for hit, thread in self._waiting if not _has_ended(thread)]

    def keep(self, hit: PointHit, thread: socket.socket) -> None:
        """Note that a thread waits; the gate's lock must be held."""
        self._waiting.append((hit, thread))

    def let_on(self, hit: PointHit) -> None:
        """Note that it waits no more; likewise."""
        self._waiting = [waiting for waiting in self._waiting if waiting[0].number != hit.number]

    @property
    def is_released(self) -> bool:
        """Whether it lasts no more."""
        return self._is_released

    def release(self) -> None:
        """Let everything on, now and from now on. Safe to call twice."""
        with self._gate.changed:
            self._is_released = True
            self._gate.forget(self)
            self._gate.changed.notify_all()

    def matches(self, hit: PointHit) -> bool:
        """Return whether it concerns this hit."""
        act = self.act
        if (hit.broker, hit.point) != (act.broker, act.point):
            return False
        if act.readers != "all" and hit.is_follower != (act.readers == "followers"):
            return False
        if act.path and not _is_within(hit.seen, act.path):
            return False
        return act.topic is None or (act.topic, act.partition) in hit.partitions

    def take(self, hit: PointHit) -> None:
        """Count a hit; the gate's lock must be held."""
        self._hits.append(hit)


@dataclass(slots=True)
class Gate:
    """Listens at an address that the brokers reach; every method may be called from any thread.

    A thread that no hold concerns is let on at once. ``sink`` gets each record, in order. The host
    is loopback, or the address of a network that only the cluster's containers are on; and only who
    says the gate's token is heard, since on loopback anybody on this machine can connect.
    """

    host: str
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    changed: threading.Condition = field(default_factory=threading.Condition)
    _listener: socket.socket = field(init=False)
    _holds: list[PointHold] = field(default_factory=list)
    _records: list[PointHit] = field(default_factory=list)
    _counts: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    _sink: Callable[[PointHit], None] | None = None
    _failure: Exception | None = None
    _last_number: int = 0
    _threads: set[threading.Thread] = field(default_factory=set)
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._listener = socket.create_server((self.host, 0), backlog=128)
        threading.Thread(target=self._accept, name="gate-accept", daemon=True).start()

    @property
    def address(self) -> GateAddress:
        """Where it listens, and its token."""
        host, port = self._listener.getsockname()[:2]
        return GateAddress(host=str(host), port=int(port), token=self.token)

    @property
    def holds(self) -> dict[str, HoldPoint]:
        """The holds that last, by name."""
        with self.changed:
            return {hold.act.name: hold.act for hold in self._holds}

    def hold(self, act: HoldPoint) -> PointHold:
        """Keep what the act says from now on; raise ClusterError for a name that is in use."""
        with self.changed:
            if any(hold.act.name == act.name for hold in self._holds):
                raise ClusterError(f"a hold named {act.name!r} lasts already: name it otherwise")
            hold = PointHold(self, act)
            self._holds.append(hold)
            return hold

    def forget(self, hold: PointHold) -> None:
        """Take a hold out; the lock must be held."""
        self._holds = [other for other in self._holds if other is not hold]

    def hits(self, broker: int, point: str, *, life: int | None = None) -> int:
        """Return how often threads of a broker came to a point, in one life or in all."""
        with self.changed:
            return sum(
                count
                for (of_broker, of_life, of_point), count in self._counts.items()
                if (of_broker, of_point) == (broker, point) and life in (None, of_life)
            )

    def records(self) -> list[PointHit]:
        """Return every record so far, oldest first."""
        with self.changed:
            return list(self._records)

    def set_sink(self, sink: Callable[[PointHit], None]) -> None:
        """Give every record to the sink, those from before first, in order."""
        with self.changed:
            for record in self._records:
                sink(record)
            self._sink = sink

    def check(self) -> None:
        """Raise ClusterError if a record could not be written down."""
        if self._failure is not None:
            raise ClusterError(
                f"a hit at a point could not be recorded: {self._failure!r}"
            ) from self._failure

    def close(self) -> None:
        """Let everything on and listen no more. Safe to call twice."""
        with self.changed:
            if self._is_closed:
                return
            self._is_closed = True
            for hold in list(self._holds):
                hold.release()
            self.changed.notify_all()
            threads = list(self._threads)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + _CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="gate", daemon=True
            )
            with self.changed:
                self._threads.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_SAYS_WITHIN_S)
                token, *line = _line(connection) or [""]
                # Something else found the port, or the JVM ended before it had said all.
                if hmac.compare_digest(token.encode(), self.token.encode()):
                    connection.settimeout(None)
                    connection.sendall(self._answer(line, connection))
        except OSError:
            # The JVM ended while its thread waited: there is nobody to be let on.
            pass
        finally:
            with self.changed:
                self._threads.discard(threading.current_thread())

    def _answer(self, fields: list[str], connection: socket.socket) -> bytes:
        """Return what the thread is told, once it may be told."""
        hit, hold = self._arrived(fields)
        if hold is None:
            return GO
        with self.changed:
            hold.keep(hit, connection)
            if hit.fate == "held":
                self.changed.wait_for(lambda: hold.is_released)
            else:
                wait_s = _SKIP_S if hit.fate in _UNDONE else hold.act.delay_ms / 1000
                self.changed.wait_for(lambda: hold.is_released, timeout=wait_s)
            hold.let_on(hit)
            if hit.fate not in _UNDONE:
                fate: Fate = "gone" if _has_ended(connection) else "released"
                self._record(replace(hit, fate=fate, time=time.time()))
        if hold.act.error:
            return bytes([getattr(errno, hold.act.error)])
        return SKIP if hit.fate in _UNDONE else GO

    def _arrived(self, fields: list[str]) -> tuple[PointHit, PointHold | None]:
        """Count a hit; return it with the hold that keeps it, the oldest that matches."""
        broker, life, point, thread, reader, seen = fields
        with self.changed:
            self._last_number += 1
            hit = PointHit(
                number=self._last_number,
                time=time.time(),
                broker=int(broker),
                life=int(life),
                point=point,
                thread=thread,
                reader=reader,
                seen=seen,
                fate="passed",
            )
            key = (hit.broker, hit.life, hit.point)
            self._counts[key] += 1
            hold = next((hold for hold in self._holds if hold.matches(hit)), None)
            if hold is not None:
                hit = replace(hit, fate=_FATES[hold.act.manner], hold=hold.act.name)
                hold.take(hit)
            elif hit.point in _TOLD:
                hit = replace(hit, fate="told")
            if hit.fate != "passed" or self._counts[key] == 1:
                self._record(hit)
            self.changed.notify_all()
            return hit, hold

    def _record(self, hit: PointHit) -> None:
        self._records.append(hit)
        if self._sink is not None and self._failure is None:
            try:
                self._sink(hit)
            except Exception as error:  # noqa: BLE001 - raised by `check`
                self._failure = error

    def has_greeted(self, broker: int, life: int) -> bool:
        """Return whether the agent of this life of a broker has reported."""
        return self.hits(broker, HELLO, life=life) > 0


_FATES: dict[str, Fate] = {"hold": "held", "delay": "delayed", "skip": "skipped", "fail": "failed"}
_TOLD = frozenset(name for name, point in POINTS.items() if point.is_told)
_UNDONE = ("skipped", "failed")
_FIELDS = 7


def _is_within(seen: str, path: str) -> bool:
    """Return whether what a disk saw, "(FOLDER,FILE) …", is this folder or file, or in it."""
    parts = seen.partition(")")[0].removeprefix("(").split(",")
    wanted = path.strip("/").split("/")
    return parts[: len(wanted)] == wanted


def _has_ended(connection: socket.socket) -> bool:
    """Return whether the other side has hung up; it says nothing while it waits."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _line(connection: socket.socket) -> list[str] | None:
    """Return the fields of what a thread says, None if it did not say it to the end."""
    said = b""
    while b"\n" not in said and len(said) < _MOST_BYTES:
        more = connection.recv(4096)
        if not more:
            return None
        said += more
    fields = said.partition(b"\n")[0].decode("utf-8", "replace").split("\t", _FIELDS - 1)
    return fields if len(fields) == _FIELDS else None
