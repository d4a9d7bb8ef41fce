"""Clients that never wait: they write and read at a rate, in a process beside the scenario.

What they are promised is evidence as of any client: links in front of brokers see it. What they
tell themselves is an observation: how much they did, and when nothing of what they wrote to a
partition was acknowledged (`checkers.observations.Wait`).
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.system.processes import Child, spawn
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import ScenarioError

Kind = Literal[
    "plain",
    "idempotent",
    "transactional",
    "alone",
    "in-group",
    "alone-committed",
    "in-group-committed",
]
PRODUCERS: tuple[Kind, ...] = ("plain", "idempotent", "transactional")
CONSUMERS: tuple[Kind, ...] = ("alone", "in-group", "alone-committed", "in-group-committed")
STOP_S = 30.0
"""Seconds for clients to send what they hold and to end; then they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeClientSettings:
    """Settings for the process of the clients.

    Attributes:
        name: Every client's id begins with it.
        servers: Where brokers serve clients.
        kinds: How many clients of each kind.
        rate: Records a second, of all producers together.
        status: The file in which the process says how far it is.
    """

    name: str
    servers: tuple[str, ...]
    topic: str
    partitions: int
    kinds: Mapping[str, int]
    rate: float
    status: str


@dataclass(slots=True)
class FreeClients:
    """Clients that run: `start_free_clients` has started them, and `stop` ends them.

    Attributes:
        started: When all of them wrote and read, by the monotonic clock.
    """

    name: str
    topic: str
    child: Child
    status: Path
    started: float = 0.0

    def check(self) -> None:
        """Raise ScenarioError if their process has ended by itself."""
        if self.child.exit_code is not None:
            raise ScenarioError(
                f"the clients {self.name!r} ended by themselves with exit code "
                f"{self.child.exit_code}: {self._last_words()}"
            )

    def told(self) -> dict[str, Any]:
        """Return the last report of the clients; empty before the first one."""
        if not self.status.exists():
            return {}
        told: dict[str, Any] = json.loads(self.status.read_text())
        return told

    def stop(self) -> dict[str, Any]:
        """Stop the clients; return their report, as `free_client_process.Fleet.say` writes it.

        Raises:
            ScenarioError: They had ended by themselves, or did not end in time and were killed.
        """
        self.check()
        try:
            self.child.stop(STOP_S)
        except AwaitTimeout as error:
            self.child.kill()
            raise ScenarioError(f"the clients {self.name!r} were killed: {error}") from error
        told = self.told()
        if self.child.exit_code != 0 or not told.get("is_over"):
            raise ScenarioError(
                f"the clients {self.name!r} failed with exit code {self.child.exit_code}: "
                f"{self._last_words()}"
            )
        return told

    def _last_words(self) -> str:
        lines = self.child.log_file.read_text(errors="replace").strip().splitlines()
        return "; ".join(lines[-5:]) or "they printed nothing"


def start_free_clients(
    settings: FreeClientSettings, folder: Path, *, timeout_s: float
) -> FreeClients:
    """Start the clients, and wait until each producer and each consumer has had a record.

    The `folder` gets the process's files, among them `settings.status`.

    Raises:
        AwaitTimeout: A client did not get so far in time; the process was ended.
        ScenarioError: The process ended by itself.
    """
    file = folder / f"{settings.name}.json"
    file.write_text(json.dumps(asdict(settings)))
    child = spawn(
        [sys.executable, "-m", "kchaos.harness.play.free_client_process", str(file)],
        log_file=folder / f"{settings.name}.log",
        name=f"clients {settings.name}",
    )
    clients = FreeClients(
        name=settings.name, topic=settings.topic, child=child, status=Path(settings.status)
    )
    try:
        await_until(
            lambda: clients.told().get("is_started"),
            timeout_s=timeout_s,
            waiting_for="every free client to have a record acknowledged, or to read one",
            last_seen=lambda: clients.told().get("clients", "no state was written yet"),
            remedy=f"see {child.log_file}",
            abort=clients.check,
        )
    except BaseException:
        child.kill()
        raise
    clients.started = time.monotonic()
    return clients
