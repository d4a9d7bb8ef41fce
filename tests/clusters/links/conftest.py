"""A server that answers frames over real TCP, and clients that write them byte by byte."""

import queue
import socket
import struct
import threading
import time

import pytest

from kchaos.clusters.links import Links


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(correlation_id, *, client_id=b"broker-1-fetcher-0", api_key=18, version=0, body=b""):
    """One request with a header without tags; 18 is ApiVersions, which names no partition."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id))
    return frame(header + client_id + body)


class Peer:
    """One end of a connection."""

    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(10)

    def send(self, data):
        self.sock.sendall(data)

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                raise EOFError(f"the stream ended after {len(data)} of {size} bytes")
            data += part
        return data

    def read_frame(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def has_nothing_to_read(self, for_s=0.2):
        """Whether nothing arrives for a while: the one thing that only time can show."""
        self.sock.settimeout(for_s)
        try:
            return self.sock.recv(1, socket.MSG_PEEK) is None
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(10)


class Server:
    """Accepts connections and hands them out; it never answers by itself."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.accepted: queue.Queue[Peer] = queue.Queue()
        self.peers = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            peer = Peer(sock)
            self.peers.append(peer)
            self.accepted.put(peer)

    def next_peer(self):
        return self.accepted.get(timeout=10)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        for peer in self.peers:
            peer.sock.close()


class Lab:
    """Links with brokers 0, 1 and 2 whose listeners all are one server's."""

    def __init__(self):
        self.server = Server()
        self.links = Links()
        self.addresses = {
            broker_id: self.links.add_broker(broker_id, self.server.address)
            for broker_id in (0, 1, 2)
        }
        self.zookeeper = {
            broker_id: self.links.add_zookeeper(broker_id, self.server.address)
            for broker_id in (0, 1)
        }
        self.clients = []

    def connect(self, address):
        client = Peer(socket.create_connection(address))
        self.clients.append(client)
        return client

    def pair(self, *, source=1, target=0):
        """A connection that is known to be the source's: (its end, the target's end)."""
        client = self.connect(self.addresses[target])
        client.send(request(0, client_id=b"broker-%d-fetcher-0" % source))
        server = self.server.next_peer()
        server.read_frame()
        return client, server

    def close(self):
        for client in self.clients:
            client.sock.close()
        self.links.close()
        self.server.close()


@pytest.fixture
def threads_of_others():
    """What ran before the test: clusters that tests share have links in this process too."""
    return frozenset(threading.enumerate())


@pytest.fixture
def lab(threads_of_others):
    lab = Lab()
    yield lab
    lab.close()


@pytest.fixture
def link_threads(threads_of_others):
    """The names of the lab's threads that live now, after a moment for those that end."""

    def names(expected=0):
        deadline = time.monotonic() + 10
        while True:
            own = set(threading.enumerate()) - threads_of_others
            chosen = [t.name for t in own if t.name.startswith("link-")]
            if len(chosen) == expected or time.monotonic() > deadline:
                return chosen
            time.sleep(0.01)

    return names


@pytest.fixture
def make_request():
    return request


@pytest.fixture
def make_frame():
    return frame
