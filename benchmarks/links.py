"""Cost of a link beside a direct connection: latency of small fetches, bulk throughput.

Run `.venv/bin/python -m benchmarks.links`. The fetching client and the answering server are
processes of their own, as brokers are; the links are in this one, as in a run. Every figure is
measured direct, through a link that does not read the bytes (as before ZooKeeper) and through one
that reads and records them, in turns, so that all see the same machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import struct
import time
from typing import Any

from kchaos.clusters.links import Links

_SIZE = struct.Struct(">i")
_RECORDS_BYTES = 8 << 20


def fetch_request(correlation_id: int) -> bytes:
    """A Fetch of version 11 by follower 1 that names t-0, as a busy follower sends it."""
    client_id = b"broker-1-fetcher-0"
    header = struct.pack(">hhih", 1, 11, correlation_id, len(client_id)) + client_id
    body = struct.pack(">iiiibii", 1, 500, 1, 10 << 20, 0, 7, 1)
    partition = struct.pack(">iiqqi", 0, 3, correlation_id, 0, 1 << 20)
    topics = struct.pack(">ih1si", 1, 1, b"t", 1) + partition
    frame = header + body + topics + struct.pack(">ih", 0, 0)
    return _SIZE.pack(len(frame)) + frame


def fetch_response(correlation_id: int, records: bytes) -> bytes:
    """The answer to it: one partition with so many bytes of records."""
    partition = struct.pack(">ihqqqiii", 0, 0, correlation_id, -1, 0, -1, -1, len(records))
    topics = struct.pack(">ih1si", 1, 1, b"t", 1) + partition
    frame = struct.pack(">iihi", correlation_id, 0, 0, 7) + topics + records
    return _SIZE.pack(len(frame)) + frame


def read_frame(sock: socket.socket, buffer: memoryview) -> int:
    """Read one frame into the buffer; returns its size, 0 at the end of the stream."""
    have, size = 0, 4
    while have < size:
        count = sock.recv_into(buffer[have : max(size, 4)])
        if count == 0:
            return 0
        have += count
        if have >= 4 and size == 4:
            size = 4 + _SIZE.unpack_from(buffer)[0]
    return size


def serve(listener: socket.socket) -> None:
    """Answer every fetch at once; one with a negative correlation id gets records in bulk."""
    records = bytes(_RECORDS_BYTES)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(1 << 16))
        while read_frame(sock, buffer):
            correlation_id = _SIZE.unpack_from(buffer, 8)[0]
            sock.sendall(fetch_response(correlation_id, records if correlation_id < 0 else b""))
        sock.close()


def fetch(commands: multiprocessing.connection.Connection) -> None:
    """Fetch as told: (address, small or bulk, count) gives the seconds of each round trip."""
    buffer = memoryview(bytearray(_RECORDS_BYTES + 1024))
    while (command := commands.recv()) is not None:
        address, kind, count = command
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seconds = []
            for number in range(1, count + 1):
                request = fetch_request(-number if kind == "bulk" else number)
                begin = time.perf_counter()
                sock.sendall(request)
                read_frame(sock, buffer)
                seconds.append(time.perf_counter() - begin)
        commands.send(seconds)


def percentile(seconds: list[float], share: float) -> float:
    """The value that this share of the measurements does not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))]


def measure(
    commands: multiprocessing.connection.Connection,
    addresses: dict[str, tuple[str, int]],
    rounds: int,
) -> dict[str, dict[str, list[list[float]]]]:
    """The seconds of each round trip by kind, way and round; direct and link take turns."""
    seconds: dict[str, dict[str, list[list[float]]]] = {
        kind: {way: [] for way in addresses} for kind in ("small", "bulk")
    }
    for number in range(rounds + 1):
        for kind, count in (("small", 2000), ("bulk", 20)):
            for way, address in addresses.items():
                commands.send((address, kind, count))
                measured: list[float] = commands.recv()
                if number:  # The first round warms up.
                    seconds[kind][way].append(measured)
    return seconds


def report(seconds: dict[str, dict[str, list[list[float]]]]) -> None:
    """Print medians over the rounds, and what the link adds in the median and the best round."""
    p99 = {
        way: [percentile(r, 0.99) * 1000 for r in each] for way, each in seconds["small"].items()
    }
    bulk = {
        way: [_RECORDS_BYTES / statistics.mean(r) / 1e6 for r in each]
        for way, each in seconds["bulk"].items()
    }
    print(f"{'':8}{'small p50 ms':>14}{'small p99 ms':>14}{'bulk MB/s':>12}")
    for way, each in seconds["small"].items():
        p50 = statistics.median(percentile(r, 0.5) * 1000 for r in each)
        rest = f"{statistics.median(p99[way]):14.3f}{statistics.median(bulk[way]):12.0f}"
        print(f"{way:8}{p50:14.3f}{rest}")
    added = [link - direct for direct, link in zip(p99["direct"], p99["link"], strict=True)]
    share = [link / direct for direct, link in zip(bulk["direct"], bulk["link"], strict=True)]
    print(
        f"added at p99: {statistics.median(added):.3f} ms, best round {min(added):.3f} "
        "(aim: under 0.2)"
    )
    print(f"bulk, link to direct: {statistics.median(share):.2f}, best round {max(share):.2f}")
    print(f"bulk through a link, best round: {max(bulk['link']):.0f} MB/s (aim: 500)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds of each kind")
    rounds = parser.parse_args().rounds
    processes: Any = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here, there = processes.Pipe()
        server = processes.Process(target=serve, args=(listener,), daemon=True)
        client = processes.Process(target=fetch, args=(there,), daemon=True)
        server.start()
        client.start()
        with Links() as links:
            target = listener.getsockname()
            addresses = {
                "direct": target,
                "unread": links.add_zookeeper(0, target),
                "link": links.add_broker(0, target),
            }
            seconds = measure(here, addresses, rounds)
            here.send(None)
            client.join()
        server.terminate()
        server.join()
    report(seconds)


if __name__ == "__main__":
    main()
