"""Preconditions of faults: a value of the cluster's state, and checks of whether a fault can act.

Every check returns why not, in one sentence, or "". A random player asks them before it chooses; an
injection asks the same ones before it begins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import (
    CutLink,
    CutZooKeeper,
    DisturbClients,
    ForgeAnswers,
    Hold,
    HoldPoint,
)
from kchaos.clusters.api import Broker, Cluster, Collectable, Disconnectable, ZooKeeperNode
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.log_directories import has_failed
from kchaos.faults.observation import observe_broker

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_KRAFT = "KRaft controllers keep this cluster's metadata"
_ZOOKEEPER = "ZooKeeper keeps this cluster's metadata"
FILE = "the file"
"""Beginning of a sentence against a file, as it is known before the start."""
_NO_MEMBER = "ZooKeeper has no member"
_STATIC = "the quorum of this cluster is static"
_NO_CONTROLLER = "no controller has the id"
NO_MAJORITY = (
    "without it no more than half of ZooKeeper's members go on, and nobody could read what the "
    "cluster decides: take three members; CutZooKeeper keeps a broker from all of them"
)
_KNOWN_BEFORE = (_KRAFT, _ZOOKEEPER, _NO_MEMBER, _STATIC, _NO_CONTROLLER, NO_MAJORITY, FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """One broker at one moment.

    Attributes:
        release: The release it runs.
        capabilities: The protocols of `clusters.api` that its driver gives it.
        is_connected: Whether it is on its network.
        is_registered: Whether `/brokers/ids/N` is there.
        was_stopped_cleanly: Whether its log directory is marked so; no running broker's is.
        log_directories: How many it has.
        failed_log_directories: How many of them have failed.
        properties: The whole configuration that it is started with.
        points: The points of its code at which threads can be held.
    """

    broker: int
    release: str
    capabilities: frozenset[type]
    is_running: bool = True
    is_paused: bool = False
    is_connected: bool = True
    is_registered: bool = True
    was_stopped_cleanly: bool = False
    log_directories: int = 1
    failed_log_directories: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    points: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster at one moment.

    Attributes:
        brokers: By id.
        controller: The broker that `/controller` names, or the KRaft controllers' leader, or None.
        controllers: KRaft controllers by id; none where ZooKeeper keeps the metadata.
        voters: Those of them that vote.
        has_dynamic_quorum: Whether that can change while they run (KIP-853).
        zookeepers: Members of ZooKeeper by number, each with whether it can serve.
        cuts: What is cut at the links, by the cut's name.
        holds: What is held at the links, by the hold's name.
        point_holds: What is held at points inside brokers, by the hold's name.
        forgeries: What replaces answers, by the forgery's name.
        disturbances: What disturbs clients, by the disturbance's name.
        client_links: Brokers with links for clients.
        why_unlinked: Why there are no links, and what to do about it; "" where there are.
    """

    brokers: Mapping[int, BrokerView]
    controller: int | None = None
    controllers: Mapping[int, BrokerView] = field(default_factory=dict)
    voters: frozenset[int] = frozenset()
    has_dynamic_quorum: bool = False
    zookeepers: Mapping[int, bool] = field(default_factory=dict)
    cuts: Mapping[str, CutLink | CutZooKeeper] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    point_holds: Mapping[str, HoldPoint] = field(default_factory=dict)
    forgeries: Mapping[str, ForgeAnswers] = field(default_factory=dict)
    disturbances: Mapping[str, DisturbClients] = field(default_factory=dict)
    client_links: Collection[int] = ()
    why_unlinked: str = ""

    @property
    def is_kraft(self) -> bool:
        """Whether KRaft controllers keep the metadata, and not ZooKeeper."""
        return bool(self.controllers)

    @property
    def controllers_going_on(self) -> frozenset[int]:
        """KRaft controllers that run and are not paused."""
        nodes = self.controllers.values()
        return frozenset(node.broker for node in nodes if node.is_running and not node.is_paused)

    @property
    def nodes(self) -> Mapping[int, BrokerView]:
        """Brokers and controllers, which share their ids."""
        return {**self.brokers, **self.controllers}


def view_of(cluster: Cluster) -> ClusterView:
    """Return the current view of the cluster; brokers and ZooKeeper are read one by one."""
    return ClusterView(
        brokers={broker.id: _broker_view(cluster, broker) for broker in cluster.brokers.values()},
        controller=cluster.metadata.controller(),
        controllers={
            node.id: _broker_view(cluster, node)
            for node in (cluster.controllers.values() if cluster.is_kraft else ())
        },
        voters=cluster.metadata.voters(),
        has_dynamic_quorum=cluster.spec.has_dynamic_quorum,
        zookeepers={member.index: is_serving(member) for member in cluster.zookeeper_members},
        cuts={} if cluster.links is None else cluster.links.cuts,
        holds={} if cluster.links is None else cluster.links.holds,
        point_holds={} if cluster.gate is None else cluster.gate.holds,
        forgeries={} if cluster.links is None else cluster.links.forgeries,
        disturbances={} if cluster.links is None else cluster.links.disturbances,
        client_links=() if cluster.links is None else cluster.links.client_addresses.keys(),
        why_unlinked=cluster.why_unlinked if cluster.links is None else "",
    )


def is_serving(member: ZooKeeperNode) -> bool:
    """Return whether a member runs, is not paused, and reaches the others."""
    return member.is_running and not member.is_paused and not member.is_cut_off


def _broker_view(cluster: Cluster, broker: Broker) -> BrokerView:
    collectable = Collectable in broker.capabilities
    return BrokerView(
        broker=broker.id,
        release=broker.release,
        capabilities=broker.capabilities,
        is_running=broker.is_running,
        is_paused=broker.is_paused,
        is_connected=not isinstance(broker, Disconnectable) or broker.is_connected,
        is_registered=observe_broker(cluster, broker.id).czxid is not None,
        was_stopped_cleanly=collectable and (broker.log_directory / CLEAN_SHUTDOWN).exists(),
        log_directories=len(broker.log_directories) if collectable else 1,
        failed_log_directories=sum(map(has_failed, broker.log_directories)) if collectable else 0,
        properties=broker.properties,
        points=broker.points,
    )


def unable(view: ClusterView, broker: int | None, *needs: type, or_controller: bool = False) -> str:
    """Return why the driver cannot act on this broker: it is unknown or lacks a capability.

    With ``or_controller`` a KRaft controller can be meant as well.
    """
    if broker is None:
        return ""
    nodes = view.nodes if or_controller else view.brokers
    node = nodes.get(broker)
    if node is None:
        return f"the cluster has no broker {broker}: it has {sorted(nodes)}"
    for need in needs:
        if need not in node.capabilities:
            return f"broker {broker} is not {need.__name__} with this driver"
    return ""


def down(view: ClusterView, broker: int, what: str) -> str:
    """Return why there is no process to kill, stop, pause, bounce or disconnect."""
    if view.nodes[broker].is_running:
        return ""
    return f"broker {broker} has no process to {what}: start it, or heal first"


def paused(view: ClusterView, broker: int) -> str:
    """Return a sentence if the broker is paused."""
    if not view.nodes[broker].is_paused:
        return ""
    return f"broker {broker} is paused already: heal that first"


def held_inside(view: ClusterView, broker: int) -> str:
    """Return a sentence if threads of the broker may be held at a point."""
    for name, hold in view.point_holds.items():
        if hold.broker == broker and hold.manner == "hold":
            return f"threads of broker {broker} are held by {name!r}: heal that first"
    return ""


def off_metadata(view: ClusterView, broker: int) -> str:
    """Return why the broker reaches neither ZooKeeper nor any controller."""
    if not view.nodes[broker].is_connected:
        return f"broker {broker} is disconnected already: heal that first"
    for name, cut in view.cuts.items():
        if isinstance(cut, CutZooKeeper) and cut.broker == broker:
            return f"broker {broker} is cut off from ZooKeeper by {name!r}: heal that first"
    cut_off = {
        controller: name
        for name, cut in view.cuts.items()
        for controller in view.controllers
        if isinstance(cut, CutLink) and {cut.source, cut.target} == {broker, controller}
    }
    if view.is_kraft and cut_off.keys() == view.controllers.keys():
        names = " and ".join(map(repr, cut_off.values()))
        return f"broker {broker} is cut off from every controller by {names}: heal that first"
    return ""


def needs_zookeeper(view: ClusterView, instead: str) -> str:
    """Return a sentence with the alternative if the cluster has no ZooKeeper."""
    return f"{_KRAFT}: {instead}" if view.is_kraft else ""


def needs_kraft(view: ClusterView, instead: str) -> str:
    """Return a sentence with the alternative if the cluster has no KRaft controllers."""
    return "" if view.is_kraft else f"{_ZOOKEEPER}: {instead}"


def needs_dynamic_quorum(view: ClusterView, controller: int) -> str:
    """Return a sentence if the voters of the cluster cannot change, or no controller has the id."""
    if not view.is_kraft:
        return f"{_ZOOKEEPER}: voters change with KRaft, by KIP-853"
    if not view.has_dynamic_quorum:
        return (
            f"{_STATIC}: AddRaftVoter and RemoveRaftVoter need kraft.version 1 (KIP-853, Kafka 3.9 "
            "and later); say features={'kraft.version': 1}"
        )
    if controller in view.controllers:
        return ""
    return f"{_NO_CONTROLLER} {controller}: they have {sorted(view.controllers)}"


def no_such_member(view: ClusterView, member: int) -> str:
    """Return a sentence if ZooKeeper has no member of that number."""
    if member in view.zookeepers:
        return ""
    return f"{_NO_MEMBER} {member}: it has {sorted(view.zookeepers)}"


def refused_by_mode(fault: Any, spec: ClusterSpec, releases: Mapping[int, str]) -> str:
    """Return why a fault cannot act with ZooKeeper or with KRaft, before the start, or "".

    The cluster is made by this specification, and has these releases by broker. One that migrates
    has both modes, one after the other.
    """
    any_release = next(iter(releases.values()))

    def node(broker: int) -> BrokerView:
        release = releases.get(broker, any_release)
        return BrokerView(broker=broker, release=release, capabilities=frozenset())

    quorums = [spec.controller_ids, ()] if spec.migrates else [spec.controller_ids]
    whys = []
    for quorum in quorums:
        view = ClusterView(
            brokers={broker: node(broker) for broker in releases},
            controllers={controller: node(controller) for controller in quorum},
            has_dynamic_quorum=spec.has_dynamic_quorum,
            zookeepers=dict.fromkeys(range(1, spec.zookeepers + 1), True),
        )
        whys.append(str(fault.available(view)))
    return whys[0] if all(why_not.startswith(_KNOWN_BEFORE) for why_not in whys) else ""


def unlinked(view: ClusterView) -> str:
    """Return a sentence if the cluster runs without links."""
    return f"the cluster runs without links: {view.why_unlinked}" if view.why_unlinked else ""


def name_in_use(view: ClusterView, name: str) -> str:
    """Return a sentence if a cut, a hold or the like of that name lasts."""
    lasting = (view.cuts, view.holds, view.point_holds, view.forgeries, view.disturbances)
    if all(name not in fault for fault in lasting):
        return ""
    return f"a cut or hold named {name!r} lasts already: heal it, or name this one otherwise"
