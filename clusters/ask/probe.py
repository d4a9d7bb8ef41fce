"""Two questions to one broker, asked with the oldest requests that every release understands."""

import socket
import struct

_API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)
# Metadata v1 (0.10.0 on) with an empty list of topics: only the brokers are answered.
_METADATA_V1 = struct.pack(">hhihi", 3, 1, 1, -1, 0)
_TIMEOUT_S = 2.0


def answers(port: int) -> bool:
    """Return whether a broker answers an ApiVersions request at this port of 127.0.0.1."""
    return _ask(port, _API_VERSIONS_V0) is not None


def answers_at(address: str) -> bool:
    """Return whether a broker answers an ApiVersions request at ``127.0.0.1:port``."""
    return answers(int(address.rpartition(":")[2]))


def known_brokers(port: int) -> int:
    """Return how many live brokers the broker at this port of 127.0.0.1 knows; 0 if it is away.

    A broker learns them from the controller (UpdateMetadata), some time after it registered;
    until then it refuses topics with more replicas than that.
    """
    return _ask(port, _METADATA_V1) or 0


def _ask(port: int, request: bytes) -> int | None:
    """Return the four bytes after the answer's correlation id, None without an answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = b""
            while len(head) < 12:
                part = connection.recv(12 - len(head))
                if not part:
                    return None
                head += part
    except OSError:
        return None
    return int(struct.unpack(">iii", head)[2])
