"""Protocols that every driver offers: clusters, brokers, and what can be done to them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self, runtime_checkable

from kazoo.client import KazooClient

from kchaos.clusters.agent import Gate
from kchaos.clusters.links import Links
from kchaos.clusters.metadata.api import ClusterMetadata
from kchaos.clusters.spec import ClusterSpec

Stage = Literal["zookeeper", "migration", "kraft"]
"""Stage of a node's migration: in migration mode a broker still uses ZooKeeper."""
MigrationState = Literal["migration", "post-migration"]
"""State of a migration by the metadata log: dual write, or its end."""


@runtime_checkable
class Killable(Protocol):
    """A broker whose process can be ended from outside."""

    def kill(self) -> None:
        """End the process with SIGKILL and return once it is gone."""

    def stop(self, timeout_s: float = 60) -> None:
        """Ask the broker to shut down and return once it has; raise AwaitTimeout otherwise."""


@runtime_checkable
class Pausable(Protocol):
    """A broker whose process can be frozen as it is."""

    def pause(self) -> None:
        """Stop the process (SIGSTOP); its connections stay open and nothing is answered."""

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""

    @property
    def is_paused(self) -> bool:
        """Whether the process is frozen, as the system that runs it says."""


class Wire(Protocol):
    """The network of one broker, where it has one of its own."""

    @property
    def is_connected(self) -> bool:
        """Whether the broker is on its network."""

    def disconnect(self) -> None:
        """Take the network away; see Disconnectable."""

    def reconnect(self) -> None:
        """Give the network back; see Disconnectable."""


@runtime_checkable
class Disconnectable(Wire, Protocol):
    """A broker with a network of its own that can be taken away from it.

    Disconnecting cuts everything at once: other brokers, ZooKeeper, and clients. The process goes
    on. Reconnecting gives it the same address and the same published ports.
    """


@runtime_checkable
class Restartable(Protocol):
    """A broker that can be started again, also with another release or configuration."""

    def configure(
        self,
        kafka: str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        judged_as: str | None = None,
        stage: Stage | None = None,
    ) -> None:
        """Change what it is started with from now on.

        ``kafka`` replaces the broker's Kafka, which is judged as ``judged_as`` or else as the
        nearest release; ``properties`` are added to its own; ``stage`` is that of its migration.
        Raises ClusterError while it runs.
        """

    def start(self) -> None:
        """Start the process and return at once; raise ClusterError when it runs already."""

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once the broker that ``start`` started is registered and answers.

        Raises BrokerExited at once when its process ends, AwaitTimeout after ``timeout_s``.
        """


@runtime_checkable
class Injectable(Protocol):
    """A broker whose JVM runs the agent: its threads can be held at named points of its code."""

    @property
    def points(self) -> frozenset[str]:
        """The points of ``clusters.agent.points`` that were asked for; none without an agent."""


@runtime_checkable
class Collectable(Protocol):
    """A broker whose files can be read."""

    @property
    def log_directory(self) -> Path:
        """Kafka's log.dir: the first folder of its partition directories."""

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """All folders of its partition directories, in the order of Kafka's log.dirs."""

    @property
    def server_log(self) -> Path:
        """The file that the broker writes its log lines to, over all its starts."""


@runtime_checkable
class Broker(Killable, Pausable, Restartable, Injectable, Collectable, Protocol):
    """One broker of a cluster; ``capabilities`` says what its driver really can do to it."""

    @property
    def id(self) -> int:
        """Its broker.id."""

    @property
    def release(self) -> str:
        """The release it runs (after a restart with another one: that)."""

    @property
    def judged_as(self) -> str:
        """The release whose rules it is judged by: its own, or the nearest to an own build."""

    @property
    def build(self) -> str:
        """Which build of its release it runs: path and digest; empty for what was published."""

    @property
    def pid(self) -> int | None:
        """Its process on this machine; None while there is none."""

    @property
    def client_address(self) -> str:
        """``host:port`` for clients; the same over all its starts."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The whole configuration that it is started with."""

    @property
    def is_running(self) -> bool:
        """Whether its process exists (a paused one does)."""

    @property
    def exit_code(self) -> int | None:
        """Exit code of its last process, negative for a signal; None while it runs or before."""

    @property
    def cause_of_death(self) -> str:
        """Cause outside Kafka that ended its last process, such as a memory limit; or empty."""

    def check_running(self) -> None:
        """Raise BrokerExited, with the cause and its last log lines, if its process has ended."""

    @property
    def capabilities(self) -> frozenset[type]:
        """The protocols of this module that it fulfils."""


class ZooKeeperNode(Killable, Pausable, Protocol):
    """One member of ZooKeeper."""

    @property
    def index(self) -> int:
        """Its number, from 1 on, as its ``myid`` says."""

    @property
    def ensemble(self) -> int:
        """How many members there are."""

    @property
    def data(self) -> Path:
        """The folder of its ``dataDir``; its logs and snapshots are in ``version-2`` there."""

    @property
    def is_running(self) -> bool:
        """Whether its process exists (a paused one does)."""

    def start(self) -> None:
        """Start its process anew and return at once."""

    def cut_off(self) -> None:
        """Let nothing pass between it and the other members, where the cluster has links."""

    def rejoin(self) -> None:
        """Let it reach the other members again; connections that were cut are over."""

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing passes between it and the other members."""

    def mode(self) -> str:
        """Return "standalone", "leader" or "follower"; empty while it does not serve."""


@runtime_checkable
class Cluster(Protocol):
    """A running cluster; leaving its context stops everything it started."""

    @property
    def spec(self) -> ClusterSpec:
        """The specification that it was made from."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers by id."""

    @property
    def bootstrap_servers(self) -> list[str]:
        """The client addresses of all brokers, for clients that are not kchaos's own."""

    @property
    def has_given_addresses(self) -> bool:
        """Whether somebody asked for `bootstrap_servers`: then others may write, too."""

    @property
    def zookeeper_addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each ZooKeeper member, directly and not through links."""

    @property
    def zookeeper_members(self) -> Sequence[ZooKeeperNode]:
        """The ZooKeeper members, member 1 first; none with KRaft."""

    @property
    def controllers(self) -> Mapping[int, Broker]:
        """The controllers of a KRaft cluster by node id; none with ZooKeeper."""

    @property
    def is_kraft(self) -> bool:
        """Whether KRaft controllers are asked for metadata now; a migration changes it."""

    def provision_controllers(self) -> None:
        """Start the KRaft controllers of a cluster that migrates; return once they have a leader.

        They wait for all brokers to be in migration mode. Raises ClusterError where there are some.
        """

    def deprovision_controllers(self) -> None:
        """Stop the controllers of a migration, and have brokers elect one of them again."""

    def await_migration(
        self, state: MigrationState, *, timeout_s: float, abort: Callable[[], None]
    ) -> None:
        """Return once a migration has come to this state; controllers are asked for metadata then.

        Raises what ``abort`` raises, and AwaitTimeout.
        """

    def metadata_folders(self) -> Mapping[int, Path]:
        """Return each node's copy of the metadata log by node id; none with ZooKeeper."""

    def record_definitions(self) -> Mapping[str, bytes]:
        """Return the newest release's definitions of metadata records; none with ZooKeeper.

        They are the content of files by name, as its jar has them.
        """

    @property
    def links(self) -> Links | None:
        """The links between the brokers, None without; closed with the cluster."""

    @property
    def gate(self) -> Gate | None:
        """Where threads report that come to points, None where no broker has any."""

    @property
    def description(self) -> Mapping[str, Any]:
        """Facts worth keeping with a run, as JSON values.

        ``jars`` has the SHA-256 of each jar of each Kafka; with containers there are engine and
        images besides.
        """

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables without which its driver would make another cluster."""

    @property
    def why_unlinked(self) -> str:
        """Why there are no links, and what to do about it; empty where there are."""

    @property
    def work_directory(self) -> Path:
        """The folder that holds everything the cluster writes."""

    @property
    def metadata(self) -> ClusterMetadata:
        """Interface to the cluster's metadata; raises ClusterError unstarted."""

    def zookeeper(self) -> KazooClient:
        """Return the started client that everyone who watches this cluster shares."""

    def start(self) -> None:
        """Start everything and return once every broker is ready."""

    def stop(self) -> None:
        """End every process at once (SIGKILL); the files stay. Safe to call twice."""

    def __enter__(self) -> Self:
        """Start the cluster."""

    def __exit__(self, *_: object) -> None:
        """Stop the cluster, whatever happened."""
