"""ZooKeeper members, run from the jars of a Kafka release, the same for every driver."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kchaos.clusters.errors import BrokerExited
from kchaos.clusters.links.peers import PeerLinks
from kchaos.clusters.start.configuration import java_command, log4j_text, zookeeper_text
from kchaos.clusters.start.host import Node
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.processes import Process
from kchaos.clusters.system.waiting import await_until

HEAP_MIB = 96


@dataclass(slots=True)
class ZooKeeperMember:
    """One member of ``ensemble``; ``index`` counts from 1 as ``myid`` does.

    ``spawn`` starts its process, and ``links`` are the ways to the other members. See
    ``clusters.api.ZooKeeperNode``.
    """

    index: int
    node: Node
    ensemble: int
    spawn: Callable[[], Process]
    links: PeerLinks | None = None
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start its process and return at once."""
        self.process = self.spawn()

    def kill(self) -> None:
        """End the process with SIGKILL and return once it is gone."""
        self.process.kill()

    def stop(self, timeout_s: float = 60) -> None:
        """End the process with SIGTERM and return once it is gone."""
        self.process.stop(timeout_s)

    def pause(self) -> None:
        """Freeze the process."""
        self.process.pause()

    def resume(self) -> None:
        """Let the process go on."""
        self.process.resume()

    @property
    def is_paused(self) -> bool:
        """Whether its process is frozen."""
        return self.process.is_paused

    def cut_off(self) -> None:
        """Cut it off from the other members; clients reach it."""
        assert self.links is not None, "only a cluster with links cuts members off"
        self.links.cut_off(self.index)

    def rejoin(self) -> None:
        """Let it reach the other members again."""
        assert self.links is not None
        self.links.rejoin(self.index)

    @property
    def is_cut_off(self) -> bool:
        """Whether it is cut off from the other members."""
        return self.links is not None and self.links.is_cut_off(self.index)

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.process.exit_code is None

    @property
    def data(self) -> Path:
        """Its dataDir."""
        return self.directory / "data"

    def mode(self) -> str:
        """Return what it is; empty while it does not serve."""
        return self.ask("srvr").partition("Mode: ")[2].split("\n")[0]

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) for clients on this machine."""
        return "127.0.0.1", self.node.client_port.number

    @property
    def inner_address(self) -> tuple[str, int]:
        """(host, port) for the cluster's own brokers, and for links to it."""
        return self.node.host, self.node.client_listen_port

    @property
    def directory(self) -> Path:
        """Its folder."""
        return self.node.directory

    def give_back_ports(self) -> None:
        """Give its ports back."""
        for port in self.node.reserved:
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
    nodes: Sequence[Node],
    *,
    java_home: Path,
    class_path: Sequence[Path],
    tick_time_ms: int,
    flags_of: Callable[[Path], Sequence[str]],
    spawn: Callable[[Node, Sequence[str], Path], Process],
    links: PeerLinks | None,
) -> list[ZooKeeperMember]:
    """Start one member at each node and return without waiting for them.

    ``flags_of`` returns the JVM flags of the member that runs in a folder; ``spawn`` starts a
    command line at a node, its console output appended to a file. With ``links`` the members of an
    ensemble reach each other through them.
    """
    members = []
    for index, node in enumerate(nodes, start=1):
        peers = _peers(index, nodes, links) if len(nodes) > 1 else []
        configuration = _write_files(index, node, peers, tick_time_ms)
        command = java_command(
            java_home,
            # The data is thrown away with the cluster, so nothing is gained by syncing it to
            # disk; the first transaction log is 64 MiB unless told otherwise.
            flags=[
                *flags_of(node.directory),
                "-Dzookeeper.forceSync=no",
                "-Dzookeeper.preAllocSize=64",
            ],
            heap_mib=HEAP_MIB,
            class_path=class_path,
            log4j=node.directory / "log4j.properties",
            temporary=node.directory / "tmp",
            arguments=["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)],
        )
        start = partial(spawn, node, command, node.directory / "console.log")
        members.append(
            ZooKeeperMember(index=index, node=node, ensemble=len(nodes), spawn=start, links=links)
        )
    return members


def _peers(
    index: int, nodes: Sequence[Node], links: PeerLinks | None
) -> list[tuple[str, int, int]]:
    """Return host, peer port and election port of each member, as one of them reaches it."""
    peers = []
    for target, node in enumerate(nodes, start=1):
        host, (peer, election) = node.host, node.inner_ports
        if links is not None and target != index:
            _, election = links.add(index, target, (host, election), is_election=True)
            host, peer = links.add(index, target, (host, peer), is_election=False)
        peers.append((host, peer, election))
    return peers


def _write_files(
    index: int, node: Node, peers: Sequence[tuple[str, int, int]], tick_time_ms: int
) -> Path:
    """Write what the member reads at its start and return its zoo.cfg."""
    data = node.directory / "data"
    for folder in (data, node.directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    text = zookeeper_text(
        data=data,
        listen_host=node.listen_host,
        client_port=node.client_listen_port,
        tick_time_ms=tick_time_ms,
        peers=peers,
    )
    configuration = node.directory / "zoo.cfg"
    configuration.write_text(text, encoding="utf-8")
    (data / "myid").write_text(f"{index}\n", encoding="utf-8")
    log4j = log4j_text(node.directory / "server.log")
    (node.directory / "log4j.properties").write_text(log4j, encoding="utf-8")
    return configuration
