"""How much a link for clients costs beside a direct connection, with all that is written down.

Run `.venv/bin/python -m benchmarks.client_links`. The client and the answering server are processes
of their own. Each round trip is a Produce of version 3 and its answer; direct and link take turns.
What passes the link is kept in a file, as in a run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import struct
import time

from benchmarks.links import percentile, read_frame
from kchaos.clusters.links import Links
from kchaos.harness.play.client_lines import ClientLines
from tests.support.segment_encoder import batch

_SIZE = struct.Struct(">i")
_KINDS = {"1 record": 1, "100 records": 100}


def produce_request(correlation_id: int, records: bytes) -> bytes:
    """A Produce with acks=all to t-0."""
    header = struct.pack(">hhih", 0, 3, correlation_id, 5) + b"bench"
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + struct.pack(">h1s", 1, b"t")
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return _SIZE.pack(len(header + body)) + header + body


def produce_response(correlation_id: int) -> bytes:
    """The answer that it lies at offset 7."""
    body = struct.pack(">iih1s", correlation_id, 1, 1, b"t")
    body += struct.pack(">iihqqi", 1, 0, 0, 7, -1, 0)
    return _SIZE.pack(len(body)) + body


def serve(listener: socket.socket) -> None:
    """Answer every produce at once."""
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(1 << 16))
        while read_frame(sock, buffer):
            sock.sendall(produce_response(_SIZE.unpack_from(buffer, 8)[0]))
        sock.close()


def write(commands: multiprocessing.connection.Connection) -> None:
    """Write as told: (address, records, count) gives the seconds of each round trip."""
    buffer = memoryview(bytearray(1 << 16))
    while (command := commands.recv()) is not None:
        address, records, count = command
        content = batch(0, [(None, b"value-%d" % number) for number in range(records)])
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seconds = []
            for number in range(count):
                request = produce_request(number, content)
                begin = time.perf_counter()
                sock.sendall(request)
                read_frame(sock, buffer)
                seconds.append(time.perf_counter() - begin)
        commands.send(seconds)


def measure(
    commands: multiprocessing.connection.Connection,
    ways: dict[str, tuple[str, int]],
    rounds: int,
    count: int,
) -> None:
    """Print, for each size, median and p99 of either way, and what the link adds."""
    for kind, records in _KINDS.items():
        taken: dict[str, list[list[float]]] = {way: [] for way in ways}
        for number in range(rounds + 1):
            for way, address in ways.items():
                commands.send((address, records, count))
                seconds: list[float] = commands.recv()
                if number:  # The first round warms up.
                    taken[way].append(seconds)
        for name, share in (("median", 0.5), ("p99", 0.99)):
            direct, link = (
                statistics.median(percentile(each, share) for each in taken[way]) * 1000
                for way in ways
            )
            print(
                f"{kind}, {name}: direct {direct:.3f} ms, link {link:.3f} ms, added "
                f"{link - direct:.3f} ms, ratio {link / direct:.2f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    context = multiprocessing.get_context("fork")
    listener = socket.create_server(("127.0.0.1", 0))
    server = context.Process(target=serve, args=(listener,), daemon=True)
    server.start()
    here, there = context.Pipe()
    client = context.Process(target=write, args=(there,), daemon=True)
    client.start()
    with Links() as links:
        links.set_client_sink(ClientLines().take)
        target = listener.getsockname()
        ways = {"direct": target, "link": links.add_clients(0, target)}
        measure(here, ways, options.rounds, options.count)
        here.send(None)
        client.join()
    server.terminate()


if __name__ == "__main__":
    main()
