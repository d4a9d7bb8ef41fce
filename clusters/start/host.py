"""The host that JVMs of one cluster run on: the part in which the drivers differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

from kchaos.clusters.api import Collectable, Killable, Pausable, Restartable, Wire
from kchaos.clusters.disk.mounting import remedy
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import Distribution, resolve
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.system.leftovers import record_process
from kchaos.clusters.system.ports import ReservedPort, reserve_port
from kchaos.clusters.system.processes import Process, spawn

Role = Literal["zookeeper", "controller", "broker"]
_INNER_PORTS: dict[Role, int] = {"zookeeper": 2, "controller": 0, "broker": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The place of one ZooKeeper member, controller or broker, fixed over all its starts.

    ``directory`` is its folder, the same path inside and outside; ``listen_host`` is what its
    sockets are bound to; ``host`` is how the other JVMs of the cluster reach it;
    ``client_port`` is where this machine reaches it, on 127.0.0.1, and ``client_listen_port``
    is the same socket as the JVM knows it. ``inner_ports`` are a broker's inter-broker port,
    and another one where brokers do not reach each other as clients do; or a member's peer and
    election port; a controller has none. ``reserved`` are all ports of 127.0.0.1 that it needs.
    """

    name: str
    directory: Path
    listen_host: str
    host: str
    client_port: ReservedPort
    client_listen_port: int
    inner_ports: tuple[int, ...]
    reserved: tuple[ReservedPort, ...]
    wire: Wire | None = None

    @property
    def client_address(self) -> tuple[str, int]:
        """Where this machine reaches the listener for clients."""
        return "127.0.0.1", self.client_port.number

    def listeners(
        self, advertised: tuple[str, int], to_clients: tuple[str, int]
    ) -> dict[str, tuple[str, str]]:
        """Return where a broker listens and what it tells others, by the listener's name.

        ``advertised`` is the inter-broker listener's address, and ``to_clients`` that of the
        listener for clients; each may be a link's.
        """
        here = self.listen_host
        return {
            "INTERNAL": (f"{here}:{self.inner_ports[0]}", f"{advertised[0]}:{advertised[1]}"),
            "CLIENT": (f"{here}:{self.client_listen_port}", f"{to_clients[0]}:{to_clients[1]}"),
        }


class Host(Protocol):
    """The driver's own part: nodes, processes, and an address for the links."""

    @property
    def capabilities(self) -> frozenset[type]:
        """Capabilities of a broker here."""

    @property
    def links_host(self) -> str:
        """The address of this machine that the cluster's JVMs reach: links listen there."""

    @property
    def guests(self) -> IPv4Network | None:
        """The only addresses that links answer; None where nobody else reaches them."""

    @property
    def why_unlinked(self) -> str:
        """Why links cannot listen there, and what to do; empty where they can."""

    @property
    def why_unreached(self) -> str:
        """Likely reason where brokers do not reach ZooKeeper and nothing came in at the links."""

    @property
    def why_no_disk(self) -> str:
        """Why no broker's disk can be made slow, and what to do; empty where one can."""

    def resolve(self, kafka: str, *, offline: bool) -> Distribution:
        """Return the Kafka of that name; see ``clusters.kafka.distribution.resolve``."""

    @property
    def description(self) -> Mapping[str, str]:
        """Versions of the software that runs the JVMs, once it is open, for the run's record."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that it goes by, other than by default."""

    def open(self, spec: ClusterSpec) -> None:
        """Prepare for the nodes of the spec; raise MachineError if it cannot be had."""

    def node(self, role: Role, index: int) -> Node:
        """Return the place of a member, a controller or a broker."""

    def spawn(
        self,
        node: Node,
        command: Sequence[str],
        distribution: Distribution,
        console: Path,
        reads: Sequence[Path] = (),
    ) -> Process:
        """Start a JVM; its console output is appended to a file.

        ``reads`` are files that it reads besides the distribution's and those of its folder.
        """

    def close(self) -> None:
        """Remove whatever was made. Safe to call twice."""


class LocalHost:
    """This machine: processes and ports of 127.0.0.1."""

    _is_combined = False

    capabilities: frozenset[type] = frozenset({Killable, Pausable, Restartable, Collectable})
    links_host = "127.0.0.1"
    guests: IPv4Network | None = None
    why_unlinked = ""
    why_unreached = "nothing came in at the links on 127.0.0.1"
    description: Mapping[str, str] = MappingProxyType({})
    environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self, work_directory: Path) -> None:
        self._work_directory = work_directory

    @property
    def why_no_disk(self) -> str:
        """Reason for which this machine or this user cannot have such a disk, or ""."""
        return remedy()

    def resolve(self, kafka: str, *, offline: bool) -> Distribution:
        """Return the Kafka of that name."""
        return resolve(kafka, offline=offline)

    def open(self, spec: ClusterSpec) -> None:
        """Refuse what processes cannot have; nothing needs to be prepared."""
        self._is_combined = spec.combined
        if spec.limits:
            raise MachineError(
                f"the scenario limits each broker ({', '.join(spec.limits)}), which processes "
                "cannot be: take that out of it, or start containers with --driver docker"
            )

    def node(self, role: Role, index: int) -> Node:
        """Reserve ports: a broker's inter-broker port, or a member's peer and election port.

        A combined node has one more, its controller's, as the last one.
        """
        client = reserve_port()
        inner = [reserve_port() for _ in range(_INNER_PORTS[role] + self._is_combined)]
        return Node(
            name=f"{role} {index}",
            directory=self._work_directory / f"{role}-{index}",
            listen_host=self.links_host,
            host=self.links_host,
            client_port=client,
            client_listen_port=client.number,
            inner_ports=tuple(port.number for port in inner),
            reserved=(client, *inner),
        )

    def spawn(
        self,
        node: Node,
        command: Sequence[str],
        distribution: Distribution,
        console: Path,
        reads: Sequence[Path] = (),
    ) -> Process:
        """Start a process that ends with this one; it reads what its user may."""
        child = spawn(command, log_file=console, cwd=node.directory, name=node.name)
        record_process(self._work_directory, child)
        return child

    def close(self) -> None:
        """Do nothing, since no resource outlives its process."""
