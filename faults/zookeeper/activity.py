"""Activity of a session as ZooKeeper's members tell it, or of a broker as controllers do."""

import re
import socket
from collections.abc import Mapping

from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.api import Cluster
from kchaos.clusters.links import ApiKey
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.observation import observe_broker

_CONNECTION = re.compile(r"(\S+:\d+)\[.*?recved=(\d+),.*?sid=0x([0-9a-f]+)")
_ID_BITS = 64
_ANSWER_S = 2.0


def packets_received(cluster: Cluster, session_id: int) -> dict[str, int]:
    """Return the packets that the members received on each of the session's open connections.

    A client pings after a third of its session timeout at the latest, so a number that grows or
    a new connection shows that it reaches ZooKeeper, and numbers that stand still that it does
    not. Asked with the four-letter word `cons`.

    `session_id` is signed, as in a Stat's ephemeralOwner.

    Returns:
        By connection, as "member's port, client's address".
    """
    wanted = session_id % (1 << _ID_BITS)
    return {
        f"{address[1]} {client}": int(received)
        for address in cluster.zookeeper_addresses
        for client, received, session in _CONNECTION.findall(_ask(address, "cons"))
        if int(session, 16) == wanted
    }


def packets_of(cluster: Cluster, before: BrokerSeen) -> dict[str, int]:
    """Return `packets_received` of the session of the broker's registration; none without one.

    With KRaft: how many of its heartbeats the links have seen answered, by controller.
    """
    if cluster.controllers:
        return heartbeats_answered(cluster, before.broker)
    return {} if before.session_id is None else packets_received(cluster, before.session_id)


def heartbeats_answered(cluster: Cluster, broker: int) -> dict[str, int]:
    """Return the number of answered heartbeats by controller; none without links."""
    counts = {} if cluster.links is None else cluster.links.counts()
    return {
        f"controller {key.target}": count.passed
        for key, count in counts.items()
        if key.source == broker
        and key.api_key == ApiKey.BROKER_HEARTBEAT
        and key.direction == "response"
    }


def await_heard(cluster: Cluster, before: BrokerSeen, heard: Mapping[str, int]) -> BrokerSeen:
    """Wait for a new registration, or for activity in the old one's session.

    The old registration alone says nothing: its session may be about to end. With KRaft an answered
    heartbeat is such a sign.

    `before` is the broker before it was cut off, and `heard` its `packets_of` during the cut.

    Raises:
        BrokerExited: Its process ended.
        AwaitTimeout: ZooKeeper did not hear of it.
    """
    broker = cluster.brokers[before.broker]
    seen = [before]

    def returned() -> bool:
        seen[0] = now = observe_broker(cluster, before.broker)
        if now.czxid is None or now.session_id != before.session_id:
            return now.czxid is not None
        if cluster.controllers and cluster.links is None:
            return True  # Nothing else would show that it is heard of.
        packets = packets_of(cluster, before)
        return any(count > heard.get(connection, 0) for connection, count in packets.items())

    await_until(
        returned,
        timeout_s=60,
        waiting_for=f"{_keeper(cluster)} to hear of broker {before.broker} again",
        last_seen=lambda: f"{seen[0].to_json()}, {packets_of(cluster, before)}, was {heard}",
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )
    return seen[0]


def _keeper(cluster: Cluster) -> str:
    return "the controllers" if cluster.controllers else "ZooKeeper"


def _ask(address: tuple[str, int], word: str) -> str:
    """Return the member's answer; empty if it is down, since others may hold the session."""
    parts = []
    try:
        with socket.create_connection(address, timeout=_ANSWER_S) as connection:
            connection.sendall(word.encode())
            while part := connection.recv(1 << 16):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode("utf-8", "replace")
