"""One framed request to one address, and the bytes of its answer."""

import socket
import struct

from kchaos.clusters.errors import ClusterError

_SIZE = struct.Struct(">i")


class NoAnswer(ClusterError):
    """The request was sent, or may have been, and no answer came: its effect is not known."""


class NotSent(ClusterError):
    """No connection to the broker: the request had no effect."""


def exchange(address: str, frame: bytes, *, timeout_s: float) -> bytes:
    """Send one framed request; return the bytes of its response, without their size.

    `address` is the broker's client listener, "host:port". `timeout_s` is for connecting, and again
    for each read.

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It accepted, and did not answer in time or closed the connection.
    """
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout=timeout_s)
    except OSError as error:
        raise NotSent(f"broker at {address} does not accept connections: {error}") from error
    with connection:
        try:
            connection.sendall(frame)
            (size,) = _SIZE.unpack(_read(connection, _SIZE.size))
            return _read(connection, size)
        except OSError as error:
            raise NoAnswer(f"broker at {address} gave no answer: {error}") from error


def _read(connection: socket.socket, size_bytes: int) -> bytes:
    parts = []
    while size_bytes:
        part = connection.recv(min(size_bytes, 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)
