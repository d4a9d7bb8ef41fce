"""A process that has imported all that a play needs and forks for each, as its parent sees it."""

import contextlib
import json
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from kchaos.clusters.system.processes import Child, kill_by_identity, process_start_time, spawn
from kchaos.clusters.system.waiting import await_until

SERVE = (sys.executable, "-m", "kchaos.harness.commands.forking")
"""Command of the process that has everything imported; see `harness.commands.forking`."""

_START_S = 300.0


@dataclass(slots=True)
class _Told:
    """The end of a forked process, as the one that it was forked from tells it."""

    server: Child
    lines: TextIOWrapper
    pid: int
    start_time: int
    _code: Future[int] = field(default_factory=Future)

    def listen(self) -> None:
        """Wait for the end in a thread."""
        threading.Thread(target=self._hear, name="end of a play", daemon=True).start()

    def _hear(self) -> None:
        try:
            self._code.set_result(int(_next_line(self.lines) or self._killed()))
        except BaseException as error:  # noqa: BLE001 - handed on to who asks for the code
            self._code.set_exception(error)

    def _killed(self) -> int:
        """Return the code of a process whose server has ended, once both are gone."""
        # The kernel kills what was forked only some time after nobody tells of it.
        self.server.kill()
        kill_by_identity(self.pid, self.start_time)
        return -signal.SIGKILL

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._code.result() if self._code.done() else None


@dataclass(slots=True)
class ReadyProcess:
    """The parent's side of it: it forks for one play after another.

    Attributes:
        server: The process that forks.
    """

    server: Child
    _control: socket.socket
    _lines: TextIOWrapper

    def start(
        self,
        arguments: Sequence[str],
        *,
        log_file: Path,
        name: str,
        is_given_up: Callable[[], bool] = lambda: False,
    ) -> Child:
        """Fork a process that is `kchaos` with these arguments; its output goes to a file.

        After an error nothing more may be forked here: `end` it. A play that was forked in that
        moment then ends before it has begun anything.

        Args:
            arguments: Those of the command line.
            log_file: Where the output is appended.
            name: Of the child, for messages.
            is_given_up: Asked while nothing is forked yet, whether that is wanted no more.

        Raises:
            RuntimeError: The process that forks has ended, or the play was given up.
            AwaitTimeout: The process that forks does not answer.
        """
        # A reader finds a file, however early the play ends.
        log_file.touch()
        wanted = {"arguments": list(arguments), "log": str(log_file)}
        with contextlib.suppress(BrokenPipeError):
            self._control.sendall(json.dumps(wanted).encode() + b"\n")
        await_until(
            lambda: self._has_told() or is_given_up(),
            timeout_s=_START_S,
            waiting_for=f"{name} to be forked",
            last_seen=lambda: f"process {self.server.pid}, which imports all it needs, is silent",
            remedy=f"play fewer at a time, or see {self.server.log_file}",
        )
        if not self._has_told():
            raise RuntimeError("no play is started any more")
        told = _next_line(self._lines)
        if not told:
            said = self.server.log_file.read_text(errors="replace")
            raise RuntimeError(f"no play can be started: {said[-2000:]}")
        pid = int(told)
        started = process_start_time(pid) or 0
        ending = _Told(self.server, self._lines, pid, started)
        ending.listen()
        return Child(pid=pid, start_time=started, name=name, log_file=log_file, ending=ending)

    def _has_told(self) -> bool:
        """Return whether a message has come, or never will."""
        return bool(select.select([self._control], [], [], 0)[0])

    def end(self) -> None:
        """End the process and its forks."""
        self.server.kill()
        self._control.close()


def _next_line(lines: TextIOWrapper) -> str:
    """Return the next line of the output; "" once its writer has ended."""
    try:
        return lines.readline()
    except ConnectionResetError:
        return ""


def ready_process(
    command: Sequence[str] = SERVE, *, log_file: Path, env: Mapping[str, str]
) -> ReadyProcess:
    """Start a process that can fork plays.

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
