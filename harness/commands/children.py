"""Playing scenarios in processes of their own, several at once.

Each play is a `kchaos replay` in a child: links of several clusters share no interpreter, and a
child that is asked to end heals and stops its cluster as Ctrl-C does. The kernel ends a child, and
with it its brokers, when this process dies. Each child is forked from a process that has imported
all that it needs; there are as many of those as plays at a time.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import kchaos
from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.processes import Child
from kchaos.harness.commands.exits import AS_EXPECTED, FINDING, INTERRUPTED, MACHINE, UNKNOWN, USAGE
from kchaos.harness.commands.ready_process import SERVE, ReadyProcess, ready_process
from kchaos.harness.errors import UsageError
from kchaos.harness.player.lines import Line, line_of_run
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario

Play = Callable[[Scenario], Line]
"""Plays and judges a scenario once; returns the run's line."""

_PLAY_S = 3600.0
_STOP_S = 180.0
_JUDGED = (AS_EXPECTED, FINDING, UNKNOWN)
_HOME = Path(kchaos.__file__).resolve().parents[1]


def play_many(
    scenarios: Iterable[Scenario],
    play: Play,
    *,
    side_by_side: int,
    done: Callable[[Scenario, Line], None],
    stop: Callable[[], None],
) -> None:
    """Plays all, so many at a time; `done` is called here, with each once it is judged.

    A play that fails by a defect of kchaos does not keep the others from being played.

    Raises:
        RuntimeError: What the first play failed with that had a defect, when all are over.
        KeyboardInterrupt: Ctrl-C. Here, as after any other error, `stop` is called and what is
            under way is waited for.
    """
    with ThreadPoolExecutor(max_workers=side_by_side) as pool:
        futures = {pool.submit(play, scenario): scenario for scenario in scenarios}
        failed: list[RuntimeError] = []
        try:
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, RuntimeError):
                    failed.append(error)
                else:
                    done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
    if failed:
        told = f"{len(failed)} of {len(futures)} plays failed: {failed[0]}"
        raise RuntimeError(told) from failed[0]


@dataclass(slots=True)
class Children:
    """Plays scenarios in child processes; leaving its context ends them all.

    Attributes:
        options: How scenarios are played; `command` is written into each run.
        work: A folder for what goes to and comes from the children.
        serve: The command line of a process that forks for plays.
    """

    options: RunOptions
    work: Path
    serve: Sequence[str] = SERVE
    _running: dict[int, Child] = field(default_factory=dict)
    _idle: list[ReadyProcess] = field(default_factory=list)
    _started: int = 0
    _is_stopping: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        """Plays within its context."""
        return self

    def __exit__(self, *_: object) -> None:
        """As `stop`."""
        self.stop()

    def play(self, scenario: Scenario) -> Line:
        """Plays and judges it once; returns the run's line.

        Raises:
            UsageError, MachineError: The child refused for that reason.
            RuntimeError: The child failed otherwise.
        """
        number, parent, child = self._start(scenario)
        try:
            code = child.await_exit(_PLAY_S)
        finally:
            child.kill()
            with self._lock:
                del self._running[number]
                self._idle.append(parent)
        said = child.log_file.read_text(errors="replace").strip()
        if code not in _JUDGED:
            raise _failure(code, said)
        return line_of_run(_last_object(said))

    def stop(self) -> None:
        """Asks every child to heal and end, and returns once all have; kills those that do not."""
        with self._lock:
            self._is_stopping = True
            running = list(self._running.values())
        for child in running:
            with contextlib.suppress(AwaitTimeout):
                child.stop(_STOP_S)
            child.kill()
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def _start(self, scenario: Scenario) -> tuple[int, ReadyProcess, Child]:
        with self._lock:
            if self._is_stopping:
                raise RuntimeError("no play is started any more")
            self._started += 1
            number = self._started
            file = self.work / f"{number}.json"
            file.write_text(json.dumps(scenario.to_json()))
            parent = self._parent(number)
            try:
                log_file = self.work / f"{number}.log"
                child = parent.start(
                    self._arguments(file), log_file=log_file, name=f"play {number}"
                )
            except BaseException:
                parent.end()
                raise
            self._running[number] = child
            return number, parent, child

    def _parent(self, number: int) -> ReadyProcess:
        """Process that play this number is forked from: an idle one, or a new one."""
        while self._idle:
            parent = self._idle.pop()
            if parent.server.is_running:
                return parent
            parent.end()
        log_file = self.work / f"ready-{number}.log"
        return ready_process(self.serve, log_file=log_file, env=_environment())

    def _arguments(self, file: Path) -> list[str]:
        options = self.options
        # What needs somebody's trust was asked for before the first play.
        arguments = ["replay", str(file), "--json", "--trust"]
        arguments += ["--runs-dir", str(options.runs_directory), "--driver", options.driver]
        if options.settle_bound_s is not None:
            arguments += ["--settle-bound", str(options.settle_bound_s)]
        arguments += ["--typed", json.dumps(list(options.command or sys.argv))]
        return arguments + ["--offline"] * options.offline


def _environment() -> dict[str, str]:
    """Ours, in which a child finds the same kchaos first."""
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_HOME), *([path] if path else [])])}


def _failure(code: int, said: str) -> BaseException:
    # The child says who it is, as this process will.
    last = "\n".join(said.splitlines()[-20:]).removeprefix("kchaos: ")
    match code:
        case _ if code == USAGE:
            return UsageError(last)
        case _ if code == MACHINE:
            return MachineError(last)
        case _ if code == INTERRUPTED:
            return KeyboardInterrupt()
        case _:
            return RuntimeError(f"a play ended with exit code {code}:\n{last}")


def _last_object(said: str) -> Mapping[str, Any]:
    """The JSON object that the child printed; warnings may stand around it."""
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"a play gave no result:\n{said[-2000:]}")
    json_object: dict[str, Any] = json.loads(lines[-1])
    return json_object
