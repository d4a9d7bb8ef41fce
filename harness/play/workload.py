"""A command of a user's own that runs beside the steps, and goes on until it is stopped."""

import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.system.processes import Child, spawn
from kchaos.harness.errors import ScenarioError, UsageError

BOOTSTRAP = ("KCHAOS_BOOTSTRAP_SERVERS", "BOOTSTRAP_SERVERS")
"""The variables in which a command finds the addresses of the brokers."""
_STOP_S = 30.0


@dataclass(slots=True)
class Workload:
    """A command that runs: `start_workload` has started it, and `stop` ends it.

    Attributes:
        started: When it began, by the monotonic clock.
    """

    name: str
    child: Child
    started: float
    topic: str = ""

    def check(self) -> None:
        """Raise ScenarioError if the command has ended by itself."""
        if self.child.exit_code is not None:
            lines = self.child.log_file.read_text(errors="replace").strip().splitlines()
            raise ScenarioError(
                f"the command {self.name!r} ended by itself with exit code "
                f"{self.child.exit_code}: {'; '.join(lines[-5:]) or 'it said nothing'}"
            )

    def stop(self) -> Mapping[str, Any]:
        """Ask it to end; return its report.

        Raises:
            ScenarioError: It had ended by itself, or did not end in time and was killed.
        """
        self.check()
        try:
            self.child.stop(_STOP_S)
        except AwaitTimeout as error:
            self.child.kill()
            raise ScenarioError(f"the command {self.name!r} was killed: {error}") from error
        told = {"client": self.name, "exit_code": self.child.exit_code}
        return {"clients": [told], "waits": [], "not_ended": []}


def is_blank(command: Sequence[str]) -> bool:
    """Return whether a command names no program."""
    return not "".join(command[:1]).strip()


def cannot_run(command: Sequence[str]) -> str:
    """Return why a command cannot run here, as far as this is known before, or ""."""
    if is_blank(command):
        return "the command names no program"
    if shutil.which(command[0]) is None:
        return f"there is no program {command[0]} that may be run, neither here nor on the PATH"
    return ""


def command_in(text: str) -> tuple[str, ...]:
    """Return the program and its arguments in a text, split as by a shell.

    Raises:
        UsageError: It cannot be read, names no program, or one that cannot be run here.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"the workload {text!r} cannot be read as a command: {error}. Quote it as in a "
            "shell: each quotation mark is closed, and no backslash comes last"
        ) from error
    if is_blank(words):
        raise UsageError(
            "the workload is empty: name a program and its arguments, or leave --workload out"
        )
    if why := cannot_run(words):
        raise UsageError(f"the workload cannot be run: {why}")
    return words


def named_by(command: Sequence[str]) -> str:
    """Return the command's part of a case: the program, with its distinguishing arguments."""
    program = re.sub(r"[^A-Za-z0-9_.]+", "-", Path(command[0]).name)
    return f"workload-{program}-{hashlib.sha256(shlex.join(command).encode()).hexdigest()[:6]}"


def start_workload(
    name: str, command: Sequence[str], servers: Sequence[str], folder: Path
) -> Workload:
    """Start a command, which finds the brokers' addresses in `BOOTSTRAP`.

    Its output goes to `NAME.log` in `folder`.

    Raises:
        ScenarioError: There is no such program.
    """
    environment = {**os.environ, **dict.fromkeys(BOOTSTRAP, ",".join(servers))}
    try:
        child = spawn(command, log_file=folder / f"{name}.log", env=environment, name=name)
    except OSError as error:
        raise ScenarioError(f"{command[0]} cannot be run: {error.strerror}") from error
    return Workload(name=name, child=child, started=time.monotonic())
