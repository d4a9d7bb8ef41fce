"""ZooKeeper on this machine, run from the jars of a Kafka release."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.configuration import java_command, log4j_text, zookeeper_text
from clusters.errors import BrokerExited
from clusters.log_tail import last_lines
from clusters.ports import ReservedPort, reserve_port
from clusters.processes import Child, spawn
from clusters.waiting import await_until

HEAP_MIB = 96


@dataclass(slots=True)
class LocalZooKeeper:
    """One member; ``index`` counts from 1 as ``myid`` does."""

    index: int
    directory: Path
    port: ReservedPort
    peer_ports: tuple[ReservedPort, ...]
    child: Child

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) for clients."""
        return "127.0.0.1", self.port.number

    def give_back_ports(self) -> None:
        """Give its ports back."""
        for port in (self.port, *self.peer_ports):
            port.release()

    def check_running(self) -> None:
        """Raise BrokerExited if the member's process has ended."""
        code = self.child.exit_code
        if code is not None:
            files = [self.directory / "server.log", self.directory / "console.log"]
            raise BrokerExited(
                name=f"zookeeper {self.index}",
                exit_code=code,
                last_lines=last_lines(files),
                log=str(self.directory),
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
            waiting_for=f"zookeeper {self.index} to serve at 127.0.0.1:{self.port.number}",
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
    count: int,
    *,
    above: Path,
    java_home: Path,
    class_path: Sequence[Path],
    tick_time_ms: int,
    flags_of: Callable[[Path], Sequence[str]],
) -> list[LocalZooKeeper]:
    """Start ``count`` members below the folder ``above`` and return without waiting for them.

    ``flags_of`` returns the JVM flags of the member that runs in a folder.
    """
    peers = [(reserve_port(), reserve_port()) for _ in range(count)] if count > 1 else []
    return [
        _start_one(index, peers, above, java_home, class_path, tick_time_ms, flags_of)
        for index in range(1, count + 1)
    ]


def _start_one(
    index: int,
    peers: Sequence[tuple[ReservedPort, ReservedPort]],
    above: Path,
    java_home: Path,
    class_path: Sequence[Path],
    tick_time_ms: int,
    flags_of: Callable[[Path], Sequence[str]],
) -> LocalZooKeeper:
    directory = above / f"zookeeper-{index}"
    data = directory / "data"
    for folder in (data, directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    port = reserve_port()
    text = zookeeper_text(
        data=data,
        client_port=port.number,
        tick_time_ms=tick_time_ms,
        peers=[(peer.number, election.number) for peer, election in peers],
    )
    (directory / "zoo.cfg").write_text(text, encoding="utf-8")
    (data / "myid").write_text(f"{index}\n", encoding="utf-8")
    log4j = directory / "log4j.properties"
    log4j.write_text(log4j_text(directory / "server.log"), encoding="utf-8")
    command = java_command(
        java_home,
        # The data is thrown away with the cluster, so nothing is gained by syncing it to disk;
        # the first transaction log is 64 MiB unless told otherwise.
        flags=[*flags_of(directory), "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64"],
        heap_mib=HEAP_MIB,
        class_path=class_path,
        log4j=log4j,
        temporary=directory / "tmp",
        arguments=[
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(directory / "zoo.cfg"),
        ],
    )
    child = spawn(
        command, log_file=directory / "console.log", cwd=directory, name=f"zookeeper {index}"
    )
    return LocalZooKeeper(
        index=index,
        directory=directory,
        port=port,
        peer_ports=peers[index - 1] if peers else (),
        child=child,
    )
