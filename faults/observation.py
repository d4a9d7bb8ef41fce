"""Gates that faults share: a broker in cluster metadata and in the process table."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from kchaos.clusters.api import Broker, Cluster
from kchaos.clusters.waiting import await_until

_REGISTRATION_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerObservation:
    """One broker at one moment.

    Attributes:
        pid: Its process, or None.
        czxid: Broker epoch (KIP-380): czxid of `/brokers/ids/N`, or where the KRaft controller
            registered it; None while it is not registered, or fenced.
        session_id: Owner of that znode, -1 with KRaft; None while it is not registered.
        znode: The znode's text, or what a broker of KRaft registered with; else None.
    """

    broker: int
    pid: int | None
    czxid: int | None
    session_id: int | None
    znode: str | None

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)


def node_of(cluster: Cluster, node: int) -> Broker:
    """The broker of that id, or the KRaft controller."""
    return cluster.controllers[node] if node in cluster.controllers else cluster.brokers[node]


def observe_broker(cluster: Cluster, broker: int) -> BrokerObservation:
    """Reads the broker's process and its registration, which a KRaft controller never has."""
    pid = node_of(cluster, broker).pid
    registration = cluster.metadata.registration(broker)
    return BrokerObservation(
        broker=broker,
        pid=pid,
        czxid=None if registration is None else registration.czxid,
        session_id=None if registration is None else registration.session_id,
        znode=None if registration is None else registration.text,
    )


def await_registration_gone(cluster: Cluster, broker: int, *, czxid: int) -> BrokerObservation:
    """Returns once `/brokers/ids/N` is gone, or is another one than that of `czxid` already.

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


def await_unregistered(cluster: Cluster, broker: int) -> BrokerObservation:
    """Returns once `/brokers/ids/N` is gone.

    Raises:
        AwaitTimeout: It is still there.
    """
    return _await(
        cluster,
        broker,
        lambda seen: seen.czxid is None,
        f"the registration of broker {broker} to go away",
        "its session lives as long as zookeeper.session.timeout.ms",
    )


def await_registered(cluster: Cluster, broker: int, *, above_czxid: int) -> BrokerObservation:
    """Returns once the broker is registered with a broker epoch above `above_czxid`.

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


def _await(
    cluster: Cluster,
    broker: int,
    holds: Callable[[BrokerObservation], bool],
    waiting_for: str,
    remedy: str,
    abort: Callable[[], None] | None = None,
) -> BrokerObservation:
    seen = [observe_broker(cluster, broker)]

    def condition() -> BrokerObservation | None:
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
