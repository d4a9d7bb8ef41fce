"""Gates that faults share: a broker in cluster metadata and in the process table."""

from collections.abc import Callable

from kchaos.checkers import observations
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.api import Broker, Cluster
from kchaos.clusters.links import LinkRecord
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.waiting import await_until

_REGISTRATION_S = 60.0


def node_of(cluster: Cluster, node: int) -> Broker:
    """Return the broker of that id, or the KRaft controller."""
    return cluster.controllers[node] if node in cluster.controllers else cluster.brokers[node]


def observe_broker(cluster: Cluster, broker: int) -> BrokerSeen:
    """Read the broker's process and its registration, which a KRaft controller never has."""
    pid = node_of(cluster, broker).pid
    registration = cluster.metadata.registration(broker)
    return BrokerSeen(
        broker=broker,
        pid=pid,
        czxid=None if registration is None else registration.czxid,
        session_id=None if registration is None else registration.session_id,
        znode=None if registration is None else registration.text,
    )


def await_registration_gone(cluster: Cluster, broker: int, *, czxid: int) -> BrokerSeen:
    """Wait until `/brokers/ids/N` is gone, or has another czxid.

    A live broker may register again between two looks, so its absence cannot be insisted on.

    Raises:
        AwaitTimeout: It is still there.
    """
    return _await(
        cluster,
        broker,
        lambda seen: seen.czxid != czxid,
        f"the registration of broker {broker} with broker epoch {czxid} to go away",
        "ephemeral znodes go when their session ends: see the logs of ZooKeeper",
    )


def await_unregistered(cluster: Cluster, broker: int) -> BrokerSeen:
    """Wait until `/brokers/ids/N` is gone.

    It stays where the broker was a controller too, and too few are left to decide anything. In a
    migration a broker is registered in two places, and starts again once it is in neither.

    Raises:
        AwaitTimeout: It is still there.
    """
    return _await(
        cluster,
        broker,
        lambda seen: (
            (seen.czxid is None and not _has_znode(cluster, broker))
            or (broker in cluster.controllers and not decides(cluster))
        ),
        f"the registration of broker {broker} to go away",
        "its session lives as long as zookeeper.session.timeout.ms",
    )


def _has_znode(cluster: Cluster, broker: int) -> bool:
    """Return whether a broker of a cluster that migrates is registered with ZooKeeper."""
    if not cluster.spec.migrates:
        return False
    return ZooKeeperMetadata(cluster.zookeeper()).registration(broker) is not None


def decides(cluster: Cluster) -> bool:
    """Return whether most of KRaft's voters run and are not paused."""
    nodes = [cluster.controllers[voter] for voter in cluster.metadata.voters()]
    return 2 * sum(node.is_running and not node.is_paused for node in nodes) > len(nodes)


def await_registered(cluster: Cluster, broker: int, *, above_czxid: int) -> BrokerSeen:
    """Wait until the broker is registered with a broker epoch above `above_czxid`.

    Raises:
        AwaitTimeout: It is not.
        BrokerExited: Its process ended meanwhile.
    """
    return _await(
        cluster,
        broker,
        lambda seen: seen.czxid is not None and seen.czxid > above_czxid,
        f"broker {broker} to register again with a broker epoch above {above_czxid}",
        f"see {cluster.brokers[broker].server_log}; a broker that another fault cuts off from "
        "ZooKeeper cannot register: heal that one first",
        abort=cluster.brokers[broker].check_running,
    )


def await_metadata_read(
    cluster: Cluster, broker: int, *, timeout_s: float, since: int | None = None
) -> observations.MetadataRead:
    """Wait until a broker has taken up all that KRaft's controllers have decided until now.

    Its heartbeats name the offset up to which it has read the metadata log. It changes by what one
    read has brought before the next (BrokerMetadataListener up to 3.4), so three offsets beyond
    must be named, one after the other. Whether the heartbeats arrive does not matter.

    Args:
        cluster: It has links.
        broker: Whose heartbeats.
        timeout_s: For how long, in seconds.
        since: Sequence number of the first link record that counts; those from now on by default.

    Raises:
        AwaitTimeout: They did not come.
    """
    assert cluster.links is not None
    position = cluster.metadata.position()
    offsets: list[int] = []

    def is_last(record: LinkRecord) -> bool:
        is_heartbeat = (record.api, record.direction) == ("BrokerHeartbeat", "request")
        if is_heartbeat and record.source == broker:
            offset = (record.detail or {}).get("current_metadata_offset", -1)
            if offset >= position and offset not in offsets:
                offsets.append(offset)
        return len(offsets) > 2

    cluster.links.await_record(
        is_last,
        timeout_s=timeout_s,
        waiting_for=f"broker {broker} to tell three offsets from {position} on in heartbeats",
        since=since,
        abort=check_interrupt,
    )
    return observations.MetadataRead(broker=broker, position=position, offsets=tuple(offsets))


def _await(
    cluster: Cluster,
    broker: int,
    holds: Callable[[BrokerSeen], bool],
    waiting_for: str,
    remedy: str,
    abort: Callable[[], None] | None = None,
) -> BrokerSeen:
    seen = [observe_broker(cluster, broker)]

    def condition() -> BrokerSeen | None:
        seen[0] = observe_broker(cluster, broker)
        return seen[0] if holds(seen[0]) else None

    return await_until(
        condition,
        timeout_s=_REGISTRATION_S,
        waiting_for=waiting_for,
        last_seen=lambda: seen[0].to_json(),
        remedy=remedy,
        abort=abort,
    )
