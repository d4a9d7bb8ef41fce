"""The Docker driver's host: a network, and containers on it."""

from __future__ import annotations

import atexit
import ipaddress
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kchaos.clusters.api import Collectable, Disconnectable, Killable, Pausable, Restartable
from kchaos.clusters.docker_driver.container import Container
from kchaos.clusters.docker_driver.engine import (
    CALL_TIMEOUT_S,
    SOCKET,
    EngineInfo,
    address,
    connect,
    engine_info,
    speaking,
)
from kchaos.clusters.docker_driver.image import ensure_image
from kchaos.clusters.docker_driver.kafka_image import find_in_image
from kchaos.clusters.docker_driver.leftovers import remove_dead, remove_run
from kchaos.clusters.docker_driver.mounts import mounts_of
from kchaos.clusters.docker_driver.network import create_network, why_unbindable
from kchaos.clusters.docker_driver.options import DEFAULT_IMAGE, IMAGE_VARIABLE
from kchaos.clusters.docker_driver.owner import labels_of
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import IN_IMAGE, Distribution, resolve
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.host import Node, Role
from kchaos.clusters.start.tiered import FOLDER
from kchaos.clusters.system.interrupts import interruptible
from kchaos.clusters.system.ports import reserve_port
from kchaos.clusters.system.processes import Process

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")

INTERNAL_PORT, CLIENT_PORT, METADATA_PORT = 9091, 9092, 9093
_CLIENT_PORTS: dict[Role, int] = {"zookeeper": 2181, "controller": 9093, "broker": CLIENT_PORT}
_INNER_PORTS: dict[Role, tuple[int, ...]] = {
    "zookeeper": (2888, 3888),
    "controller": (),
    "broker": (INTERNAL_PORT, METADATA_PORT),
}
_FIRST_ZOOKEEPER, _FIRST_CONTROLLER, _FIRST_BROKER = 10, 30, 50
_MOST_BROKERS = 200
_STARTS_AT_ONCE = 4
NO_SLOW_DISK = "containers have no slow disks: run it with --driver local"


class DockerHost:
    """Containers on a bridge network of their own; see ``clusters.start.host.Host``."""

    def __init__(
        self,
        work_directory: Path,
        *,
        java_of: Callable[[Distribution], Path],
        image: str,
        offline: bool,
        say: Callable[[str], None],
    ) -> None:
        self.run = f"kchaos-{os.getpid()}-{secrets.token_hex(3)}"
        self.links_host = ""
        self.guests: ipaddress.IPv4Network | None = None
        self.why_unlinked = "the cluster is not started"
        self.why_unreached = ""
        self.why_no_disk = NO_SLOW_DISK
        self._work_directory = work_directory
        self._java_of = java_of
        self._image = image
        self._memory_mib: int | None = None
        self._cpus: float | None = None
        self._shared: tuple[Path, ...] = ()
        self._info: EngineInfo | None = None
        self._image_ids: dict[str, str] = {}
        self._offline = offline
        self._say = say
        self._labels = labels_of(self.run, work_directory)
        self._api: APIClient | None = None
        self._hosts: dict[str, str] = {}
        self._containers: dict[str, str] = {}
        self._starter = ThreadPoolExecutor(max_workers=_STARTS_AT_ONCE)
        self._starting: list[Future[Any]] = []

    @property
    def description(self) -> Mapping[str, str]:
        """The engine's version, and each image that was used with its id."""
        used = [f"{name}@{image_id}" for name, image_id in sorted(self._image_ids.items())]
        return {"engine": self._info.version if self._info else "", "images": ", ".join(used)}

    @property
    def environment(self) -> Mapping[str, str]:
        """Where the engine is and which base image it uses, if that is not the default."""
        image = {} if self._image == DEFAULT_IMAGE else {IMAGE_VARIABLE: self._image}
        return image | ({} if address() == SOCKET else {"DOCKER_HOST": address()})

    @property
    def capabilities(self) -> frozenset[type]:
        """Capabilities of a broker; pausing takes control groups."""
        always = {Killable, Restartable, Collectable, Disconnectable}
        return frozenset(always | ({Pausable} if self._info and self._info.can_pause else set()))

    def resolve(self, kafka: str, *, offline: bool) -> Distribution:
        """Return the Kafka of that name; ``image:NAME`` is the one that an image brings along."""
        if kafka.startswith(IN_IMAGE):
            return find_in_image(kafka, offline=offline, say=self._say)
        return resolve(kafka, offline=offline)

    def open(self, spec: ClusterSpec) -> None:
        """Make the network; remove what dead owners left, since it may hold what we need."""
        brokers = sorted(broker.id for broker in spec.brokers)
        if len(brokers) > _MOST_BROKERS:
            raise MachineError(f"a network holds {_MOST_BROKERS} brokers, not {len(brokers)}")
        if spec.combined:
            raise MachineError("containers are brokers or controllers: take --driver local")
        self._memory_mib, self._cpus = spec.broker_memory_mib, spec.broker_cpus
        self._shared = (self._work_directory / FOLDER,) if spec.tiered else ()
        api = self._api = connect()
        self._info = engine_info(api)
        self._info.check_limits(spec)
        if spec.broker_memory_mib is not None and not self._info.counts_swap:
            self._say("this engine does not count swap: brokers may swap instead of being killed")
        atexit.register(self._close_at_exit)
        if not all(kafka.startswith(IN_IMAGE) for kafka in spec.kafkas):
            self._have_image(self._image)
        for line in remove_dead(api):
            self._say(line)
        subnet = self._wholly(create_network, api, self.run, self._labels)
        self.links_host = str(subnet[1])
        self.guests = subnet
        self.why_unreached = (
            f"no container reached the links at {self.links_host}: does a firewall of this machine "
            f"drop what comes in from {subnet}? (ufw allow from {subnet})"
        )
        self.why_unlinked = why_unbindable(self.links_host)
        for index in range(0 if spec.is_kraft else spec.zookeepers):
            self._hosts[f"zookeeper-{index + 1}"] = _address(subnet, _FIRST_ZOOKEEPER + index)
        for index, controller_id in enumerate(spec.controller_ids):
            self._hosts[f"controller-{controller_id}"] = _address(subnet, _FIRST_CONTROLLER + index)
        for index, broker_id in enumerate(brokers):
            self._hosts[f"broker-{broker_id}"] = _address(subnet, _FIRST_BROKER + index)

    def node(self, role: Role, index: int) -> Node:
        """Reserve the one port of 127.0.0.1 that is published."""
        host_name = f"{role}-{index}"
        client = reserve_port()
        return Node(
            name=f"{role} {index}",
            directory=self._work_directory / host_name,
            listen_host="0.0.0.0",
            host=self._hosts[host_name],
            client_port=client,
            client_listen_port=_CLIENT_PORTS[role],
            inner_ports=_INNER_PORTS[role],
            reserved=(client,),
            wire=_NetworkWire(self, host_name) if role == "broker" else None,
        )

    def spawn(
        self,
        node: Node,
        command: Sequence[str],
        distribution: Distribution,
        console: Path,
        reads: Sequence[Path] = (),
    ) -> Process:
        """Start a new container in place of the node's former one.

        It sees its own folder, and read-only the Java, the jars and the class archives, all at
        the paths that they have here. An image with a Kafka of its own needs none of the latter,
        but ``reads``.
        """
        api = self._engine()
        host_name = node.directory.name
        is_broker = host_name.startswith("broker")
        memory_mib = self._memory_mib if is_broker else None
        image = distribution.image or self._image
        self._have_image(image)
        self._remove_former(host_name)
        with speaking(f"the container of {node.name} cannot be started"):
            made = self._wholly(
                api.create_container,
                image=image,
                name=f"{self.run}-{host_name}",
                hostname=host_name,
                # The shell only sends the output to the file, and is replaced by the JVM.
                entrypoint=["/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', str(console)],
                command=_with_own_java(command) if distribution.image else list(command),
                working_dir=str(node.directory),
                user=self._engine_info().user,
                labels=self._labels,
                ports=[node.client_listen_port],
                host_config=self._host_config(
                    node, distribution, reads, memory_mib, self._cpus if is_broker else None
                ),
                networking_config=self._networking(api, host_name),
            )
            self._containers[host_name] = made["Id"]
        started = self._starter.submit(_start, api, made["Id"], node.name)
        self._starting.append(started)
        return Container(api, made["Id"], name=node.name, memory_mib=memory_mib, started=started)

    def _wholly(self, make: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Return what a call makes; whatever interrupts the wait for it, ``close`` knows of it.

        Otherwise Ctrl-C in the middle leaves a container that the engine makes afterwards.
        """
        making = self._starter.submit(make, *arguments, **named)
        self._starting.append(making)
        return interruptible(making.result)

    def _have_image(self, image: str) -> None:
        """Return once the engine has the image, and remember which one it is."""
        if image in self._image_ids:
            return
        api = self._engine()
        ensure_image(api, image, offline=self._offline, say=self._say)
        with speaking(f"the engine was asked for the image {image}"):
            self._image_ids[image] = str(api.inspect_image(image)["Id"])

    def _remove_former(self, host_name: str) -> None:
        """Remove the container that the new one replaces; one that is off the network stays off."""
        from docker.errors import NotFound

        former = self._containers.get(host_name)
        if former is None:
            return
        with speaking(f"the former container of {host_name} cannot be removed"):
            try:
                inspection = self._engine().inspect_container(former)
                if self.run not in inspection["NetworkSettings"]["Networks"]:
                    raise MachineError(
                        f"{host_name} is off its network, and a new container would be on it: "
                        "reconnect it before it is started again"
                    )
                self._engine().remove_container(former, v=True, force=True)
            except NotFound:
                # Somebody else has removed it.
                pass

    def _host_config(
        self,
        node: Node,
        distribution: Distribution,
        reads: Sequence[Path],
        memory_mib: int | None,
        cpus: float | None,
    ) -> dict[str, Any]:
        from docker.types import LogConfig

        info = self._engine_info()
        memory = f"{memory_mib}m" if memory_mib is not None else None
        made: dict[str, Any] = self._engine().create_host_config(
            network_mode=self.run,
            port_bindings={node.client_listen_port: ("127.0.0.1", node.client_port.number)},
            # Java asks for the name of an address that it connects to; where nobody knows it, that
            # takes seconds.
            extra_hosts=self._hosts | {"links": self.links_host},
            mounts=mounts_of(
                node.directory, distribution, self._java_of, reads, shared=self._shared
            ),
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(cpus * 1e9) if cpus is not None else None,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=info.security_options,
            userns_mode="host" if info.remaps_users else None,
            # The JVM writes to its own file; this has what kept it from starting.
            log_config=LogConfig(type="json-file", config={"max-size": "1m"}),
        )
        return made

    def _networking(self, api: APIClient, host_name: str) -> Any:
        endpoint = api.create_endpoint_config(
            ipv4_address=self._hosts[host_name], aliases=[host_name]
        )
        return api.create_networking_config({self.run: endpoint})

    def is_connected(self, host_name: str) -> bool:
        """Return whether the container of that name is on the network."""
        with speaking(f"the engine was asked for the network of {host_name}"):
            inspection = self._engine().inspect_container(self._containers[host_name])
        return self.run in inspection["NetworkSettings"]["Networks"]

    def disconnect(self, host_name: str) -> None:
        """Take the container off the network; do nothing if it is off already."""
        if self.is_connected(host_name):
            with speaking(f"{host_name} cannot be disconnected"):
                self._engine().disconnect_container_from_network(
                    self._containers[host_name], self.run
                )

    def reconnect(self, host_name: str) -> None:
        """Put the container back at its address; do nothing if it is on the network."""
        if not self.is_connected(host_name):
            with speaking(f"{host_name} cannot be connected again"):
                self._engine().connect_container_to_network(
                    self._containers[host_name],
                    self.run,
                    ipv4_address=self._hosts[host_name],
                    aliases=[host_name],
                )

    def close(self) -> None:
        """Remove the containers and the network."""
        self._close(side_by_side=True)

    def _close_at_exit(self) -> None:
        self._close(side_by_side=False)

    def _close(self, *, side_by_side: bool) -> None:
        api = self._api
        if api is None:
            return
        self.why_unlinked = "the cluster is stopped"
        # The engine can lose sight of a container that is removed while it starts.
        wait(self._starting, timeout=CALL_TIMEOUT_S)
        remove_run(api, self.run, side_by_side=side_by_side)
        # Not before all is gone: whatever interrupts the removal, there is another try at exit.
        self._api = None
        self._starter.shutdown(wait=False)
        atexit.unregister(self._close_at_exit)
        api.close()

    def _engine_info(self) -> EngineInfo:
        if self._info is None:
            raise MachineError("the cluster's network is not open yet")
        return self._info

    def _engine(self) -> APIClient:
        if self._api is None:
            raise MachineError("the cluster's network is closed; make a new cluster")
        return self._api


class _NetworkWire:
    """A broker's place on the network; see ``clusters.api.Wire``."""

    def __init__(self, host: DockerHost, host_name: str) -> None:
        self._host = host
        self._host_name = host_name

    @property
    def is_connected(self) -> bool:
        return self._host.is_connected(self._host_name)

    def disconnect(self) -> None:
        self._host.disconnect(self._host_name)

    def reconnect(self) -> None:
        self._host.reconnect(self._host_name)


def _with_own_java(command: Sequence[str]) -> list[str]:
    """Return the command line with the Java of the image, as JAVA_HOME or PATH names it there."""
    java = 'exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@"'
    return ["/bin/sh", "-c", java, "java", *command[1:]]


def _start(api: APIClient, container_id: str, name: str) -> None:
    with speaking(f"the container of {name} cannot be started"):
        api.start(container_id)


def _address(subnet: ipaddress.IPv4Network, index: int) -> str:
    return str(subnet[index])
