"""Broken frames, half-closed connections, closing, records."""

import json
import select
import socket
import struct
import threading
from ipaddress import IPv4Network
from typing import Any

import pytest

from kchaos.checkers.acts import CutLink
from kchaos.checkers.json_form import from_json, to_json
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.links import LinkError, LinkRecord, Links, Match


def test_bytes_that_are_no_frame_pass_as_they_are_and_are_counted(lab, make_request):
    client, server = lab.pair()
    garbage = make_request(1) + b"GET / HTTP/1.1\r\n\r\n" + b"\x00\x00\x00\x02hi"
    client.send(garbage)
    assert server.read(len(garbage)) == garbage
    server.send(b"HTTP/1.1 400 Bad\r\n\r\n")
    assert client.read(20) == b"HTTP/1.1 400 Bad\r\n\r\n"
    assert lab.links.broken_streams == 1


def test_a_frame_that_is_no_request_passes_as_it_is(lab, make_frame):
    client = lab.connect(lab.addresses[0])
    sent = make_frame(struct.pack(">hhi", -1, 0, 1) + b"xyz")
    client.send(sent)
    assert lab.server.next_peer().read(len(sent)) == sent
    assert lab.links.broken_streams == 1


@pytest.mark.slow
def test_a_broken_stream_of_a_known_source_is_still_cut(lab):
    client, server = lab.pair()
    client.send(b"\xff\xff\xff\xff")
    assert server.read(4) == b"\xff\xff\xff\xff"
    with lab.links.cut(CutLink(source=0, target=1)):
        client.send(b"more")
        assert server.has_nothing_to_read()
    assert server.read(4) == b"more"


def test_a_half_closed_connection_still_answers(lab, make_request, make_frame):
    client, server = lab.pair()
    client.send(make_request(1))
    client.sock.shutdown(1)
    server.read_frame()
    assert server.sock.recv(1) == b""
    server.send(make_frame(struct.pack(">i", 0)) + make_frame(struct.pack(">i", 1)))
    assert client.read_frame() == struct.pack(">i", 0)
    assert client.read_frame() == struct.pack(">i", 1)


def test_a_stream_that_ends_within_a_frame_passes_what_there_was(lab, make_request):
    client, server = lab.pair()
    client.send(make_request(1)[:9])
    client.sock.shutdown(1)
    assert server.read(9) == make_request(1)[:9]
    assert server.sock.recv(1) == b""


def test_an_unknown_api_and_an_unasked_response_pass(lab, make_request, make_frame):
    client, server = lab.pair()
    client.send(make_request(1, api_key=200, version=3))
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    server.send(make_frame(struct.pack(">i", 77) + b"nobody asked"))
    assert client.read_frame() == struct.pack(">i", 77) + b"nobody asked"
    assert lab.links.log()[-1].api_key == 200


def test_a_version_newer_than_the_relay_knows_passes_and_is_counted_as_unread(lab, make_request):
    client, server = lab.pair()
    client.send(make_request(1, api_key=1, version=99))
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    unread = {key.api_version: counts.unread for key, counts in lab.links.counts().items()}
    assert unread == {0: 0, 99: 1}


def test_a_request_without_an_answer_does_not_confuse_the_answers_after_it(
    lab, make_request, make_frame
):
    client, server = lab.pair()
    client.send(make_request(1, api_key=0) + make_request(2, api_key=3))
    server.read_frame()
    server.read_frame()
    server.send(make_frame(struct.pack(">i", 2)))
    client.read_frame()
    assert (lab.links.log()[-1].direction, lab.links.log()[-1].api_key) == ("response", 3)


def test_a_connection_that_ends_leaves_no_thread(lab, link_threads):
    acceptors = len(link_threads(expected=5))
    client, server = lab.pair()
    client.sock.close()
    assert server.sock.recv(1) == b""
    server.sock.close()
    assert len(link_threads(expected=acceptors)) == acceptors


def test_closing_ends_every_thread_whatever_it_waits_for(lab, make_request, link_threads):
    idle, _ = lab.pair()
    held, _ = lab.pair()
    cut, _ = lab.pair(source=2, target=1)
    hold = lab.links.hold(Match(source=1, target=0))
    lab.links.cut(CutLink(source=1, target=2))
    held.send(make_request(1))
    cut.send(make_request(1))
    hold.await_held(timeout_s=10, waiting_for="the held request")
    lab.links.await_record(lambda r: r.fate == "cut", 10, "the cut request", since=1)
    lab.links.close()
    assert link_threads() == []
    with pytest.raises(ConnectionResetError):
        idle.sock.recv(1)
    with pytest.raises(LinkError, match="closed"):
        lab.links.add_broker(7, lab.server.address)


def fill_until_blocked(client, make_frame):
    """Send a large request to a target that does not read, until no buffer takes any more."""
    data = memoryview(make_frame(struct.pack(">hhih", 18, 0, 1, -1) + bytes(64 << 20)))
    client.sock.setblocking(False)
    poller = select.poll()
    poller.register(client.sock, select.POLLOUT)
    sent = 0
    while sent < len(data) and poller.poll(300):
        sent += client.sock.send(data[sent : sent + (1 << 20)])
    assert sent < len(data)


@pytest.mark.slow
def test_closing_ends_a_sender_whose_receiver_does_not_read(lab, make_frame, link_threads):
    client, _ = lab.pair()
    fill_until_blocked(client, make_frame)
    lab.links.close()
    assert link_threads() == []


@pytest.mark.slow
def test_a_silent_cut_is_installed_while_a_receiver_does_not_read(lab, make_frame):
    client, _ = lab.pair()
    fill_until_blocked(client, make_frame)
    cut = lab.links.cut(CutLink(source=0, target=1))
    assert not cut.is_healed
    cut.heal()


def test_records_go_to_the_sink_in_order_and_survive_json(lab, make_request):
    taken: list[Any] = []
    lab.links.set_sink(taken.append)
    client, server = lab.pair()
    client.send(make_request(1) + make_request(2))
    server.read_frame()
    server.read_frame()
    assert taken == lab.links.log()
    assert [record.sequence for record in taken] == [1, 2, 3]
    line = json.loads(json.dumps(to_json(taken[-1])))
    assert (line["api"], line["source"], line["correlation_id"]) == ("ApiVersions", 1, 2)
    assert from_json(LinkRecord, line) == taken[-1]


def test_a_sink_that_comes_late_gets_the_kept_records_first(lab, make_request):
    client, server = lab.pair()
    client.send(make_request(1))
    server.read_frame()
    taken: list[Any] = []
    lab.links.set_sink(taken.append, since=2)
    client.send(make_request(2))
    server.read_frame()
    assert [record.correlation_id for record in taken] == [1, 2]


@pytest.mark.slow
def test_awaiting_a_record_ends_with_what_the_watch_raises(lab):
    def broker_is_gone():
        raise ProcessLookupError("broker 1 exited")

    with pytest.raises(ProcessLookupError, match="broker 1 exited"):
        lab.links.await_record(lambda _: True, 60, "anything", abort=broker_is_gone)


def test_a_sink_that_fails_stops_no_traffic_and_is_reported(lab, make_request):
    def full_disk(_record):
        raise OSError("no space left")

    lab.links.set_sink(full_disk)
    client, server = lab.pair()
    client.send(make_request(1))
    server.read_frame()
    with pytest.raises(LinkError, match="no space left"):
        lab.links.check()
    lab.links.set_sink(None)


def test_awaiting_a_record_sees_those_to_come_and_from_a_mark_also_those_before(lab, make_request):
    client, server = lab.pair()
    mark = lab.links.next_sequence
    client.send(make_request(1))
    server.read_frame()
    passed = lab.links.await_record(lambda r: r.correlation_id == 1, 10, "request 1", since=mark)
    assert passed.sequence == mark
    later = threading.Timer(0.05, client.send, [make_request(2)])
    later.start()
    assert lab.links.await_record(lambda r: r.correlation_id == 2, 10, "request 2").fate == "passed"
    with pytest.raises(AwaitTimeout, match="request 1 at a link; last seen: no record"):
        lab.links.await_record(lambda r: r.correlation_id == 1, 0.05, "request 1")


def test_only_guests_are_answered():
    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        Links(guests=IPv4Network("127.0.0.2/32")) as links,
    ):
        address = links.add_broker(0, target.getsockname())
        with socket.create_connection(address) as stranger:
            assert stranger.recv(1) == b""
        assert links.accepted == 0
        with socket.create_connection(address, source_address=("127.0.0.2", 0)) as guest:
            guest.sendall(b"\0")
            accepted, _ = target.accept()
            accepted.close()
        assert links.accepted == 1


def test_a_broker_has_one_link():
    with Links() as links:
        links.add_broker(0, ("127.0.0.1", 1))
        with pytest.raises(LinkError, match="broker 0 has a link already"):
            links.add_broker(0, ("127.0.0.1", 1))
