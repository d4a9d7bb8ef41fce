"""Time in which the machine let nothing run, and a clock for waits that leaves slow times out.

A thread looks once a second how long each thread of the watched processes ran, and waited for a
processor. Where some thread waited for most of the time, the machine is slow, and waits go on for
as much longer. Only where that thread got less than a quarter of the time that it asked for, the
machine stood still: a busy thread waits on every machine that others use. Compilers of the JVM,
which always want to run, do not count. Without Linux' /proc only the looks themselves are late.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICK_S = 1.0
_PART = 0.5
"""Part of the time between two looks for which a thread must have waited."""
_STARVED = 0.25
"""A thread is starved that ran for less than this part of the time in which it could have run."""
_COMPILERS = ("C1 ", "C2 ")
_NS = 1_000_000_000

_lock = threading.Lock()
_stood_s = 0.0


def awake_s() -> float:
    """Return a clock, in seconds, that stands while the machine is slow."""
    with _lock:
        return time.monotonic() - _stood_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which nothing ran.

    Attributes:
        began: Seconds since the epoch; `ended` likewise.
        seconds: For how long of that a thread waited.
    """

    began: float
    ended: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """For how many seconds a thread ran, and for how many it could have run and waited."""

    ran_s: float
    waited_s: float

    def __sub__(self, before: "Share") -> "Share":
        return Share(ran_s=self.ran_s - before.ran_s, waited_s=self.waited_s - before.waited_s)

    @property
    def is_starved(self) -> bool:
        """Whether it got less than a quarter of what it asked for."""
        return self.ran_s < _STARVED * (self.ran_s + self.waited_s)


@dataclass(slots=True)
class StandstillWatch:
    """Watch over processes, from `start` to `stop`.

    Attributes:
        pids: Tells which processes run now.
        seen: Every standstill so far, in order; those that touch are one.
    """

    pids: Callable[[], Iterable[int]]
    seen: list[Standstill] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._watch, name="standstill", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; a second time does nothing."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        before, looked = shares(self.pids()), time.monotonic()
        while not self._over.wait(_TICK_S):
            after, now = shares(self.pids()), time.monotonic()
            since = [after[each] - before[each] for each in after.keys() & before.keys()]
            self.take(now - looked, since)
            before, looked = after, now

    def take(self, between_s: float, since: Sequence[Share]) -> None:
        """Note what one look found.

        Args:
            between_s: Since the look before.
            since: What each thread got since then.
        """
        global _stood_s
        ended = time.time()
        began, late_s = ended - between_s, between_s - _TICK_S
        slow_s = min(max(late_s, *(each.waited_s for each in since), 0.0), between_s)
        starved = (each.waited_s for each in since if each.is_starved)
        still_s = min(max(late_s, *starved, 0.0), between_s)
        if slow_s >= _PART * between_s:
            with _lock:
                _stood_s += slow_s
        if still_s < _PART * between_s:
            return
        last = self.seen[-1] if self.seen else None
        if last is not None and began - last.ended < _TICK_S / 2:
            began, still_s = last.began, last.seconds + still_s
            self.seen.pop()
        self.seen.append(Standstill(began=began, ended=ended, seconds=still_s))


def shares(pids: Iterable[int]) -> dict[tuple[int, str], Share]:
    """Return what each thread of these processes got of a processor so far.

    By process and thread; of those that are gone meanwhile, nothing.
    """
    got: dict[tuple[int, str], Share] = {}
    for pid in {*pids, os.getpid()}:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                if not (task / "comm").read_text().startswith(_COMPILERS):
                    ran, waited, _ = (task / "schedstat").read_text().split()
                    got[pid, task.name] = Share(ran_s=int(ran) / _NS, waited_s=int(waited) / _NS)
            except (OSError, ValueError):
                continue  # It has ended, or this system does not say.
    return got
