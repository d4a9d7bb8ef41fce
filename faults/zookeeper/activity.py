"""What ZooKeeper has heard of a session, as its own members tell."""

import re
import socket

from clusters.api import Cluster

_CONNECTION = re.compile(r"(\S+:\d+)\[.*?recved=(\d+),.*?sid=0x([0-9a-f]+)")
_ID_BITS = 64


def packets_received(
    cluster: Cluster, session_id: int, *, timeout_s: float = 2.0
) -> dict[str, int]:
    """How many packets the members have received on each of the session's open connections.

    A client pings after a third of its session timeout at the latest, so a number that grows or
    a new connection shows that it reaches ZooKeeper, and numbers that stand still that it does
    not. Asked with the four-letter word `cons`.

    Args:
        session_id: Signed, as in a Stat's ephemeralOwner.

    Returns:
        By connection, as "member's port, client's address".
    """
    wanted = session_id % (1 << _ID_BITS)
    return {
        f"{address[1]} {client}": int(received)
        for address in cluster.zookeeper_addresses
        for client, received, session in _CONNECTION.findall(_ask(address, "cons", timeout_s))
        if int(session, 16) == wanted
    }


def _ask(address: tuple[str, int], word: str, timeout_s: float) -> str:
    """The member's answer, empty if it is down: the others may hold the session."""
    parts = []
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(word.encode())
            while part := connection.recv(1 << 16):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode("utf-8", "replace")
