"""Child processes that do not outlive the process that started them."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from kchaos.checkers.children import dying_with_parent
from kchaos.clusters.system.waiting import await_until

_KILL_S = 30.0


class Process(Protocol):
    """A running or ended JVM, wherever a driver runs it."""

    @property
    def pid(self) -> int | None:
        """Its process id on this machine, None when it has ended or cannot be seen from here."""

    @property
    def name(self) -> str:
        """Name, such as ``broker 1``."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""

    @property
    def is_paused(self) -> bool:
        """Whether it is frozen."""

    @property
    def cause_of_death(self) -> str:
        """Why it ended, as far as more than its exit code is known; else empty."""

    def kill(self) -> None:
        """End it with SIGKILL and wait until it is gone. Safe to call twice."""

    def stop(self, timeout_s: float) -> None:
        """Ask it to end (SIGTERM) and wait until it is gone; raise AwaitTimeout otherwise."""

    def pause(self) -> None:
        """Freeze it."""

    def resume(self) -> None:
        """Let it go on."""


class Ending(Protocol):
    """A handle that knows when a process has ended, as `subprocess.Popen` does."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process that this process started, or had started.

    ``start_time`` is the kernel's, in clock ticks since boot: with the pid it names the process
    for good, where a pid alone may be taken by another one later.
    """

    pid: int
    start_time: int
    name: str
    log_file: Path
    ending: Ending

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while the process runs."""
        return self.ending.poll()

    @property
    def is_running(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self.exit_code is None

    @property
    def is_paused(self) -> bool:
        """Whether the kernel calls each of its threads stopped; they stop one by one."""
        threads = f"/proc/{self.pid}/task"
        try:
            # Gates ask this all the time: the first thread that runs is answer enough.
            # A process that has just ended has none for a moment.
            listed = os.listdir(threads)
            return bool(listed) and all(_state_of(f"{threads}/{each}") == "T" for each in listed)
        except OSError:
            return False

    @property
    def cause_of_death(self) -> str:
        """Nothing: the exit code says all that is known."""
        return ""

    def pause(self) -> None:
        """Freeze the process (SIGSTOP)."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        self.send(signal.SIGCONT)

    def stop(self, timeout_s: float) -> None:
        """Let the process go on if it was frozen, send SIGTERM and wait until it is gone."""
        if self.is_running:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self.await_exit(timeout_s)

    def send(self, signal_number: int) -> None:
        """Send a signal if the process still runs."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    def await_exit(self, timeout_s: float) -> int:
        """Return the exit code once the process has ended; raise AwaitTimeout if it does not."""
        return await_until(
            self.ending.poll,
            timeout_s=timeout_s,
            waiting_for=f"{self.name} (pid {self.pid}) to exit",
            last_seen=lambda: "it still runs",
            remedy=f"see {self.log_file}",
        )

    def kill(self, timeout_s: float = _KILL_S) -> None:
        """End the process with SIGKILL and wait until it is gone."""
        self.send(signal.SIGKILL)
        self.await_exit(timeout_s)


def process_start_time(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is none.

    A zombie counts as none: it runs no longer.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in ("Z", "X") else int(after_name[19])


def process_table() -> str:
    """Name the table that pids are from: this boot's, and this pid namespace's."""
    return f"{boot_id()} {Path('/proc/self/ns/pid').readlink()}"


def boot_id() -> str:
    """Return the kernel's name of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _state_of(task: str) -> str:
    """Return the kernel's letter for a thread's state, such as "T" for stopped."""
    with open(f"{task}/stat", encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def kill_by_identity(pid: int, start_time: int) -> bool:
    """End a process of another owner with SIGKILL if it still is the one that is meant.

    Returns whether there was something to end; waits until it is gone.
    """
    if process_start_time(pid) != start_time:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await_until(
        lambda: process_start_time(pid) != start_time,
        timeout_s=_KILL_S,
        waiting_for=f"process {pid} to be gone after SIGKILL",
        last_seen=lambda: f"it started at tick {process_start_time(pid)}",
    )
    return True


def spawn(
    argv: Sequence[str],
    *,
    log_file: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    name: str = "",
    stdin: int = subprocess.DEVNULL,
    keeps: Sequence[int] = (),
) -> Child:
    """Start a process that the kernel kills when this process ends, however it ends.

    Its output is appended to ``log_file``; ``env`` is its whole environment, None for ours;
    ``stdin`` is a descriptor that it reads, and ``keeps`` are others that it has. It gets a
    session of its own, so that Ctrl-C in the terminal reaches only this process.
    """
    start = partial(_start, list(argv), log_file, env, cwd, name or argv[0], stdin, keeps)
    return _spawner().call(start)


def _start(
    argv: list[str],
    log_file: Path,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    name: str,
    stdin: int,
    keeps: Sequence[int],
) -> Child:
    with log_file.open("ab") as log:
        popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=keeps,
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )
    started = process_start_time(popen.pid) or 0
    return Child(pid=popen.pid, start_time=started, name=name, log_file=log_file, ending=popen)


class _Spawner:
    """The one thread that starts children and never ends before the process does.

    The parent-death signal comes when the *thread* that started the child ends, so a child
    started from a short-lived thread would be killed too early.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._wanted: queue.SimpleQueue[tuple[Callable[[], Child], Future[Child]]]
        self._wanted = queue.SimpleQueue()
        threading.Thread(target=self._run, name="kchaos-spawner", daemon=True).start()

    def call(self, start: Callable[[], Child]) -> Child:
        future: Future[Child] = Future()
        self._wanted.put((start, future))
        return future.result()

    def _run(self) -> None:
        while True:
            start, future = self._wanted.get()
            try:
                future.set_result(start())
            except BaseException as error:  # noqa: BLE001 - handed on to the caller
                future.set_exception(error)


_lock = threading.Lock()
_the_spawner: _Spawner | None = None


def _spawner() -> _Spawner:
    """Return this process's spawner; a forked child gets one of its own."""
    global _the_spawner
    with _lock:
        if _the_spawner is None or _the_spawner.owner != os.getpid():
            _the_spawner = _Spawner()
        return _the_spawner
