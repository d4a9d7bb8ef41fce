"""Many connections while rules come and go: nothing is lost, nothing changes its order."""

import random
import struct
import threading

import pytest

from kchaos.checkers.acts import CutLink
from kchaos.clusters.links import Match

CONNECTIONS = 6
REQUESTS = 150


def answer_all(peer, make_frame):
    """Answer each request with its correlation id and a body whose size it asks for."""
    while True:
        try:
            body = peer.read_frame()
        except EOFError:
            return
        size = struct.unpack(">i", body[-4:])[0]
        peer.send(make_frame(body[4:8] + b"y" * size))


@pytest.mark.slow
def test_every_answer_arrives_whole_and_in_order_while_rules_come_and_go(
    lab, make_request, make_frame
):
    chooser = random.Random(1)
    pairs = [(chooser.randrange(3), chooser.randrange(3)) for _ in range(CONNECTIONS)]
    clients, threads, wrong = [], [], []
    for source, target in pairs:
        client, server = lab.pair(source=source, target=target)
        clients.append(client)
        server.send(make_frame(struct.pack(">i", 0)))
        client.read_frame()
        threads.append(threading.Thread(target=answer_all, args=(server, make_frame)))

    def ask_all(client, seed):
        sizes = random.Random(seed)
        for number in range(1, REQUESTS + 1):
            size = sizes.choice((0, 10, 1000, 300_000))
            client.send(make_request(number, body=struct.pack(">i", size)))
            got = client.read_frame()
            if got != struct.pack(">i", number) + b"y" * size:
                wrong.append((number, size, len(got)))

    askers = [
        threading.Thread(target=ask_all, args=(client, seed)) for seed, client in enumerate(clients)
    ]
    for thread in threads + askers:
        thread.start()
    a_moment = threading.Event()
    while any(asker.is_alive() for asker in askers):
        source, target = chooser.choice(pairs)
        hold = Match(source=source, direction=chooser.choice(("request", "response")))
        with lab.links.hold(hold):
            a_moment.wait(0.002)
        with lab.links.cut(CutLink(source=source, target=target, one_way=chooser.random() < 0.5)):
            a_moment.wait(0.002)
    for asker in askers:
        asker.join()
    for client in clients:
        client.sock.close()
    for thread in threads:
        thread.join(10)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
    passed = [
        (record.connection, record.correlation_id)
        for record in lab.links.log()
        if record.direction == "response" and record.fate in ("passed", "released")
    ]
    assert len(passed) == CONNECTIONS * (REQUESTS + 1)
    fates = {record.fate for record in lab.links.log()}
    assert fates == {"passed", "held", "released", "cut"}
