"""Steps of clients that never wait: they are started, and stopped, while other steps go on."""

import time
from dataclasses import dataclass

from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import ScenarioError
from kchaos.harness.gates.gates import check_causes_of_death
from kchaos.harness.play.free_clients import (
    CONSUMERS,
    PRODUCERS,
    FreeClientSettings,
    start_free_clients,
)
from kchaos.harness.play.play import Play
from kchaos.harness.play.workload import start_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StartClients:
    """Producers and consumers begin, at a rate of their own, and go on until they are stopped.

    They are a process beside kchaos. What they are promised is judged by what links in front of
    brokers see (`ClusterSpec(client_links=True)`, without which the step is refused). The gate is
    that each producer had a record acknowledged and each consumer got one. Each producer has
    partitions of its own if there are enough, for nothing orders what two send to one.

    Attributes:
        name: Names them for `StopClients`; their client ids begin with it.
        topic: One that exists, with at least so many partitions.
        plain: How many producers with acks=all that are not idempotent.
        idempotent: How many idempotent producers.
        transactional: How many transactional producers; every fourth transaction is aborted.
        alone: How many consumers without a group, each of all partitions.
        in_group: How many consumers in one group.
        alone_committed: As `alone`, with isolation level read_committed.
        in_group_committed: As `in_group`, with isolation level read_committed.
        rate: Records a second, of all producers together.
    """

    topic: str
    partitions: int
    name: str = "clients"
    plain: int = 1
    idempotent: int = 1
    transactional: int = 0
    alone: int = 1
    in_group: int = 2
    alone_committed: int = 0
    in_group_committed: int = 0
    rate: float = 10.0
    timeout_s: float = 60.0

    @property
    def kinds(self) -> dict[str, int]:
        """Number of clients of each kind."""
        return {kind: getattr(self, kind.replace("-", "_")) for kind in (*PRODUCERS, *CONSUMERS)}

    def perform(self, play: Play) -> None:
        """Start the clients; wait until all of them write and read.

        Raises:
            ScenarioError: Nothing would see what they are promised, or such clients run already.
        """
        _check_startable(play, self.name)
        folder = play.cluster.work_directory
        settings = FreeClientSettings(
            name=self.name,
            servers=tuple(play.cluster.bootstrap_servers),
            topic=self.topic,
            partitions=self.partitions,
            kinds=self.kinds,
            rate=self.rate,
            status=str(folder / f"{self.name}-status.json"),
        )
        play.free_clients[self.name] = start_free_clients(
            settings, folder, timeout_s=self.timeout_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetClientsRun:
    """The scenario goes on when clients have run for so long: what comes next comes by the clock.

    Attributes:
        until_s: Seconds since their start, so that what the steps between took is within it.
    """

    until_s: float
    name: str = "clients"

    def perform(self, play: Play) -> None:
        """Wait for that moment, or return at once if it has passed.

        Raises:
            ScenarioError: No clients of that name run, or they ended by themselves.
        """
        clients = play.running_clients(self.name)
        left_s = self.until_s - (time.monotonic() - clients.started)

        def look() -> None:
            clients.check()
            check_causes_of_death(play)

        if left_s > 0:
            await_until(
                lambda: time.monotonic() - clients.started >= self.until_s,
                timeout_s=left_s + 1,
                waiting_for=f"the clients {self.name!r} to run for {self.until_s:g} s",
                last_seen=lambda: f"{time.monotonic() - clients.started:.1f} s",
                abort=look,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopClients:
    """Clients that were started end: they send what they hold, and close.

    Those that still run when the steps are over are stopped then, before anything is healed.
    """

    name: str = "clients"

    def perform(self, play: Play) -> None:
        """Stop the clients and wait for their process to end.

        Raises:
            ScenarioError: No clients of that name run, or they failed.
        """
        play.running_clients(self.name)
        play.stop_clients(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWorkload:
    """A command of a user's own begins, and goes on until it is stopped or the steps are over.

    It finds the brokers' addresses in KCHAOS_BOOTSTRAP_SERVERS and BOOTSTRAP_SERVERS. What its
    clients are promised is judged by what links in front of brokers see. A command that ends by
    itself leaves the run unknown.

    Attributes:
        command: A program and its arguments. A file with such a step runs after `--trust`.
        name: Names it for `StopClients`.
    """

    command: tuple[str, ...]
    name: str = "workload"

    def perform(self, play: Play) -> None:
        """Start the command.

        Raises:
            ScenarioError: There is no such program, nothing would see its clients, or its name is
                taken.
        """
        _check_startable(play, self.name)
        play.free_clients[self.name] = start_workload(
            self.name, self.command, play.cluster.bootstrap_servers, play.cluster.work_directory
        )


def _check_startable(play: Play, name: str) -> None:
    if play.client_lines is None:
        raise ScenarioError(
            f"the clients {name!r} need links in front of brokers: ClusterSpec(client_links=True)"
        )
    if name in play.free_clients:
        raise ScenarioError(f"clients named {name!r} run already: stop them first")
