"""A process that has imported all that a play needs and forks for each, as its parent sees it."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from kchaos.clusters.processes import Child, process_start_time, spawn

SERVE = (sys.executable, "-m", "kchaos.harness.commands.forking")
"""Command of the process that has everything imported; see `harness.commands.forking`."""


@dataclass(slots=True)
class _Told:
    """The end of a forked process, as the one that it was forked from tells it."""

    lines: TextIOWrapper
    _code: Future[int] = field(default_factory=Future)

    def listen(self) -> None:
        """Hears of the end beside everything else."""
        threading.Thread(target=self._hear, name="end of a play", daemon=True).start()

    def _hear(self) -> None:
        # Who tells nothing has ended, and the kernel has killed what was forked from it.
        self._code.set_result(int(_next_line(self.lines) or -signal.SIGKILL))

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self._code.result() if self._code.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code.

        Raises:
            subprocess.TimeoutExpired: It has not ended after so many seconds.
        """
        try:
            return self._code.result(timeout)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired("a play", timeout or 0) from error


@dataclass(slots=True)
class ReadyProcess:
    """The parent's side of it: it forks for one play after another.

    Attributes:
        server: The process that forks.
    """

    server: Child
    _control: socket.socket
    _lines: TextIOWrapper

    def start(self, arguments: Sequence[str], *, log_file: Path, name: str) -> Child:
        """Has a process forked that is `kchaos` with these arguments; its output goes to a file.

        Raises:
            RuntimeError: The process that forks has ended.
        """
        wanted = {"arguments": list(arguments), "log": str(log_file)}
        with contextlib.suppress(BrokenPipeError):
            self._control.sendall(json.dumps(wanted).encode() + b"\n")
        told = _next_line(self._lines)
        if not told:
            said = self.server.log_file.read_text(errors="replace")
            raise RuntimeError(f"no play can be started: {said[-2000:]}")
        ending = _Told(self._lines)
        ending.listen()
        pid = int(told)
        started = process_start_time(pid) or 0
        return Child(pid=pid, start_time=started, name=name, log_file=log_file, ending=ending)

    def end(self) -> None:
        """Ends the process, and what it has forked."""
        self.server.kill()
        self._control.close()


def _next_line(lines: TextIOWrapper) -> str:
    """Next line of the output; "" once nobody is there to tell it."""
    try:
        return lines.readline()
    except ConnectionResetError:
        return ""


def ready_process(
    command: Sequence[str] = SERVE, *, log_file: Path, env: Mapping[str, str]
) -> ReadyProcess:
    """Starts one.

    Args:
        command: A command line whose process calls `harness.commands.forking.serve`.
        log_file: For what it says itself.
        env: The environment of all plays.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        server = spawn(
            command, log_file=log_file, env=env, name="ready process", stdin=theirs.fileno()
        )
    return ReadyProcess(server, ours, ours.makefile("r", encoding="ascii"))
