"""The local driver: ZooKeeper and brokers as JVM processes on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient

from clusters.configuration import FAST_JVM_FLAGS, broker_defaults, mixed_protocol
from clusters.distribution import Distribution, java_of, resolve
from clusters.errors import ClusterError, MachineError
from clusters.leftovers import claim, record_process
from clusters.local_broker import BrokerPlace, LocalBroker
from clusters.local_zookeeper import HEAP_MIB, LocalZooKeeper, start_zookeepers
from clusters.memory import check_memory
from clusters.ports import ReservedPort, reserve_port
from clusters.releases import release_of
from clusters.spec import BrokerSpec, ClusterSpec
from clusters.waiting import await_until


class LocalCluster:
    """A cluster of real processes; see ``clusters.api.Cluster`` for what each name promises.

    ``work_directory`` is made and owned by the cluster and stays after it; ``offline`` forbids
    every fetch; ``say`` is told in plain words what happens. ``jvm_flags`` and ``side_by_side``
    exist for the start-up benchmark: the flags of every JVM, and whether brokers start at once.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
        jvm_flags: Sequence[str] = FAST_JVM_FLAGS,
        side_by_side: bool = True,
    ) -> None:
        self.spec = spec
        self.work_directory = work_directory.resolve()
        self.links: Any = None
        self._say = say or (lambda _text: None)
        self._jvm_flags = tuple(jvm_flags)
        self._side_by_side = side_by_side
        self._distribution_of = cache(lambda kafka: resolve(kafka, offline=offline))
        self._java_of = cache(lambda distribution: java_of(distribution, offline=offline))
        self._brokers: dict[int, LocalBroker] = {}
        self._zookeepers: list[LocalZooKeeper] = []
        self._client: KazooClient | None = None

    @property
    def brokers(self) -> Mapping[int, LocalBroker]:
        """The brokers by id; empty before ``start``."""
        return self._brokers

    @property
    def bootstrap_servers(self) -> list[str]:
        """The client addresses of all brokers."""
        return [broker.client_address for broker in self._brokers.values()]

    @property
    def zookeeper_addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each ZooKeeper member, directly."""
        return tuple(member.address for member in self._zookeepers)

    def zookeeper(self) -> KazooClient:
        """Return the shared client; raise ClusterError before ``start`` and after ``stop``."""
        if self._client is None:
            raise ClusterError("the cluster is not started, so it has no ZooKeeper to ask")
        return self._client

    def start(self) -> None:
        """Start everything; on any failure, Ctrl-C included, stop what was started."""
        if self._zookeepers:
            raise ClusterError("this cluster was started before; make a new one")
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        distributions = {b.id: self._distribution_of(b.kafka) for b in self.spec.brokers}
        check_memory(
            [self.spec.broker_heap_mib] * len(distributions) + [HEAP_MIB] * self.spec.zookeepers
        )
        self._make_work_directory()
        self._start_zookeeper(distributions)
        self._open_links()
        for broker_spec in self.spec.brokers:
            self._brokers[broker_spec.id] = self._place(broker_spec, distributions)
        self._write_description()
        self._say(f"starting {len(self._brokers)} brokers")
        first = self.spec.first_broker
        order = sorted(self._brokers, key=lambda broker_id: broker_id != first)
        if not self._side_by_side:
            self._await_zookeeper()
        for broker_id in order:
            self._start_broker(broker_id, is_first=broker_id == first)
        self._await_zookeeper()
        for broker in self._brokers.values():
            broker.await_ready()

    def _start_broker(self, broker_id: int, *, is_first: bool) -> None:
        broker = self._brokers[broker_id]
        broker.start()
        if is_first:
            self._await_zookeeper()
            self._await_controller(broker)
        if not self._side_by_side:
            broker.await_ready()

    def _make_work_directory(self) -> None:
        try:
            self.work_directory.mkdir(parents=True, exist_ok=True)
            claim(self.work_directory)
        except OSError as error:
            raise MachineError(
                f"cannot write to the work directory {self.work_directory}: {error}"
            ) from error

    def _start_zookeeper(self, distributions: Mapping[int, Distribution]) -> None:
        """ZooKeeper runs from the newest release: its server serves older clients as well."""
        newest = max(distributions.values(), key=lambda d: release_of(d.release))
        if self.spec.zookeeper_kafka is not None:
            newest = self._distribution_of(self.spec.zookeeper_kafka)
        self._say(f"starting ZooKeeper ({self.spec.zookeepers}) from Kafka {newest.release}")
        self._zookeepers = start_zookeepers(
            self.spec.zookeepers,
            above=self.work_directory,
            java_home=self._java_of(newest),
            class_path=newest.class_path,
            tick_time_ms=self.spec.tick_time_ms,
            flags=self._jvm_flags,
        )
        for member in self._zookeepers:
            record_process(self.work_directory, member.child)

    def _await_zookeeper(self) -> None:
        if self._client is not None:
            return
        for member in self._zookeepers:
            member.await_ready()
        hosts = ",".join(f"{host}:{port}" for host, port in self.zookeeper_addresses)
        client = KazooClient(hosts=hosts, timeout=30)
        client.start(timeout=30)
        self._client = client

    def _open_links(self) -> None:
        """Make the relays, if the spec asks for them, before any broker knows an address."""
        if self.spec.linked:
            from clusters.links import Links

            self.links = Links()

    def _place(
        self, broker_spec: BrokerSpec, distributions: Mapping[int, Distribution]
    ) -> LocalBroker:
        broker_id = broker_spec.id
        internal, client = reserve_port(), reserve_port()
        advertised = ("127.0.0.1", internal.number)
        zookeepers = list(self.zookeeper_addresses)
        if self.links is not None:
            advertised = self.links.add_broker(broker_id, target=advertised)
            zookeepers = [
                self.links.add_zookeeper(broker_id, index, target=target)
                for index, target in enumerate(zookeepers)
            ]
        directory = self.work_directory / f"broker-{broker_id}"
        listeners = self._listeners(internal, client, advertised)
        fixed = {
            "broker.id": str(broker_id),
            "log.dir": str(directory / "data"),
            "zookeeper.connect": ",".join(f"{host}:{port}" for host, port in zookeepers),
            **listeners,
            **mixed_protocol([release_of(d.release) for d in distributions.values()]),
            **self.spec.properties,
        }
        place = BrokerPlace(
            id=broker_id,
            directory=directory,
            work_directory=self.work_directory,
            internal_port=internal,
            client_port=client,
            heap_mib=self.spec.broker_heap_mib,
            distribution_of=self._distribution_of,
            java_of=self._java_of,
            base_properties=lambda d: {**broker_defaults(release_of(d.release)), **fixed},
            zookeeper=self.zookeeper,
            jvm_flags=self._jvm_flags,
        )
        return LocalBroker(
            place=place,
            kafka=broker_spec.kafka,
            own_properties=dict(broker_spec.properties),
            wanted_protocol=broker_spec.protocol,
        )

    @staticmethod
    def _listeners(
        internal: ReservedPort, client: ReservedPort, advertised: tuple[str, int]
    ) -> dict[str, str]:
        return {
            "listeners": f"INTERNAL://127.0.0.1:{internal.number},CLIENT://127.0.0.1:{client.number}",
            "advertised.listeners": f"INTERNAL://{advertised[0]}:{advertised[1]},"
            f"CLIENT://127.0.0.1:{client.number}",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }

    def _write_description(self) -> None:
        """Write what the cluster is and where, for whoever opens the folder."""
        description = {
            "spec": self.spec.to_json(),
            "zookeeper": [f"{host}:{port}" for host, port in self.zookeeper_addresses],
            "brokers": {broker.id: broker.client_address for broker in self._brokers.values()},
        }
        file = self.work_directory / "cluster.json"
        file.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    def _await_controller(self, broker: LocalBroker, timeout_s: float = 60) -> None:
        """Return once the broker is the controller."""
        seen = ["no /controller"]

        def elected() -> bool:
            client = self.zookeeper()
            if client.exists("/controller") is None:
                return False
            seen[0] = client.get("/controller")[0].decode()
            return int(json.loads(seen[0])["brokerid"]) == broker.id

        await_until(
            elected,
            timeout_s=timeout_s,
            waiting_for=f"broker {broker.id} to become the controller",
            last_seen=lambda: seen[0],
            remedy=f"see {broker.server_log}",
            abort=broker.check_running,
        )

    def stop(self) -> None:
        """End every process with SIGKILL, close the links, give the ports back."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.stop()
                client.close()
        for broker in self._brokers.values():
            broker.kill()
        for member in self._zookeepers:
            member.child.kill()
        if self.links is not None:
            self.links.close()
        for broker in self._brokers.values():
            broker.place.internal_port.release()
            broker.place.client_port.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
