"""The password of a session, and the bytes of a takeover, against literals and a plain socket."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kchaos.faults.errors import NoEffect
from kchaos.faults.zookeeper.activity import packets_received
from kchaos.faults.zookeeper.session import end_session, session_password

# What new java.util.Random(id ^ 0xB3415C00L).nextBytes(new byte[16]) gave on Java 11.
PASSWORDS = {
    0x1000123ABCD0000: "29c1b4ba0246e250af6616a91b3bc11f",
    0x100000000000001: "054cc74a37327db215e702e20c73f005",
    0: "f22acd4a97e69d6d20a49bb638eadb38",
    1: "054cc74a37327db215e702e20c73f005",
    -1: "20f62cb5648dc2d771471c8a2486a9ee",
    -72037578039584068: "e673bc9940b4e7724864ecd8054f6ff4",
    -8075574627823959263: "9c4182abd9a67f533c0cb3f0b0cc0556",
    2**63 - 1: "20f62cb5648dc2d771471c8a2486a9ee",
    -(2**63): "f22acd4a97e69d6d20a49bb638eadb38",
}

CONNECT = bytes.fromhex(
    "0000002c"  # 44 bytes follow
    "00000000"  # protocol version
    "0000000000000000"  # last zxid seen
    "00007530"  # 30 000 ms
    "01000123abcd0000"  # session
    "00000010"
    "29c1b4ba0246e250af6616a91b3bc11f"
)
CLOSE = bytes.fromhex("0000000800000001fffffff5")
SESSION = 0x1000123ABCD0000


def connect_response(session_id: int, timeout_ms: int) -> bytes:
    body = struct.pack(">iiqi16s?", 0, timeout_ms, session_id, 16, b"\0" * 16, False)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[tuple[str, int], bytearray]]]:
    """A server for one connection: reads so many bytes, answers, and ends as it is told."""
    threads = []

    def start(
        read_bytes: int, answer: bytes, *, reset: bool = False
    ) -> tuple[tuple[str, int], bytearray]:
        listener = socket.create_server(("127.0.0.1", 0))
        received = bytearray()

        def run() -> None:
            with listener, contextlib.closing(listener.accept()[0]) as connection:
                while len(received) < read_bytes:
                    received.extend(connection.recv(4096))
                for part in (answer[:5], answer[5:]):
                    connection.sendall(part)
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return listener.getsockname(), received

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(("session_id", "password"), PASSWORDS.items())
def test_a_session_has_the_password_that_java_derives(session_id, password):
    assert session_password(session_id).hex() == password


def test_connect_and_close_leave_back_to_back_and_the_end_of_the_connection_is_awaited(serve):
    address, received = serve(len(CONNECT + CLOSE), connect_response(SESSION, 6000))
    end_session(address, SESSION)
    assert bytes(received) == CONNECT + CLOSE


def test_a_reset_after_the_takeover_is_an_end_like_another(serve):
    address, _ = serve(len(CONNECT + CLOSE), connect_response(SESSION, 6000), reset=True)
    end_session(address, SESSION)


@pytest.mark.parametrize(("session_id", "timeout_ms"), [(0, 0), (SESSION, 0), (SESSION + 1, 6000)])
def test_a_takeover_that_is_refused_is_told_with_the_session_and_the_member(
    serve, session_id, timeout_ms
):
    address, _ = serve(len(CONNECT + CLOSE), connect_response(session_id, timeout_ms))
    told = rf"at 127\.0\.0\.1:{address[1]} did not resume session 0x1000123abcd0000: it is gone"
    with pytest.raises(NoEffect, match=told):
        end_session(address, SESSION)


def test_a_server_that_hangs_up_has_not_ended_the_session(serve):
    address, _ = serve(len(CONNECT + CLOSE), b"")
    with pytest.raises(NoEffect, match="closed the connection without an answer"):
        end_session(address, SESSION)


class Members:
    """Only what the reader of `cons` asks of a cluster."""

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.zookeeper_addresses = addresses


CONS = b"""\
 /127.0.0.1:40110[1](queued=0,recved=17,sent=17,sid=0x1000123abcd0000,lop=PING,est=1,to=6000)
 /127.0.0.1:40112[1](queued=0,recved=99,sent=99,sid=0x1000123abcd0001,lop=PING,est=1,to=6000)
 /127.0.0.1:40114[1](queued=0,recved=3,sent=3,sid=0xff00123456789abc,lop=PING,est=1,to=6000)
 /127.0.0.1:40116[0](queued=0,recved=1,sent=0)

"""


def test_the_packets_of_a_session_are_found_among_the_connections_of_every_member(serve):
    first, asked = serve(4, CONS)
    with socket.create_server(("127.0.0.1", 0)) as refusing:
        down = refusing.getsockname()
    members = Members(down, first)
    assert packets_received(cast(Any, members), SESSION) == {f"{first[1]} /127.0.0.1:40110": 17}
    assert asked == b"cons"
    second, _ = serve(4, CONS)
    negative = 0xFF00123456789ABC - 2**64
    assert list(packets_received(cast(Any, Members(second)), negative).values()) == [3]
