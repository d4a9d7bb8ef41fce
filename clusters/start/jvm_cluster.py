"""A cluster of JVMs, the same for every driver: what starts when, and what ends how."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Self

from kazoo.client import KazooClient

from kchaos.checkers.acts import CutZooKeeper
from kchaos.checkers.folders import plain
from kchaos.checkers.formats.metadata_records import (
    MetadataRecordError,
    RecordDefinitions,
    definitions_in_jar,
)
from kchaos.clusters.agent.byteman import Agent, byteman_jar
from kchaos.clusters.agent.gate import Gate
from kchaos.clusters.agent.points import code_points, controller_bugs
from kchaos.clusters.api import MigrationState, Stage
from kchaos.clusters.disk.mounting import Disk, mounted
from kchaos.clusters.errors import BrokerExited, ClusterError, MachineError, ReleaseError
from kchaos.clusters.kafka.class_archive import ClassSharing
from kchaos.clusters.kafka.distribution import Distribution, java_of
from kchaos.clusters.links import Cut, Links
from kchaos.clusters.links.peers import PeerLinks
from kchaos.clusters.metadata.api import ClusterMetadata
from kchaos.clusters.metadata.kraft import KraftMetadata
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.clusters.releases import KRAFT_VERSION, release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start import jvm_controller, kraft_storage, tiered
from kchaos.clusters.start.configuration import (
    CONTROLLER_LISTENER,
    FAST_JVM_FLAGS,
    KRAFT_DEFAULTS,
    advertised,
    broker_defaults,
    kraft_properties,
    listener_properties,
    migrating_broker,
    migrating_controller,
    mixed_protocol,
    without_zookeeper,
)
from kchaos.clusters.start.host import Host, Node, Role
from kchaos.clusters.start.jvm_broker import BrokerPlace, JvmBroker
from kchaos.clusters.start.jvm_controller import JvmCombined, JvmController
from kchaos.clusters.start.jvm_zookeeper import HEAP_MIB, ZooKeeperMember, start_zookeepers
from kchaos.clusters.start.spec_checks import refuse_slow_disks, refuse_unknown, unread_at_start
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.memory import check_memory
from kchaos.clusters.system.waiting import await_until

_STEP_OF_START_S = 60.0
"""Seconds until a broker must be the controller, or know all brokers."""
_LAST_LINES = 100
# Exceptions of a broker that does not reach ZooKeeper: of its own client up to 1.0, and later.
_NO_ZOOKEEPER = re.compile(r"ZkTimeoutException|ZooKeeperClientTimeoutException")


class JvmCluster:
    """A cluster of real JVMs; see ``clusters.api.Cluster`` for what each name promises.

    ``work_directory`` is made and owned by the cluster and stays after it; ``offline`` forbids
    every fetch; ``say`` is told in plain words what happens; ``host`` is where the JVMs run;
    ``share_classes`` says whether class-data archives are used.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        host: Host,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
        share_classes: bool = True,
    ) -> None:
        self.spec = spec
        self.work_directory = plain(work_directory)
        self.links: Links | None = None
        self.gate: Gate | None = None
        self.has_given_addresses = False
        self._is_migrated = False
        self._say = say or (lambda _text: None)
        self._host = host
        self._offline = offline
        self._class_sharing = (
            ClassSharing("kraft" if spec.is_kraft else "") if share_classes else None
        )
        resolve = cache(partial(tiered.resolved, spec, host, offline))

        def distribution_of(kafka: str) -> Distribution:
            distribution: Distribution = resolve(kafka)
            if spec.is_kraft:
                self._learn_records(distribution)
            return distribution

        self._distribution_of = distribution_of
        self._java_of = cache(lambda distribution: java_of(distribution, offline=offline))
        self._brokers: dict[int, JvmBroker] = {}
        self._zookeepers: list[ZooKeeperMember] = []
        self._peer_links: PeerLinks | None = None
        self._controllers: dict[int, JvmController] = {}
        self._kraft: KraftMetadata | None = None
        self._zookeeper_metadata: ZooKeeperMetadata | None = None
        self._records_of: Distribution | None = None
        self._voters: dict[int, str] = {}
        self._cluster_id = kraft_storage.new_id() if spec.is_kraft else ""
        self._client: KazooClient | None = None
        self._disks: list[Disk] = []

    @property
    def brokers(self) -> Mapping[int, JvmBroker]:
        """The brokers by id; empty before ``start``."""
        return self._brokers

    @property
    def bootstrap_servers(self) -> list[str]:
        """The addresses for clients that are not kchaos's own: those of the links, if there are."""
        self.has_given_addresses = True
        if self.links is not None and self.links.client_addresses:
            return [f"{host}:{port}" for host, port in self.links.client_addresses.values()]
        return [broker.client_address for broker in self._brokers.values()]

    @property
    def zookeeper_addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each ZooKeeper member, directly."""
        return tuple(member.address for member in self._zookeepers)

    @property
    def zookeeper_members(self) -> tuple[ZooKeeperMember, ...]:
        """The ZooKeeper members, member 1 first."""
        return tuple(self._zookeepers)

    @property
    def controllers(self) -> Mapping[int, JvmController]:
        """The controllers by node id; none with ZooKeeper, and before ``start``."""
        return self._controllers

    def metadata_folders(self) -> Mapping[int, Path]:
        """Return each node's copy of the metadata log by node id, where KRaft started it."""
        nodes = [*self._controllers.values(), *self._brokers.values()]
        folders = {node.id: node.log_directory / kraft_storage.METADATA_FOLDER for node in nodes}
        if self.spec.is_kraft:
            return folders
        return {node: folder for node, folder in folders.items() if folder.is_dir()}

    def provision_controllers(self) -> None:
        """Start a migration's controllers with the cluster's id; see ``clusters.api.Cluster``."""
        if not self.spec.migrates or self._controllers:
            raise ClusterError("controllers are provisioned once, in a cluster that migrates")
        self._cluster_id = ZooKeeperMetadata(self.zookeeper()).cluster_id()
        distributions = {broker.id: broker.distribution for broker in self._brokers.values()}
        for distribution in distributions.values():
            self._learn_records(distribution)
        self._start_controllers(distributions)
        for controller in self._controllers.values():
            controller.await_ready()

    @property
    def is_kraft(self) -> bool:
        """Whether controllers are asked for metadata now; see ``clusters.api.Cluster``."""
        return self.spec.is_kraft or self._is_migrated

    def await_migration(
        self, state: MigrationState, *, timeout_s: float, abort: Callable[[], None]
    ) -> None:
        """Return once a migration has come to this state; see ``clusters.api.Cluster``."""

        def reached() -> str:
            reached = "none" if self._kraft is None else self._kraft.migration_state()
            in_both = ZooKeeperMetadata(self.zookeeper()).is_written_back
            return "copying" if reached == "migration" and not in_both() else reached

        await_until(
            lambda: reached() == state,
            timeout_s=timeout_s,
            waiting_for=f"the state {state} of the migration",
            last_seen=reached,
            remedy="see controllers/N/server.log for KRaftMigrationDriver; every broker has to be "
            "registered in migration mode",
            abort=abort,
        )
        self._is_migrated = True

    def deprovision_controllers(self) -> None:
        """Stop a migration's controllers and give ZooKeeper its office back; see ``Cluster``."""
        for controller in self._controllers.values():
            controller.stop()
        self._is_migrated = False
        ZooKeeperMetadata(self.zookeeper()).end_migration()

    def record_definitions(self) -> Mapping[str, bytes]:
        """Return the newest release's definitions of metadata records; none with ZooKeeper."""
        return {} if self._records_of is None else _record_definitions(self._records_of)

    def _learn_records(self, distribution: Distribution) -> None:
        """Read metadata records as the newest Kafka defines them, which knows the older ones."""
        known = self._records_of
        if known is None or release_of(distribution.release) > release_of(known.release):
            self._records_of = distribution

    @property
    def description(self) -> Mapping[str, Any]:
        """Software that runs the JVMs, and that they run; see ``clusters.api.Cluster``."""
        jars = {
            kafka: self._distribution_of(kafka).digests
            for kafka in sorted(
                self.spec.kafkas | {broker.kafka for broker in self._brokers.values()}
            )
        }
        return {**self._host.description, "jars": jars}

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that its driver goes by; see ``clusters.api.Cluster``."""
        return self._host.environment

    @property
    def why_unlinked(self) -> str:
        """Why there are no links; empty where there are."""
        if self.links is not None:
            return ""
        if not self.spec.linked:
            return "start it with linked=True"
        return self._host.why_unlinked or "it is not started"

    def zookeeper(self) -> KazooClient:
        """Return the shared client; raise ClusterError before ``start`` and after ``stop``.

        A KRaft cluster has none, at any time.
        """
        if self.spec.is_kraft:
            raise ClusterError("the metadata of this cluster is kept by KRaft: it has no ZooKeeper")
        if self._client is None:
            raise ClusterError("the cluster is not started, so it has no ZooKeeper to ask")
        return self._client

    @property
    def metadata(self) -> ClusterMetadata:
        """Metadata by the shared client of ZooKeeper, or by the controllers' logs."""
        if self.is_kraft:
            if self._kraft is None:
                raise ClusterError("the cluster is not started, so it has no metadata")
            return self._kraft
        client = self.zookeeper()
        if self._zookeeper_metadata is None or self._zookeeper_metadata.client is not client:
            self._zookeeper_metadata = ZooKeeperMetadata(
                client, address_of=lambda broker: self._brokers[broker].client_address
            )
        return self._zookeeper_metadata

    def start(self) -> None:
        """Start everything; on any failure, Ctrl-C included, stop what was started."""
        if self._zookeepers or self._controllers:
            raise ClusterError("this cluster was started before; make a new one")
        try:
            self._start()
        except OSError as error:
            self.stop()
            raise MachineError(
                f"the cluster could not be started: {error}; check the free space and the "
                f"permissions of {self.work_directory}"
            ) from error
        except BrokerExited as error:
            is_alone = self.links is not None and not self.links.accepted
            lines = last_lines([Path(error.log)], _LAST_LINES)
            if is_alone and any(map(_NO_ZOOKEEPER.search, lines)):
                error.add_note(self._host.why_unreached)
            self.stop()
            raise
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        distributions = {b.id: self._distribution_of(b.kafka) for b in self.spec.brokers}
        releases = {b: release_of(d.release) for b, d in distributions.items()}
        refuse_unknown(self.spec, releases)
        if unread := unread_at_start(self.spec, releases):
            self._say(unread)
        refuse_slow_disks(self.spec, lambda: self._host.why_no_disk)
        check_memory([self.spec.broker_heap_mib] * len(distributions) + self._keepers_heaps)
        self.work_directory.mkdir(parents=True, exist_ok=True)
        if self.spec.tiered:
            (self.work_directory / tiered.FOLDER).mkdir(exist_ok=True)
        self._host.open(self.spec)
        self._open_links()
        self._open_gate()
        if self.spec.is_kraft:
            self._start_controllers(distributions)
        else:
            self._start_zookeeper(distributions)
        for broker_spec in () if self.spec.combined else self.spec.brokers:
            node = self._host.node("broker", broker_spec.id)
            self._brokers[broker_spec.id] = self._place(broker_spec, node, distributions)
        self._write_description()
        self._say(f"starting {len(self._brokers)} brokers")
        self._start_brokers()
        for broker in self._brokers.values():
            broker.await_ready()
        for broker in self._brokers.values():
            self._await_metadata(broker)
        if self._class_sharing is not None:
            self._class_sharing.write_archives()

    def _start_brokers(self) -> None:
        """Start the brokers; the spec's first one is the controller before others may register.

        A KRaft cluster has its controllers already, so all brokers start at once.

        With links all JVMs boot at once, beside ZooKeeper's, and what a broker asks of ZooKeeper
        waits at its link until its turn has come. A client that is refused instead, because it
        came too early, waits for up to two seconds before its next try.
        """
        if self.spec.is_kraft:
            self._start_kraft_brokers()
            return
        first = self.spec.first_broker
        in_turn = sorted(self._brokers.values(), key=lambda broker: broker.id != first)
        held: dict[int, Cut] = {}
        if self.links is not None:
            for broker in in_turn:
                held[broker.id] = self.links.cut(CutZooKeeper(broker=broker.id))
                broker.start()
        self._await_zookeeper()
        if self.spec.tiered:
            tiered.create_metadata_topic(self.metadata, in_turn[0].id)
        for broker in in_turn:
            if broker.id in held:
                held[broker.id].heal()
            else:
                broker.start()
            if broker.id == first:
                self._await_controller(broker)

    def _start_kraft_brokers(self) -> None:
        """Start the brokers at once; of a tiered cluster the last one comes alone before them."""
        starting = dict(self._brokers)
        if self.spec.tiered:
            holder = starting.pop(max(starting))
            holder.start()
            tiered.await_metadata_topic(self.metadata, holder)
        for broker in starting.values():
            broker.start()
        for controller in () if self.spec.combined else self._controllers.values():
            controller.await_ready()

    @property
    def _keepers_heaps(self) -> list[int]:
        """The heaps of what keeps the metadata."""
        if self.spec.combined:
            return []
        if self.spec.is_kraft:
            return [jvm_controller.HEAP_MIB] * len(self.spec.controller_ids)
        return [HEAP_MIB] * self.spec.zookeepers

    def _start_controllers(self, distributions: Mapping[int, Distribution]) -> None:
        """Start the controllers, on the newest release; they wait for each other, and nobody here.

        The new cluster has the feature levels that its oldest release gives one. Combined nodes are
        placed, and start as brokers do.
        """
        newest = max(distributions.values(), key=lambda d: release_of(d.release))
        oldest = min(release_of(d.release) for d in distributions.values())
        # Before its controllers are provisioned a cluster may have been upgraded.
        brokers = self._brokers.values() or self.spec.brokers
        kafka = next(broker.kafka for broker in brokers if distributions[broker.id] is newest)
        combined = self.spec.combined
        if not combined:
            count = len(self.spec.controller_ids)
            self._say(f"starting {count} controllers of Kafka {newest.release}")
        role: Role = "broker" if combined else "controller"
        nodes = {id_: self._host.node(role, id_) for id_ in self.spec.controller_ids}
        addresses = {
            id_: (node.host, node.inner_ports[-1] if combined else node.client_listen_port)
            for id_, node in nodes.items()
        }
        if self.links is not None:
            addresses = {
                id_: self.links.add_controller(id_, target, is_broker=combined)
                for id_, target in addresses.items()
            }
        self._voters = {id_: f"{host}:{port}" for id_, (host, port) in addresses.items()}
        levels = {**oldest.feature_levels, **self.spec.features}
        # A control record of the log has the level of kraft.version, and no bootstrap.
        levels.pop(KRAFT_VERSION, None)
        features = {name: level for name, level in levels.items() if level}
        for id_, node in nodes.items():
            folder = node.directory / "data"
            kraft_storage.write_bootstrap(folder, features, timestamp_ms=int(time.time() * 1000))
            if not combined:
                self._controllers[id_] = self._controller(id_, node, kafka)
        for broker in self.spec.brokers if combined else ():
            made = self._place(broker, nodes[broker.id], distributions)
            assert isinstance(made, JvmController)
            self._brokers[broker.id] = self._controllers[broker.id] = made
        if self.spec.has_dynamic_quorum:
            self._format_voters()
        _decoding(newest)
        self._kraft = KraftMetadata(
            folders={
                id_: each.log_directory / kraft_storage.METADATA_FOLDER
                for id_, each in self._controllers.items()
            },
            addresses={id_: each.controller_address for id_, each in self._controllers.items()},
            definitions=lambda: _decoding(self._records_of or newest),
            first_voters=self.spec.first_voters,
        )
        if self.links is not None:
            self.links.ask_for_topics(self._kraft.topic_named)
        for controller in () if combined else self._controllers.values():
            controller.start()

    def _format_voters(self) -> None:
        """Format the first voters of a dynamic quorum, with the directory ids of all.

        ``kafka-storage format`` does so with --initial-controllers, or with --standalone for one.
        """
        folders = {id_: self._controllers[id_].log_directory for id_ in self.spec.first_voters}
        for id_, folder in folders.items():
            kraft_storage.format_storage(folder, cluster_id=self._cluster_id, node_id=id_)
        voters = {
            id_: (kraft_storage.directory_id(folder), self._voters[id_])
            for id_, folder in folders.items()
        }
        for folder in folders.values():
            kraft_storage.write_first_voters(folder, voters, name=CONTROLLER_LISTENER)

    def _controller(self, node_id: int, node: Node, kafka: str) -> JvmController:
        here = f"{node.listen_host}:{node.client_listen_port}"
        listeners = {CONTROLLER_LISTENER: (here, self._voters[node_id])}
        fixed = {
            "log.dir": str(node.directory / "data"),
            **kraft_properties(
                "controller",
                node_id,
                self._voters,
                listeners,
                is_dynamic=self.spec.has_dynamic_quorum,
            ),
            # A controller refuses topics with tiered logs where it has not this setting itself.
            **({tiered.SYSTEM: "true"} if self.spec.tiered else {}),
            **self.spec.properties,
        }

        def base_properties(distribution: Distribution, stage: Stage) -> dict[str, str]:
            told = advertised(release_of(distribution.release), listeners)
            properties = {**KRAFT_DEFAULTS, **told, **fixed}
            if stage == "kraft":
                return without_zookeeper(properties)
            zookeepers = [member.inner_address for member in self._zookeepers]
            return migrating_controller(properties, zookeepers)

        place = self._node_place(
            node_id,
            node,
            heap_mib=jvm_controller.HEAP_MIB,
            base_properties=base_properties,
            role="controller",
            agent=self._agent(controller_bugs(self.spec)),
        )
        return JvmController(
            place=place,
            kafka=kafka,
            own_properties={},
            quorum=self._controllers,
            stage="kraft" if self.spec.is_kraft else "migration",
        )

    def _start_zookeeper(self, distributions: Mapping[int, Distribution]) -> None:
        """Start ZooKeeper from the newest release, whose server serves older clients too."""
        newest = max(distributions.values(), key=lambda d: release_of(d.release))
        if self.links is not None and self.spec.zookeepers > 1:
            self._peer_links = PeerLinks(self._host.links_host, self._host.guests)
        if self.spec.zookeeper_kafka is not None:
            newest = self._distribution_of(self.spec.zookeeper_kafka)
        self._say(f"starting ZooKeeper ({self.spec.zookeepers}) from Kafka {newest.release}")
        self._zookeepers = start_zookeepers(
            [self._host.node("zookeeper", i + 1) for i in range(self.spec.zookeepers)],
            java_home=self._java_of(newest),
            class_path=newest.class_path,
            tick_time_ms=self.spec.tick_time_ms,
            flags_of=lambda directory: self._flags_of(newest, directory),
            spawn=lambda node, command, console: self._host.spawn(node, command, newest, console),
            links=self._peer_links,
        )

    def _flags_of(self, distribution: Distribution, directory: Path) -> list[str]:
        flags = list(FAST_JVM_FLAGS)
        if self._class_sharing is not None and not distribution.image:
            home = self._java_of(distribution)
            flags += self._class_sharing.flags(distribution, home, directory)
        return flags

    def _await_zookeeper(self) -> None:
        for member in self._zookeepers:
            member.await_ready()
        hosts = ",".join(f"{host}:{port}" for host, port in self.zookeeper_addresses)
        client = KazooClient(hosts=hosts, timeout=30)
        client.start(timeout=30)
        self._client = client

    def _open_links(self) -> None:
        """Make the relays, if the spec asks for them, before any broker knows an address."""
        if not self.spec.linked:
            return
        if self._host.why_unlinked:
            self._say(f"no links between the brokers: {self._host.why_unlinked}")
            return
        self.links = Links(host=self._host.links_host, guests=self._host.guests)

    def _open_gate(self) -> None:
        """Listen for threads that come to points, if any broker has some; fetch the agent."""
        if not any(broker.points for broker in self.spec.brokers):
            return
        if self._host.why_unlinked:
            raise MachineError(
                f"the brokers' agents could not reach the harness: {self._host.why_unlinked}"
            )
        if any(code_points(broker.points) for broker in self.spec.brokers):
            self._agent_jar = byteman_jar(offline=self._offline)
        self.gate = Gate(self._host.links_host)

    def _agent(self, points: tuple[str, ...]) -> Agent | None:
        if self.gate is None or not points:
            return None
        return Agent(jar=self._agent_jar, points=points, gate=self.gate.address)

    def _place(
        self, broker_spec: BrokerSpec, node: Node, distributions: Mapping[int, Distribution]
    ) -> JvmBroker:
        broker_id = broker_spec.id
        disk = mounted(broker_spec, node.directory, self.gate, self.work_directory)
        self._disks += [] if disk is None else [disk]
        inner = (node.host, node.inner_ports[0])
        to_clients = node.client_address
        if self.links is not None:
            inner = self.links.add_broker(broker_id, target=inner)
            if self.spec.client_links:
                to_clients = self.links.add_clients(broker_id, target=to_clients)
        listeners = tiered.listeners_with_tiering(
            self.spec, node, node.listeners(inner, to_clients)
        )
        if self.spec.combined:
            here = f"{node.listen_host}:{node.inner_ports[-1]}"
            listeners[CONTROLLER_LISTENER] = (here, self._voters[broker_id])
        folders = [str(node.directory / "data")]
        folders += [f"{folders[0]}-{number}" for number in range(1, broker_spec.log_directories)]
        fixed = {
            "log.dir": folders[0],
            **({"log.dirs": ",".join(folders)} if folders[1:] else {}),
            **tiered.properties_of_tiering(self.spec, self.work_directory, listeners),
        }
        to_zookeeper = self._ways_to_zookeeper(broker_id, listeners, distributions)

        def base_properties(distribution: Distribution, stage: Stage) -> dict[str, str]:
            release = release_of(distribution.release)
            brokers = len(self.spec.brokers)
            own = broker_defaults(release, is_kraft=stage == "kraft", brokers=brokers)
            last = {**fixed, **self.spec.properties, **advertised(release, listeners)}
            to_kraft = self._ways_to_kraft(broker_id, listeners)
            if stage == "kraft":
                return without_zookeeper({**own, **to_kraft, **last})
            properties = {**own, **to_zookeeper, **last}
            return properties if stage == "zookeeper" else migrating_broker(properties, to_kraft)

        place = self._node_place(
            broker_id,
            node,
            heap_mib=self.spec.broker_heap_mib,
            base_properties=base_properties,
            agent=self._agent(code_points(broker_spec.points)),
            disk=disk,
            more_folders=folders[1:],
        )
        given: dict[str, Any] = {
            "place": place,
            "kafka": broker_spec.kafka,
            "own_properties": dict(broker_spec.properties),
            "wanted_judged_as": broker_spec.judged_as,
            "stage": "kraft" if self.spec.is_kraft else "zookeeper",
        }
        if self.spec.combined:
            return JvmCombined(**given, quorum=self._controllers)
        return JvmBroker(**given)

    def _ways_to_kraft(
        self, broker_id: int, listeners: Mapping[str, tuple[str, str]]
    ) -> dict[str, str]:
        """Return who a broker with KRaft is, where it listens, and where the controllers are."""
        is_dynamic = self.spec.has_dynamic_quorum
        role = "broker,controller" if self.spec.combined else "broker"
        return kraft_properties(role, broker_id, self._voters, listeners, is_dynamic=is_dynamic)

    def _ways_to_zookeeper(
        self,
        broker_id: int,
        listeners: Mapping[str, tuple[str, str]],
        distributions: Mapping[int, Distribution],
    ) -> dict[str, str]:
        """Return who a broker is, where it listens, and where ZooKeeper is for it."""
        zookeepers = [member.inner_address for member in self._zookeepers]
        if self.links is not None:
            zookeepers = [self.links.add_zookeeper(broker_id, target) for target in zookeepers]
        return {
            "broker.id": str(broker_id),
            # A client that has lost the only address that it knows sleeps a second before it
            # tries it again (StaticHostProvider); the second of two it tries without.
            "zookeeper.connect": ",".join(
                f"{host}:{port}" for host, port in zookeepers * (1 if zookeepers[1:] else 2)
            ),
            **listener_properties(listeners),
            **mixed_protocol([release_of(d.release) for d in distributions.values()]),
        }

    def _node_place(
        self,
        node_id: int,
        node: Node,
        *,
        heap_mib: int,
        base_properties: Callable[[Distribution, Stage], dict[str, str]],
        role: Literal["broker", "controller"] = "broker",
        agent: Agent | None = None,
        disk: Disk | None = None,
        more_folders: Sequence[str] = (),
    ) -> BrokerPlace:
        def prepare() -> None:
            first = node.directory / "data" if disk is None else disk.files
            for folder in (first, *map(Path, more_folders)):
                # One that has failed is a file.
                if folder.is_file():
                    continue
                is_new = kraft_storage.format_storage(
                    folder, cluster_id=self._cluster_id, node_id=node_id
                )
                # The disk of the only voter was replaced, and nobody could add it to a quorum.
                if is_new and self.spec.has_dynamic_quorum and self.spec.first_voters == (node_id,):
                    self._format_voters()

        return BrokerPlace(
            id=node_id,
            directory=node.directory,
            client_port=node.client_port,
            ports=node.reserved,
            capabilities=self._host.capabilities,
            heap_mib=heap_mib,
            distribution_of=self._distribution_of,
            java_of=self._java_of,
            base_properties=base_properties,
            metadata=lambda: self.metadata,
            jvm_flags_of=self._flags_of,
            spawn=partial(self._host.spawn, node),
            wire=node.wire,
            agent=agent,
            disk=disk,
            gate=self.gate,
            role=role,
            prepare=prepare,
        )

    def _write_description(self) -> None:
        """Write what the cluster is and where, for whoever opens the folder."""
        description = {
            "spec": self.spec.to_json(),
            "zookeeper": [f"{host}:{port}" for host, port in self.zookeeper_addresses],
            "controllers": {node.id: node.client_address for node in self._controllers.values()},
            "brokers": {broker.id: broker.client_address for broker in self._brokers.values()},
        }
        file = self.work_directory / "cluster.json"
        file.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    def _await_controller(self, broker: JvmBroker) -> None:
        """Return once the broker is the controller."""
        await_until(
            lambda: self.metadata.controller() == broker.id,
            timeout_s=_STEP_OF_START_S,
            waiting_for=f"broker {broker.id} to become the controller",
            last_seen=lambda: f"controller {self.metadata.controller()}",
            remedy=f"see {broker.server_log}",
            abort=broker.check_running,
        )

    def _await_metadata(self, broker: JvmBroker) -> None:
        """Return once the controller has told the broker of every broker."""
        count = len(self._brokers)
        await_until(
            lambda: broker.known_brokers() == count,
            timeout_s=_STEP_OF_START_S,
            waiting_for=f"broker {broker.id} to know all {count} brokers",
            last_seen=lambda: f"it knows {broker.known_brokers()}",
            remedy="see the controller's server.log",
            abort=broker.check_running,
        )

    def stop(self) -> None:
        """End every process with SIGKILL, close the links, give the ports back."""
        client, self._client = self._client, None
        # Everything is ended, in this order, even when one of them fails; the last is called first.
        with contextlib.ExitStack() as ending:
            for member in self._zookeepers:
                ending.callback(member.give_back_ports)
            for node in (*self._brokers.values(), *self._controllers.values()):
                ending.callback(node.give_back_ports)
            ending.callback(self._host.close)
            for disk in self._disks:
                ending.callback(disk.take_away)
            if self._class_sharing is not None:
                ending.callback(self._class_sharing.collect)
            if self.gate is not None:
                ending.callback(self.gate.close)
            if self.links is not None:
                ending.callback(self.links.close)
            if self._peer_links is not None:
                ending.callback(self._peer_links.close)
            for member in self._zookeepers:
                ending.callback(member.process.kill)
            if client is not None:
                ending.callback(client.close)
                ending.callback(client.stop)
            for node in (*self._controllers.values(), *self._brokers.values()):
                ending.callback(node.kill)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@cache
def _decoding(distribution: Distribution) -> RecordDefinitions:
    return RecordDefinitions.from_texts(_record_definitions(distribution))


@cache
def _record_definitions(distribution: Distribution) -> Mapping[str, bytes]:
    """Return what metadata records consist of in a Kafka; raise ReleaseError without that."""
    jars = [jar for jar in distribution.class_path if jar.name.startswith("kafka-metadata-")]
    try:
        definitions = distribution.definitions or definitions_in_jar(jars[0])
        RecordDefinitions.from_texts(definitions)
    except (IndexError, MetadataRecordError) as error:
        raise ReleaseError(
            f"{distribution.source} says of no metadata record what it consists of: {error}"
        ) from error
    return definitions
