"""Time in which the machine let nothing run, and a clock for waits that leaves it out.

A thread looks once a second how long any thread of the watched processes could have run and waited
for a processor. Where that is most of the time, the cluster could not do in time what it is awaited
to do, and waits go on for as much longer. Compilers of the JVM, which always want to run, do not
count. Without Linux' /proc only the looks themselves are late.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TICK_S = 1.0
_PART = 0.5
"""Part of the time between two looks for which a thread must have waited."""
_COMPILERS = ("C1 ", "C2 ")
_NS = 1_000_000_000

_lock = threading.Lock()
_stood_s = 0.0


def awake_s() -> float:
    """Return a clock, in seconds, that stands while the machine lets nothing run."""
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
        before, looked = waits(self.pids()), time.monotonic()
        while not self._over.wait(_TICK_S):
            waited, now = waits(self.pids()), time.monotonic()
            self.take(now - looked, _longest_s(before, waited))
            before, looked = waited, now

    def take(self, between_s: float, waited_s: float) -> None:
        """Note what one look found.

        Args:
            between_s: Since the look before.
            waited_s: For how long a thread waited since then, or was found to have waited.
        """
        global _stood_s
        ended = time.time()
        late_s = between_s - _TICK_S
        seconds = min(max(waited_s, late_s), between_s)
        if seconds < _PART * between_s:
            return
        began = ended - between_s
        with _lock:
            _stood_s += seconds
        last = self.seen[-1] if self.seen else None
        if last is not None and began - last.ended < _TICK_S / 2:
            began, seconds = last.began, last.seconds + seconds
            self.seen.pop()
        self.seen.append(Standstill(began=began, ended=ended, seconds=seconds))


def waits(pids: Iterable[int]) -> dict[tuple[int, str], float]:
    """Return how long each thread of these processes waited for a processor so far, in seconds.

    By process and thread; of those that are gone meanwhile, nothing.
    """
    waited: dict[tuple[int, str], float] = {}
    for pid in {*pids, os.getpid()}:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                if not (task / "comm").read_text().startswith(_COMPILERS):
                    waited[pid, task.name] = int((task / "schedstat").read_text().split()[1]) / _NS
            except (OSError, ValueError, IndexError):
                continue  # It has ended, or this system does not say.
    return waited


def _longest_s(before: dict[tuple[int, str], float], now: dict[tuple[int, str], float]) -> float:
    since = (seconds - before[thread] for thread, seconds in now.items() if thread in before)
    return max(since, default=0.0)
