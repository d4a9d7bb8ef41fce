"""Specification of a cluster, as values that can be saved and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kchaos.checkers.acts import Mode
from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import KRAFT_VERSION, judging_release_of, release_of

# By these links, faults and gates know a broker; and nothing but loopback may be listened at.
OWN_PROPERTIES = frozenset(
    {
        *(
            "broker.id",
            "log.dir",
            "log.dirs",
            "zookeeper.connect",
            "listeners",
            "host.name",
            "port",
        ),
        *("advertised.listeners", "advertised.host.name", "advertised.port"),
        *("listener.security.protocol.map", "inter.broker.listener.name"),
        # A listener of its own would lead the controller round the links; the rest is KRaft's.
        *("control.plane.listener.name", "process.roles", "node.id", "controller.listener.names"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "metadata.log.dir"),
        "zookeeper.metadata.migration.enable",
    }
)
FIRST_CONTROLLER = 100
_QUORUMS = (1, 3)
_MOST_OBSERVERS = 3
_MOST_LOG_DIRECTORIES = 8
# Below that, engines refuse a limit or take it for none.
_LEAST = {"broker_memory_mib": 6, "broker_cpus": 0.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """One broker.

    ``kafka`` is a release (``1.1.1``) or a path to a distribution folder or .tgz;
    ``properties`` override the cluster's; ``judged_as`` is the release whose rules the
    broker is judged by, None for the release that ``kafka`` turns out to be, or the nearest one to
    a build that was not published; ``points`` are the
    points of its code at which its threads can be held (``clusters.agent.points``): with any, its
    JVM runs with an agent; ``log_directories`` is how many folders its log.dirs has.
    """

    id: int
    kafka: str
    properties: Mapping[str, str] = field(default_factory=dict)
    judged_as: str | None = None
    points: tuple[str, ...] = ()
    log_directories: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the broker as a dict of JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BrokerSpec:
        """Return the broker that ``to_json`` wrote; raise ReleaseError on another shape."""
        # Runs of before the renaming say "protocol".
        older = {"protocol": "judged_as"}
        named = data.items() if isinstance(data, Mapping) else ()
        try:
            return from_json(cls, {older.get(name, name): value for name, value in named})
        except ShapeError as error:
            raise ReleaseError(f"not a broker's description: {data!r}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster: its brokers, what keeps their metadata, and what they have in common.

    ``properties`` hold for every broker; ``first_broker`` is started alone first, so that it is
    the controller; ``linked`` puts the relays between the brokers and before ZooKeeper, and
    ``client_links`` relays before the listeners for clients as well, so that what any client was
    promised is known;
    ``tick_time_ms`` is ZooKeeper's (sessions last at least two ticks); ``zookeeper_kafka`` is
    the Kafka whose jars ZooKeeper runs from, None for the newest of the brokers'.
    ``tiered`` gives the brokers a remote store for their logs (``clusters.start.tiered``), which
    topics with remote.storage.enable use. ``broker_memory_mib`` and ``broker_cpus`` limit each
    broker, None for no limit; only a driver whose brokers are containers can hold them.

    ``mode`` says where the metadata is, None for the place that is usual with the brokers'
    releases. With KRaft there are 1 or 3 ``controllers``, which are no brokers, and neither
    ``first_broker`` nor what is said of ZooKeeper has a meaning; ``features`` are feature levels
    by name, in place of those that the oldest release gives a new cluster. ``kraft.version`` 1 is a
    dynamic quorum (KIP-853): the controllers are its first voters, and ``observers`` is how many
    more controllers run, which vote once ``AddController`` has added them. The brokers of a
    ``combined`` cluster, 1 or 3, are its controllers (process.roles=broker,controller).

    ``migrates`` says that a cluster with ZooKeeper gets its KRaft controllers while it runs.
    """

    brokers: tuple[BrokerSpec, ...]
    zookeepers: int = 1
    tick_time_ms: int = 500
    properties: Mapping[str, str] = field(default_factory=dict)
    first_broker: int | None = None
    linked: bool = True
    client_links: bool = False
    broker_heap_mib: int = 256
    zookeeper_kafka: str | None = None
    broker_memory_mib: int | None = None
    broker_cpus: float | None = None
    tiered: bool = False
    mode: Mode | None = None
    controllers: int = 1
    observers: int = 0
    combined: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    migrates: bool = False

    def __post_init__(self) -> None:
        ids = [broker.id for broker in self.brokers]
        if not ids or len(set(ids)) != len(ids) or min(ids) < 0:
            raise ReleaseError(f"a cluster needs brokers with distinct ids from 0 on, not {ids}")
        if self.zookeepers < 1 or self.zookeepers % 2 == 0:
            raise ReleaseError(f"ZooKeeper needs an odd number of members, not {self.zookeepers}")
        if self.first_broker is not None and self.first_broker not in ids:
            raise ReleaseError(f"first_broker {self.first_broker} is none of the brokers {ids}")
        for broker in self.brokers:
            if broker.judged_as is not None:
                judging_release_of(broker.judged_as)
        every = [self.properties, *(broker.properties for broker in self.brokers)]
        for properties in every:
            if not isinstance(properties, Mapping) or not all(
                isinstance(part, str) for pair in properties.items() for part in pair
            ):
                raise ReleaseError(f"properties are names and texts, not {properties!r}")
        for name in sorted(set().union(*every) & OWN_PROPERTIES):
            instead = ", and say log_directories" if name == "log.dirs" else ""
            raise ReleaseError(
                f"{name} is kchaos's to set: take it out of the broker properties{instead}"
            )
        self._check_log_directories()
        if self.client_links and not self.linked:
            raise ReleaseError("links for clients need the brokers' links: say linked=True as well")
        self._check_controllers(ids)
        for name, limit in self.limits.items():
            if not _LEAST[name] <= limit < math.inf:
                raise ReleaseError(f"{name} must be {_LEAST[name]} or more, not {limit}")

    def _check_log_directories(self) -> None:
        for broker in self.brokers:
            if not 1 <= broker.log_directories <= _MOST_LOG_DIRECTORIES:
                raise ReleaseError(
                    f"broker {broker.id}: log_directories is from 1 to {_MOST_LOG_DIRECTORIES}, "
                    f"not {broker.log_directories}"
                )
            if broker.log_directories > 1 and self.tiered:
                raise ReleaseError(
                    f"broker {broker.id} can have one log directory alone: Kafka refuses several "
                    "where logs are tiered"
                )

    def _check_controllers(self, broker_ids: Sequence[int]) -> None:
        if self.mode not in (None, "zookeeper", "kraft"):
            raise ReleaseError(f"metadata are kept by zookeeper or by kraft, not {self.mode!r}")
        if self.controllers not in _QUORUMS:
            raise ReleaseError(f"a KRaft cluster has 1 or 3 controllers, not {self.controllers}")
        if self.migrates and self.is_kraft:
            raise ReleaseError("a cluster migrates from ZooKeeper to KRaft, and this one has KRaft")
        if not 0 <= self.observers <= _MOST_OBSERVERS:
            raise ReleaseError(f"observers are from 0 to {_MOST_OBSERVERS}, not {self.observers}")
        if self.observers and not self.has_dynamic_quorum:
            raise ReleaseError(
                "observers wait to be added to a dynamic quorum, and this one is static: say "
                f"features {{{KRAFT_VERSION!r}: 1}}, which takes Kafka 3.9 (KIP-853)"
            )
        if not (self.is_kraft or self.migrates) and (self.controllers > 1 or self.features):
            raise ReleaseError(
                "controllers and features are a KRaft cluster's, and this one has ZooKeeper: say "
                "mode kraft, or leave them out"
            )
        if self.is_kraft and (self.zookeepers > 1 or self.zookeeper_kafka is not None):
            raise ReleaseError(
                "a KRaft cluster has no ZooKeeper: leave zookeepers and zookeeper_kafka out, and "
                "say how many controllers there are"
            )
        if self.combined:
            self._check_combined()
        elif both := sorted({*broker_ids} & {*self.controller_ids}):
            raise ReleaseError(
                f"{both[0]} is a controller's id, so no broker can have it: brokers and "
                "controllers share their ids with KRaft"
            )

    def _check_combined(self) -> None:
        if not self.is_kraft:
            raise ReleaseError("combined nodes are KRaft's, and this cluster has ZooKeeper")
        if len(self.brokers) not in _QUORUMS or self.controllers + self.observers > 1:
            raise ReleaseError(
                "the controllers of a combined cluster are its brokers, 1 or 3: name neither "
                "controllers nor observers"
            )
        if self.tiered:
            raise ReleaseError("combined nodes keep no tiered logs here: leave one of them out")

    @property
    def is_kraft(self) -> bool:
        """Whether controllers keep the metadata, and not ZooKeeper.

        Without a ``mode`` the names of the releases decide; a path or an image counts as one that
        has ZooKeeper, and if it has none, it is refused when the cluster starts.
        """
        if self.mode is not None:
            return self.mode == "kraft"
        return any(_has_kraft_alone(kafka) for kafka in self.kafkas)

    @property
    def controller_ids(self) -> tuple[int, ...]:
        """The node ids of the controllers; none where ZooKeeper keeps the metadata for good."""
        if self.combined:
            return tuple(sorted(broker.id for broker in self.brokers))
        has_some = self.is_kraft or self.migrates
        count = self.controllers + self.observers if has_some else 0
        return tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + count))

    @property
    def first_voters(self) -> tuple[int, ...]:
        """The controllers that vote from the start; the others are observers."""
        return self.controller_ids if self.combined else self.controller_ids[: self.controllers]

    @property
    def has_dynamic_quorum(self) -> bool:
        """Whether the metadata log says who votes (KIP-853), and not the controllers' settings."""
        return self.features.get(KRAFT_VERSION, 0) > 0

    @property
    def kafkas(self) -> frozenset[str]:
        """Every Kafka that is named."""
        named = {broker.kafka for broker in self.brokers}
        return frozenset(named | ({self.zookeeper_kafka} if self.zookeeper_kafka else set()))

    @property
    def limits(self) -> dict[str, float]:
        """The limits of each broker that are set, by field name."""
        limits = {"broker_memory_mib": self.broker_memory_mib, "broker_cpus": self.broker_cpus}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the cluster as a dict of JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterSpec:
        """Return the cluster that ``to_json`` wrote; raise ReleaseError on another shape."""
        listed = data.get("brokers") if isinstance(data, Mapping) else None
        if not isinstance(listed, list | tuple):
            raise ReleaseError("not a cluster's description: it has no list of brokers")
        brokers = tuple(BrokerSpec.from_json(broker) for broker in listed)
        try:
            return from_json(cls, data, brokers=brokers)
        except ShapeError as error:
            raise ReleaseError(f"not a cluster's description: {error}") from error


def _has_kraft_alone(kafka: str) -> bool:
    try:
        return release_of(kafka).modes == ("kraft",)
    except ReleaseError:
        return False


def brokers_of(kafka: str, ids: tuple[int, ...] = (0, 1, 2)) -> tuple[BrokerSpec, ...]:
    """Return one broker of the same Kafka for each id."""
    return tuple(BrokerSpec(id=broker_id, kafka=kafka) for broker_id in ids)
