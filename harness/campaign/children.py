"""Playing scenarios in processes of their own, several at once.

Each play is a `kchaos replay` in a child: links of several clusters share no interpreter, and a
child that is asked to end heals and stops its cluster as Ctrl-C does. The kernel ends a child, and
with it its brokers, when this process dies.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import kchaos
from kchaos.checkers.run_line import RunLine, line_at
from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.system.processes import Child, spawn
from kchaos.harness.errors import RunUnknown, UsageError
from kchaos.harness.exits import AS_EXPECTED, FINDING, INTERRUPTED, MACHINE, UNKNOWN, USAGE
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario

_KCHAOS = (sys.executable, "-m", "kchaos")
_PLAY_S = 3600.0
_STOP_S = 180.0
_JUDGED = (AS_EXPECTED, FINDING, UNKNOWN)
_HOME = Path(kchaos.__file__).resolve().parents[1]


@dataclass(slots=True)
class Children:
    """Plays scenarios in child processes; leaving its context ends them all.

    Attributes:
        options: How scenarios are played; `command` is written into each run.
        work: A folder for what goes to and comes from the children.
        kchaos: The command line of `kchaos` itself.
    """

    options: RunOptions
    work: Path
    kchaos: Sequence[str] = _KCHAOS
    _running: dict[int, Child] = field(default_factory=dict)
    _killed: list[str] = field(default_factory=list)
    _started: int = 0
    _is_stopping: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        """Enter the block in which children play."""
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Stop as `stop`.

        Raises:
            KeyboardInterrupt: One that came says which plays were killed, if any were.
        """
        self.stop()
        if self._killed and isinstance(error, KeyboardInterrupt):
            killed = ", ".join(self._killed)
            told = f"interrupted; killed before they could say that they healed: {killed}"
            raise KeyboardInterrupt(told) from error

    def play(self, scenario: Scenario) -> RunLine:
        """Plays and judges it once; returns the run's line.

        Raises:
            UsageError, MachineError: The child refused for that reason.
            RunUnknown: The child was killed, or could not judge the run.
            RuntimeError: The child failed by a defect of kchaos.
        """
        number, child = self._start(scenario)
        try:
            code = child.await_exit(_PLAY_S)
        finally:
            child.kill()
            self._note_end(number, child)
        said = child.log_file.read_text(errors="replace").strip()
        if code not in _JUDGED:
            raise _failure(code, said)
        if (judged := _last_object(said)) is None:
            if code == UNKNOWN:
                raise RunUnknown(_last(said))
            raise RuntimeError(f"a run gave no result:\n{said[-2000:]}")
        return line_at(Path(str(judged["run"])))

    def stop(self) -> None:
        """Ask every child to heal and end, and wait for all; kill those that do not."""
        with self._lock:
            self._is_stopping = True
            running = list(self._running.values())
        for child in running:
            _ask_to_end(child)
        for child in running:
            with contextlib.suppress(AwaitTimeout):
                child.await_exit(_STOP_S)
            child.kill()

    def _start(self, scenario: Scenario) -> tuple[int, Child]:
        with self._lock:
            if self._is_stopping:
                raise RuntimeError("no run is started any more")
            self._started += 1
            number = self._started
            file = self.work / f"{number}.json"
            file.write_text(json.dumps(scenario.to_json()))
            child = spawn(
                [*self.kchaos, *self._arguments(file)],
                log_file=self.work / f"{number}.log",
                env=_environment(),
                name=f"run {number}",
            )
            self._running[number] = child
        return number, child

    def _note_end(self, number: int, child: Child) -> None:
        with self._lock:
            del self._running[number]
            if child.exit_code == -signal.SIGKILL:
                self._killed.append(child.name)

    def _arguments(self, file: Path) -> list[str]:
        options = self.options
        # What needs somebody's trust was asked for before the first play.
        arguments = ["replay", str(file), "--json", "--trust"]
        arguments += ["--runs-dir", str(options.runs_directory), "--driver", options.driver]
        if options.settle_bound_s is not None:
            arguments += ["--settle-bound", str(options.settle_bound_s)]
        if options.sign_with is not None:
            arguments += ["--sign", str(options.sign_with.absolute())]
        arguments += ["--typed", json.dumps(list(options.command or sys.argv))]
        return arguments + ["--offline"] * options.offline


def _ask_to_end(child: Child) -> None:
    """Ask a child once, since a second time would interrupt its healing."""
    child.send(signal.SIGCONT)
    child.send(signal.SIGTERM)


def _environment() -> dict[str, str]:
    """Return the environment in which a child finds the same kchaos first."""
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_HOME), *([path] if path else [])])}


def _last(said: str) -> str:
    """Return the last lines, without the command's name, which this process adds too."""
    return "\n".join(said.splitlines()[-20:]).removeprefix("kchaos: ")


def _refusal(said: str) -> str:
    """Return the child's refusal, without the progress before it."""
    lines = said.splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith("kchaos: ")]
    return _last("\n".join(lines[begins[-1] :] if begins else lines))


def _failure(code: int, said: str) -> BaseException:
    last = _last(said)
    match code:
        case _ if code == USAGE:
            return UsageError(_refusal(said))
        case _ if code == MACHINE:
            return MachineError(_refusal(said))
        # By the signal itself a child ends that has not begun to play.
        case _ if code in (INTERRUPTED, -signal.SIGTERM):
            return KeyboardInterrupt()
        case _ if code < 0:
            killed = f"a run was killed by signal {-code} ({signal.strsignal(-code)})"
            why = ": the kernel does so when memory runs out, see its log and --side-by-side"
            return RunUnknown(killed + (why if code == -signal.SIGKILL else "") + f"\n{last}")
        case _:
            return RuntimeError(f"a run ended with exit code {code}:\n{last}")


def _last_object(said: str) -> Mapping[str, Any] | None:
    """Return the JSON object among the child's output, or None."""
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        return None
    json_object: dict[str, Any] = json.loads(lines[-1])
    return json_object
