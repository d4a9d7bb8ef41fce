"""ZooKeeper members, run from the jars of a Kafka release, the same for every driver."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.clusters.configuration import java_command, log4j_text, zookeeper_text
from kchaos.clusters.errors import BrokerExited
from kchaos.clusters.ground import Site
from kchaos.clusters.log_tail import last_lines
from kchaos.clusters.processes import Process
from kchaos.clusters.waiting import await_until

HEAP_MIB = 96


@dataclass(slots=True)
class ZooKeeperMember:
    """One member; ``index`` counts from 1 as ``myid`` does."""

    index: int
    site: Site
    process: Process

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) for clients on this machine."""
        return "127.0.0.1", self.site.client_port.number

    @property
    def inner_address(self) -> tuple[str, int]:
        """(host, port) for the cluster's own brokers, and for links to it."""
        return self.site.host, self.site.client_listen_port

    @property
    def directory(self) -> Path:
        """Its folder."""
        return self.site.directory

    def give_back_ports(self) -> None:
        """Give its ports back."""
        for port in self.site.reserved:
            port.release()

    def check_running(self) -> None:
        """Raise BrokerExited if the member's process has ended."""
        code = self.process.exit_code
        if code is not None:
            files = [self.directory / "server.log", self.directory / "console.log"]
            raise BrokerExited(
                name=f"zookeeper {self.index}",
                exit_code=code,
                last_lines=last_lines(files),
                log=str(self.directory),
                cause=self.process.cause_of_death,
            )

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once the member serves clients (in an ensemble: leads or follows).

        Raises BrokerExited when its process ends, AwaitTimeout after ``timeout_s``.
        """
        seen = ["no connection"]

        def serves() -> bool:
            seen[0] = self.ask("srvr") or "no answer"
            return "Mode: " in seen[0]

        await_until(
            serves,
            timeout_s=timeout_s,
            waiting_for=f"zookeeper {self.index} to serve at port {self.address[1]}",
            last_seen=lambda: seen[0].strip().splitlines()[-1],
            remedy=f"see {self.directory / 'server.log'}",
            abort=self.check_running,
        )

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word, empty when nobody answers."""
        try:
            with socket.create_connection(self.address, timeout=2) as connection:
                connection.sendall(word.encode())
                parts = []
                while part := connection.recv(4096):
                    parts.append(part)
        except OSError:
            return ""
        return b"".join(parts).decode("utf-8", "replace")


def start_zookeepers(
    sites: Sequence[Site],
    *,
    java_home: Path,
    class_path: Sequence[Path],
    tick_time_ms: int,
    flags_of: Callable[[Path], Sequence[str]],
    spawn: Callable[[Site, Sequence[str], Path], Process],
) -> list[ZooKeeperMember]:
    """Start one member at each site and return without waiting for them.

    ``flags_of`` returns the JVM flags of the member that runs in a folder; ``spawn`` starts a
    command line at a site, its console output appended to a file.
    """
    peers = (
        [(site.host, site.inner_ports[0], site.inner_ports[1]) for site in sites]
        if len(sites) > 1
        else []
    )
    members = []
    for index, site in enumerate(sites, start=1):
        configuration = _write_files(index, site, peers, tick_time_ms)
        command = java_command(
            java_home,
            # The data is thrown away with the cluster, so nothing is gained by syncing it to
            # disk; the first transaction log is 64 MiB unless told otherwise.
            flags=[
                *flags_of(site.directory),
                "-Dzookeeper.forceSync=no",
                "-Dzookeeper.preAllocSize=64",
            ],
            heap_mib=HEAP_MIB,
            class_path=class_path,
            log4j=site.directory / "log4j.properties",
            temporary=site.directory / "tmp",
            arguments=["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)],
        )
        process = spawn(site, command, site.directory / "console.log")
        members.append(ZooKeeperMember(index=index, site=site, process=process))
    return members


def _write_files(
    index: int, site: Site, peers: Sequence[tuple[str, int, int]], tick_time_ms: int
) -> Path:
    """Write what the member reads at its start and return its zoo.cfg."""
    data = site.directory / "data"
    for folder in (data, site.directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    text = zookeeper_text(
        data=data,
        listen_host=site.listen_host,
        client_port=site.client_listen_port,
        tick_time_ms=tick_time_ms,
        peers=peers,
    )
    configuration = site.directory / "zoo.cfg"
    configuration.write_text(text, encoding="utf-8")
    (data / "myid").write_text(f"{index}\n", encoding="utf-8")
    log4j = log4j_text(site.directory / "server.log")
    (site.directory / "log4j.properties").write_text(log4j, encoding="utf-8")
    return configuration
