"""Messages at a silent cut: delivered if their sender still has the connection open then."""

import contextlib
import socket
import struct
import time

import pytest

from kchaos.checkers.acts import CutLink, CutZooKeeper
from kchaos.clusters.links import Match
from kchaos.clusters.links.frames import LARGEST_WHOLE_BYTES

CUT = CutLink(source=0, target=1)
RESET = struct.pack("ii", 1, 0)


def answer(make_frame, correlation_id, body=b""):
    return make_frame(struct.pack(">i", correlation_id) + body)


def await_waiting(cut, count=1):
    """Return once so many directions of connections wait at the cut."""
    deadline = time.monotonic() + 10
    while len(cut._waiting) < count:
        assert time.monotonic() < deadline, f"{len(cut._waiting)} wait at the cut, not {count}"
        time.sleep(0.005)


def die(peer):
    """What the kernel does for a process that has read all that was sent to it."""
    peer.sock.close()


def die_unread(peer):
    """What the kernel does for a process that leaves something unread."""
    peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    peer.sock.close()


def reads_nothing_more(peer):
    """Whether the connection ends without another byte."""
    try:
        return peer.sock.recv(1) == b""
    except ConnectionResetError:
        return True


def fates(lab, direction):
    return [
        (record.correlation_id, record.fate)
        for record in lab.links.log()
        if record.direction == direction
    ]


@pytest.mark.parametrize("end", [die, die_unread])
def test_an_answer_of_a_process_that_died_during_the_cut_is_not_delivered(lab, make_frame, end):
    client, server = lab.pair()
    with lab.links.cut(CUT) as cut:
        server.send(answer(make_frame, 0))
        await_waiting(cut)
        end(server)
    assert reads_nothing_more(client)
    assert fates(lab, "response") == [(0, "cut"), (0, "abandoned")]
    (counts,) = [each for key, each in lab.links.counts().items() if key.direction == "response"]
    assert (counts.passed, counts.cut, counts.abandoned) == (0, 1, 1)


@pytest.mark.parametrize("size", [100, 100_000, 700_000])
def test_what_else_lay_in_its_socket_is_not_delivered_either(lab, make_request, make_frame, size):
    client, server = lab.pair()
    client.send(make_request(1) + make_request(2))
    server.read_frame()
    server.read_frame()
    with lab.links.cut(CUT) as cut:
        for number in range(3):
            server.send(answer(make_frame, number, b"x" * size))
        await_waiting(cut)
        die(server)
    assert reads_nothing_more(client)
    assert fates(lab, "response") == [
        (0, "cut"),
        (0, "abandoned"),
        (1, "abandoned"),
        (2, "abandoned"),
    ]


def test_a_request_on_an_open_connection_is_not_delivered_when_its_sender_has_hung_up(
    lab, make_request
):
    client, server = lab.pair()
    with lab.links.cut(CUT) as cut:
        client.send(make_request(1) + make_request(2))
        await_waiting(cut)
        die(client)
    assert reads_nothing_more(server)
    assert fates(lab, "request") == [(0, "passed"), (1, "cut"), (1, "abandoned"), (2, "abandoned")]


def test_the_rest_of_a_large_answer_is_not_delivered_when_its_sender_died(lab, make_frame):
    client, server = lab.pair()
    whole = answer(make_frame, 0, bytes(LARGEST_WHOLE_BYTES))
    server.send(whole[: 1 << 19])
    client.read(1 << 19)
    with lab.links.cut(CUT) as cut:
        server.send(whole[1 << 19 : 1 << 20])
        await_waiting(cut)
        die(server)
    assert reads_nothing_more(client)
    assert fates(lab, "response") == [(0, "passed"), (0, "abandoned")]


def test_what_a_broker_had_sent_to_zookeeper_into_a_cut_dies_with_it(lab):
    client = lab.connect(lab.zookeeper[0])
    client.send(b"before")
    server = lab.server.next_peer()
    server.read(6)
    with lab.links.cut(CutZooKeeper(broker=0)) as cut:
        client.send(b"during")
        await_waiting(cut)
        die(client)
    assert reads_nothing_more(server)


def test_a_connection_to_zookeeper_that_was_given_up_during_the_cut_is_never_made(lab):
    with lab.links.cut(CutZooKeeper(broker=0)) as cut:
        client = lab.connect(lab.zookeeper[0])
        client.send(b"hello")
        await_waiting(cut)
        die(client)
    lab.connect(lab.zookeeper[1]).send(b"other")
    assert lab.server.next_peer().read(5) == b"other"
    assert lab.server.accepted.empty()


def test_what_waits_is_delivered_to_the_last_byte_when_its_sender_dies_after_the_healing(
    lab, make_request, make_frame
):
    client, server = lab.pair()
    client.send(make_request(1))
    server.read_frame()
    cut = lab.links.cut(CUT)
    sent = answer(make_frame, 0) + answer(make_frame, 1, b"x" * 300_000)
    server.send(sent)
    await_waiting(cut)
    cut.heal()
    die(server)
    assert client.read(len(sent)) == sent
    assert reads_nothing_more(client)
    assert fates(lab, "response") == [(0, "cut"), (0, "passed"), (1, "passed")]


@pytest.mark.slow
def test_an_answer_that_had_passed_before_the_cut_counts_though_its_sender_died(lab, make_frame):
    client, server = lab.pair()
    server.send(answer(make_frame, 0))
    lab.links.await_record(lambda r: r.direction == "response", 10, "the answer", since=1)
    with lab.links.cut(CUT):
        die(server)
        assert client.read_frame() == struct.pack(">i", 0)
        assert client.has_nothing_to_read()
    assert reads_nothing_more(client)


def test_who_has_closed_one_direction_only_still_reads_what_waited_at_the_cut(
    lab, make_request, make_frame
):
    client, server = lab.pair()
    client.send(make_request(1))
    client.sock.shutdown(socket.SHUT_WR)
    server.read_frame()
    assert server.sock.recv(1) == b""
    with lab.links.cut(CUT) as cut:
        server.send(answer(make_frame, 0) + answer(make_frame, 1))
        await_waiting(cut)
    assert client.read_frame() == struct.pack(">i", 0)
    assert client.read_frame() == struct.pack(">i", 1)


def test_a_sender_that_dies_between_two_healings_of_overlapping_cuts_delivers_nothing(
    lab, make_frame
):
    client, server = lab.pair()
    outer = lab.links.cut(CUT)
    inner = lab.links.cut(CutLink(source=0, target=1, one_way=True))
    server.send(answer(make_frame, 0))
    await_waiting(outer)
    outer.heal()
    await_waiting(inner)
    die(server)
    inner.heal()
    assert reads_nothing_more(client)
    assert fates(lab, "response") == [(0, "cut"), (0, "abandoned")]


def test_what_a_hold_keeps_is_delivered_after_its_sender_has_gone(lab, make_request):
    client, server = lab.pair()
    with lab.links.hold(Match(source=1, target=0)) as hold:
        client.send(make_request(1))
        hold.await_held(timeout_s=10, waiting_for="the request")
        die(client)
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    assert fates(lab, "request")[1:] == [(1, "held"), (1, "released")]


@pytest.mark.parametrize("end", [die, die_unread])
def test_what_a_hold_keeps_for_a_process_that_has_ended_reaches_nobody(lab, make_request, end):
    client, server = lab.pair()
    with lab.links.hold(Match(source=1, target=0)) as hold:
        client.send(make_request(1))
        hold.await_held(timeout_s=10, waiting_for="the request")
        end(server)
        assert reads_nothing_more(client)  # The relay has passed the server's end on.
    lab.links.await_record(lambda r: r.fate == "abandoned", 10, "the request", since=1)
    assert fates(lab, "request")[1:] == [(1, "held"), (1, "abandoned")]


def test_what_a_hold_releases_into_a_cut_is_not_delivered_when_its_sender_has_gone(
    lab, make_request
):
    client, server = lab.pair()
    hold = lab.links.hold(Match(source=1, target=0))
    client.send(make_request(1))
    hold.await_held(timeout_s=10, waiting_for="the request")
    with lab.links.cut(CUT) as cut:
        hold.release()
        await_waiting(cut)
        die(client)
    assert reads_nothing_more(server)
    assert fates(lab, "request")[1:] == [(1, "held"), (1, "cut"), (1, "abandoned")]


def test_what_waits_when_its_connection_is_reset_is_abandoned(lab, make_request):
    client, _ = lab.pair()
    with lab.links.cut(CUT) as cut:
        client.send(make_request(1))
        await_waiting(cut)
        with lab.links.cut(CutLink(source=0, target=1, style="reset", name="hard")):
            pass
    with pytest.raises(ConnectionResetError):
        client.sock.recv(1)
    lab.links.await_record(lambda r: r.fate == "abandoned", 10, "the request", since=1)
    assert fates(lab, "request")[1:] == [(1, "cut"), (1, "abandoned")]


class Deaf:
    """An address that lets nobody in for now, as that of a container that is being made anew."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.listener.settimeout(10)
        self.address = self.listener.getsockname()
        # Whoever comes while one waits to be accepted is not answered, and knocks again.
        self.first = socket.create_connection(self.address)

    def listen(self):
        """Let in who waits."""
        self.listener.accept()[0].close()

    def next_peer(self):
        sock, _ = self.listener.accept()
        sock.settimeout(10)
        return sock

    def close(self):
        self.first.close()
        self.listener.close()


@pytest.fixture
def deaf():
    deaf = Deaf()
    yield deaf
    deaf.close()


@pytest.mark.parametrize("end", [die, die_unread])
def test_who_dies_before_the_target_can_be_reached_has_sent_it_nothing(
    lab, deaf, make_request, end
):
    client = lab.connect(lab.links.add_broker(9, deaf.address))
    client.send(make_request(1))
    end(client)
    deaf.listen()
    with deaf.next_peer() as target, contextlib.suppress(ConnectionResetError):
        assert target.recv(1) == b""
    assert fates(lab, "request") == []


def test_who_waits_until_the_target_can_be_reached_is_heard(lab, deaf, make_request):
    client = lab.connect(lab.links.add_broker(9, deaf.address))
    client.send(make_request(1))
    deaf.listen()
    with deaf.next_peer() as target:
        assert target.recv(len(make_request(1)), socket.MSG_WAITALL) == make_request(1)
    assert fates(lab, "request") == [(1, "passed")]


def test_what_a_cut_kept_and_no_target_takes_then_is_abandoned(lab, make_request):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    at_9 = lab.links.add_broker(9, address)
    with lab.links.cut(CutLink(source=1, target=9)) as cut:
        client = lab.connect(at_9)
        client.send(make_request(1))
        await_waiting(cut)
    lab.links.await_record(lambda r: r.fate == "abandoned", 10, "the request", since=0)
    assert fates(lab, "request") == [(1, "cut"), (1, "abandoned")]
