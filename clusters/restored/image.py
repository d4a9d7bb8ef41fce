"""An image of a JVM: which JVMs can be made of it, and how one is made."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.restored import criu
from kchaos.clusters.start.host import Node
from kchaos.clusters.system.processes import Child, process_start_time, spawn
from kchaos.clusters.system.waiting import await_until

IMAGE, TEMPLATE, LINES = "image", "template.json", "lines"
"""In the folder where the JVM ran: CRIU's files, the JVM's command line, and what it reads."""
_RESTORE_S = 60.0
_GIVE_UP_S = 20.0
_LOOK_S = 0.01
_REMEDY = "--driver local starts it anew"
_AGENT = "-javaagent:"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJvm:
    """A JVM that a cluster wants to start.

    ``role`` is ``broker``, ``controller`` or ``zookeeper``. ``template`` is its command line as
    all JVMs of its image have it, without files and folders of its own. ``configuration`` is the
    path of its configuration. ``agent`` is loaded before its server starts: a jar, ``=`` and
    options; "" for no agent.
    """

    role: str
    template: tuple[str, ...]
    configuration: str
    agent: str = ""

    @classmethod
    def of(cls, node: Node, command: Sequence[str]) -> WantedJvm:
        """Return the JVM that a command line starts at a node."""
        main = command.index("-cp") + 2
        own = ("-Dlog4j.configuration=", "-Djava.io.tmpdir=", _AGENT)
        agents = (word.removeprefix(_AGENT) for word in command[:main] if word.startswith(_AGENT))
        return cls(
            role=node.directory.name.rpartition("-")[0],
            template=tuple(word for word in command[: main + 1] if not word.startswith(own)),
            configuration=command[main + 1],
            agent=next(agents, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageKey:
    """Clusters of which the JVMs are made of the same images. ``java`` is the program's path."""

    java: str
    distribution: Distribution
    is_kraft: bool
    broker_heap_mib: int


def restored(image: Path, wanted: WantedJvm, node: Node, console: Path) -> Child:
    """Make a process of an image, which runs the server of a configuration.

    It ends when this process ends. Raises MachineError when CRIU cannot make it.
    """
    work = node.directory
    lines, pid_file = work / LINES, work / criu.PID_FILE
    given = f"{wanted.configuration}\t{work / 'tmp'}\t{wanted.agent}\n"
    lines.write_text(given, encoding="utf-8")
    pid_file.unlink(missing_ok=True)
    with lines.open("rb") as stdin, (work / "server.log").open("ab") as log:
        parent = spawn(
            criu.restore_command(
                image / IMAGE,
                work,
                {image / LINES: 0, image / "console.log": 1, image / "server.log": log.fileno()},
            ),
            log_file=console,
            cwd=work,
            name=node.name,
            stdin=stdin.fileno(),
            keeps=(log.fileno(),),
        )

    def check() -> None:
        # A JVM may have ended by itself since it was looked for.
        if parent.exit_code is not None and _pid_in(pid_file) is None:
            raise MachineError(
                f"criu cannot make {node.name} of its image: {criu.complaint(work / criu.LOG)}; "
                + _REMEDY
            )

    try:
        pid = await_until(
            lambda: _pid_in(pid_file),
            timeout_s=_RESTORE_S,
            waiting_for=f"criu to make {node.name} of {image}",
            last_seen=lambda: criu.complaint(work / criu.LOG),
            remedy=_REMEDY,
            abort=check,
        )
    except BaseException:
        _give_up(parent, pid_file)
        raise
    return replace(parent, pid=pid, start_time=process_start_time(pid) or 0)


def _give_up(parent: Child, pid_file: Path) -> None:
    """End a process that is being made, once CRIU has named it or failed.

    Up to then nobody knows it, and it would outlive a CRIU that is killed.
    """
    deadline = time.monotonic() + _GIVE_UP_S
    # Not `await_until`: a remembered Ctrl-C would end that at once, and is why this is called.
    while parent.is_running and time.monotonic() < deadline:
        pid = _pid_in(pid_file)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(_LOOK_S)
    parent.kill()


def _pid_in(file: Path) -> int | None:
    """Return the process that CRIU has named in its file, None while it has not."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
