"""Latency that a link for clients adds to a direct connection, with all that is written down.

Run `.venv/bin/python -m benchmarks.client_links`. The client and the answering server are processes
of their own. Each round trip is a Produce of version 3 and its answer; direct and link take turns,
50 round trips each. What passes the link is kept in a file, as in a run. ``--pause-ms`` has the
client wait between two round trips, as one at a rate does: then both ways wake sleeping processors.
``--in-process`` has the client be a thread beside the links, as one in a test of pytest is.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import socket
import statistics
import struct
import tempfile
import threading
import time
from pathlib import Path

from kchaos.clusters.links import Links
from kchaos.harness.play.client_lines import ClientLines
from tests.support.segment_encoder import batch

_SIZE = struct.Struct(">i")
_TURN = 50
_KINDS = {"1 record": 1, "100 records": 100}


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


def percentile(seconds: list[float], share: float) -> float:
    """Return the value that this share of the measurements does not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))]


def produce_request(correlation_id: int, records: bytes) -> bytes:
    """Return a Produce with acks=all to t-0."""
    header = struct.pack(">hhih", 0, 3, correlation_id, 5) + b"bench"
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + struct.pack(">h1s", 1, b"t")
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return _SIZE.pack(len(header + body)) + header + body


def produce_response(correlation_id: int) -> bytes:
    """Return the response with base offset 7."""
    body = struct.pack(">iih1s", correlation_id, 1, 1, b"t")
    body += struct.pack(">iihqqi", 1, 0, 0, 7, -1, 0)
    return _SIZE.pack(len(body)) + body


def serve(listener: socket.socket) -> None:
    """Answer every produce at once, each connection in a thread of its own."""
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_answer, args=(sock,), daemon=True).start()


def _answer(sock: socket.socket) -> None:
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(1 << 16))
        while read_frame(sock, buffer):
            sock.sendall(produce_response(_SIZE.unpack_from(buffer, 8)[0]))


def write(commands: multiprocessing.connection.Connection) -> None:
    """Write as told: (addresses, records, count, pause in seconds) gives each way's seconds."""
    buffer = memoryview(bytearray(1 << 16))
    while (command := commands.recv()) is not None:
        addresses, records, count, pause_s = command
        content = batch(0, [(None, b"value-%d" % number) for number in range(records)])
        socks = [socket.create_connection(address) for address in addresses]
        for sock in socks:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seconds: list[list[float]] = [[] for _ in socks]
        for turn in range(0, count, _TURN):
            for sock, taken in zip(socks, seconds, strict=True):
                for number in range(turn, turn + _TURN):
                    request = produce_request(number, content)
                    if pause_s:
                        time.sleep(pause_s)
                    begin = time.perf_counter()
                    sock.sendall(request)
                    read_frame(sock, buffer)
                    taken.append(time.perf_counter() - begin)
        for sock in socks:
            sock.close()
        commands.send(seconds)


def measure(
    commands: multiprocessing.connection.Connection,
    addresses: tuple[tuple[str, int], tuple[str, int]],
    options: argparse.Namespace,
) -> None:
    """Print, for each size, median and p99 of direct and link, and what the link adds."""
    for kind, records in _KINDS.items():
        rounds: list[list[list[float]]] = []
        for _ in range(options.rounds + 1):
            commands.send((addresses, records, options.count, options.pause_ms / 1000))
            rounds.append(commands.recv())
        for name, share in (("median", 0.5), ("p99", 0.99)):
            # The first round warms up.
            pairs = [[percentile(way, share) * 1000 for way in each] for each in rounds[1:]]
            direct, link = (statistics.median(way) for way in zip(*pairs, strict=True))
            added = [link - direct for direct, link in pairs]
            print(
                f"{kind}, {name}: direct {direct:.3f} ms, link {link:.3f} ms, ratio "
                f"{link / direct:.2f}, added {statistics.median(added):.3f} ms "
                f"(rounds: {min(added):.3f} to {max(added):.3f})"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--pause-ms", type=float, default=0.0)
    parser.add_argument("--in-process", action="store_true")
    options = parser.parse_args()
    context = multiprocessing.get_context("fork")
    listener = socket.create_server(("127.0.0.1", 0))
    server = context.Process(target=serve, args=(listener,), daemon=True)
    server.start()
    here, there = context.Pipe()
    kind = threading.Thread if options.in_process else context.Process
    client = kind(target=write, args=(there,), daemon=True)
    client.start()
    with Links() as links, tempfile.NamedTemporaryFile() as file:
        lines = ClientLines(Path(file.name), links.topic_named)
        links.set_client_sink(lines.take)
        target = listener.getsockname()
        measure(here, (target, links.add_clients(0, target)), options)
        here.send(None)
        client.join()
        lines.stop()
    server.terminate()
    print("load: {:.1f} in the last minute, {:.1f} in the last five".format(*os.getloadavg()))


if __name__ == "__main__":
    main()
