"""Links for clients: bytes pass unchanged, and promises are written down in order."""

import os
import socket
import struct
import threading
from typing import Any

import pytest

from kchaos.checkers.acts import CutLink, DisturbClients
from kchaos.clusters.errors import RuleRefused
from kchaos.clusters.links import Links, client_talk
from kchaos.clusters.links.client_talk import NOT_KAFKA, ClientMessage, values_of
from kchaos.clusters.system.waiting import await_until
from tests.clusters.links.conftest import Peer, Server, frame, request
from tests.support.segment_encoder import batch


class ClientLab:
    """One broker's listener for clients behind a link, and what the link told."""

    def __init__(self) -> None:
        self.server = Server()
        self.links = Links()
        self.told: list[ClientMessage] = []
        self.links.set_client_sink(self.told.append)
        self.broker_address = self.links.add_broker(0, self.server.address)
        self.address = self.links.add_clients(0, self.server.address)
        self.clients: list[Peer] = []

    def pair(self) -> tuple[Peer, Peer]:
        client = Peer(socket.create_connection(self.address))
        self.clients.append(client)
        return client, self.server.next_peer()

    def await_told(self, count: int) -> list[ClientMessage]:
        await_until(
            lambda: len(self.told) >= count,
            timeout_s=10,
            waiting_for=f"{count} messages of clients",
            last_seen=lambda: self.told,
        )
        return self.told

    def close(self) -> None:
        for client in self.clients:
            client.sock.close()
        self.links.close()
        self.server.close()


@pytest.fixture
def lab():
    made = ClientLab()
    yield made
    made.close()


def text(value: str | None) -> bytes:
    return (
        struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()
    )


def values(message: ClientMessage) -> dict[str, Any]:
    read, why = values_of(message, lambda _topic: None)
    assert why == ""
    return read


def produce(number: int, *, transactional_id: str | None = None, size: int = 3) -> bytes:
    """A Produce of version 3 with one batch for t-0."""
    records = batch(0, [(None, b"x" * size)])
    body = text(transactional_id) + struct.pack(">hii", -1, 1000, 1) + text("t")
    body += struct.pack(">iii", 1, 0, len(records)) + records
    asked: bytes = request(number, client_id=b"mine", api_key=0, version=3, body=body)
    return asked


def produced(number: int, *, base_offset: int = 7, error_code: int = 0) -> bytes:
    body = struct.pack(">ii", number, 1) + text("t")
    body += struct.pack(">iihqqi", 1, 0, error_code, base_offset, -1, 0)
    answer: bytes = frame(body)
    return answer


def test_a_produce_and_its_answer_are_told_in_their_order(lab: ClientLab):
    client, server = lab.pair()
    asked, answer = produce(1, transactional_id="another's"), produced(1)
    client.send(asked)
    assert frame(server.read_frame()) == asked
    server.send(answer)
    assert frame(client.read_frame()) == answer

    first, second = sorted(lab.await_told(2), key=lambda message: message.sequence)
    assert (first.api_key, first.direction, first.client_id) == (0, "request", "mine")
    assert (first.broker, first.correlation_id, first.not_judged) == (0, 1, "")
    assert values(first)["transactional_id"] == "another's"
    assert first.address == "{}:{}".format(*client.sock.getsockname())
    (topic,) = values(second)["topics"]
    assert topic["partitions"][0]["base_offset"] == 7
    assert first.sequence < second.sequence


def test_what_passes_between_brokers_is_in_the_same_order(lab: ClientLab):
    client, server = lab.pair()
    client.send(produce(1))
    server.read_frame()
    lab.await_told(1)
    broker = Peer(socket.create_connection(lab.broker_address))
    lab.clients.append(broker)
    broker.send(request(5))
    lab.server.next_peer().read_frame()
    lab.links.await_record(lambda record: record.correlation_id == 5, 10, "it", since=1)
    (passed,) = lab.links.log()
    server.send(produced(1))
    client.read_frame()

    first, second = sorted(lab.await_told(2), key=lambda message: message.sequence)
    assert first.link_sequence <= passed.sequence < second.link_sequence


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(bytes.fromhex("16030100f8010000f40303") + b"r" * 100, id="TLS"),
        pytest.param(struct.pack(">i", 101 << 20) + b"\0" * 50, id="more than a broker takes"),
        pytest.param(frame(b"\xff" * 40), id="no API"),
    ],
)
def test_what_is_no_message_passes_at_once_and_is_told(lab: ClientLab, content: bytes):
    client, server = lab.pair()
    client.send(content)
    assert server.read(len(content)) == content
    server.send(b"no")
    assert client.read(2) == b"no"
    client.sock.close()
    server.sock.close()

    asked, answered = lab.await_told(2)
    assert (asked.api_key, asked.not_judged) == (None, NOT_KAFKA)
    assert answered.answered_bytes == 2


def test_a_client_that_hangs_up_in_the_middle_leaves_what_it_sent(lab: ClientLab):
    client, server = lab.pair()
    whole = produce(1, size=600_000)
    client.send(whole[:400_000])
    client.sock.close()
    assert server.read(400_000) == whole[:400_000]
    with pytest.raises(EOFError):
        server.read(1)

    (told,) = lab.await_told(1)
    assert told.not_judged.startswith("it ended after 400000 of ")


def test_what_is_too_large_to_be_kept_passes_whole(lab: ClientLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_talk, "_MOST_KEPT_BYTES", 300_000)
    client, server = lab.pair()
    whole = produce(1, size=600_000)
    client.send(whole)
    assert frame(server.read_frame()) == whole

    (told,) = lab.await_told(1)
    assert "300000 are read" in told.not_judged
    assert told.content == b""


def test_large_messages_are_read_and_no_memory_is_kept_of_them(lab: ClientLab):
    client, server = lab.pair()
    whole = produce(1, size=600_000)
    client.send(whole)
    assert frame(server.read_frame()) == whole

    (told,) = lab.await_told(1)
    (topic,) = values(told)["topics"]
    assert topic["partitions"][0]["records"].size_bytes > 600_000
    assert lab.links._client_journal.kept_bytes == 0


def test_a_version_that_nobody_knows_passes_and_is_told(lab: ClientLab):
    client, server = lab.pair()
    strange = request(1, client_id=b"mine", api_key=0, version=99, body=b"\0" * 20)
    client.send(strange)
    assert frame(server.read_frame()) == strange

    (told,) = lab.await_told(1)
    assert "version 99 is newer" in values_of(told, lab.links.topic_named)[1]


def test_cuts_between_brokers_do_not_concern_clients(lab: ClientLab):
    lab.links.add_broker(1, lab.server.address)
    lab.links.cut(CutLink(source=1, target=0))
    client, server = lab.pair()
    client.send(produce(1))
    assert len(server.read_frame()) > 0


def test_pumps_run_before_other_threads_where_the_process_may(lab: ClientLab):
    def can_be_nicer() -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), usual - 1)
        except PermissionError:
            return
        expected.append(max(usual - 10, -20))

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    expected: list[int] = []
    trying = threading.Thread(target=can_be_nicer)
    trying.start()
    trying.join()
    client, server = lab.pair()
    client.send(produce(1))
    server.read_frame()

    pumps = [thread for thread in threading.enumerate() if thread.name.startswith("link-clients-")]
    assert len(pumps) == 3
    nice = {os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) for thread in pumps}
    assert nice == set(expected or [usual])
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == usual


def test_pumps_work_where_the_process_may_not_raise_them(
    lab: ClientLab, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_arguments: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    lab.address = lab.links.add_clients(1, lab.server.address)
    client, server = lab.pair()
    client.send(produce(1))
    assert frame(server.read_frame()) == produce(1)


def test_a_lost_answer_is_none_that_a_client_got(lab: ClientLab):
    act = DisturbClients(name="lost", api="Produce", client_id="mi", broker=0)
    disturbance = lab.links.disturb(act)
    assert lab.links.disturbances == {"lost": act}
    client, server = lab.pair()
    client.send(produce(1))
    assert server.read_frame()
    server.send(produced(1))
    with pytest.raises(ConnectionResetError):
        client.read_frame()
    assert disturbance.met == 1
    disturbance.end()
    assert lab.links.disturbances == {}
    client, server = lab.pair()
    client.send(produce(2))
    server.read_frame()
    server.send(produced(2))
    assert client.read_frame()[:4] == struct.pack(">i", 2)
    # The broker has handled the first one, and nobody was told so. Two threads tell of the others.
    told = {(message.direction, message.correlation_id) for message in lab.await_told(3)}
    assert told == {("request", 1), ("request", 2), ("response", 2)}


def test_a_lost_request_reaches_no_broker_and_others_pass(lab: ClientLab):
    act = DisturbClients(name="lost", api="Produce", direction="request", topic="t", partition=1)
    with lab.links.disturb(act):
        client, server = lab.pair()
        client.send(produce(1))
        server.read_frame()
    act = DisturbClients(name="lost", api="Produce", direction="request", topic="t", partition=0)
    with lab.links.disturb(act):
        client.send(produce(2))
        with pytest.raises(ConnectionResetError):
            client.read_frame()
    assert [message.correlation_id for message in lab.told] == [1]


@pytest.mark.parametrize("effect", ["hold", "delay"])
def test_what_is_kept_back_passes_in_order_when_the_disturbance_ends(lab: ClientLab, effect: Any):
    delay_ms = 3_600_000 if effect == "delay" else 0
    act = DisturbClients(name="late", direction="request", effect=effect, delay_ms=delay_ms)
    client, server = lab.pair()
    with lab.links.disturb(act):
        client.send(produce(1))
        client.send(produce(2))
        assert server.has_nothing_to_read()
        assert lab.told == []
    for number in (1, 2):
        assert server.read_frame()[4:8] == struct.pack(">i", number)
    assert [message.correlation_id for message in lab.await_told(2)] == [1, 2]


def test_an_answer_that_was_kept_back_until_its_client_had_gone_was_given_to_nobody(lab: ClientLab):
    client, server = lab.pair()
    with lab.links.disturb(DisturbClients(name="late", api="Produce", effect="hold")) as rule:
        client.send(produce(1))
        server.read_frame()
        server.send(produced(1))
        await_until(
            lambda: rule.met == 1,
            timeout_s=10,
            waiting_for="the answer at the link",
            last_seen=lambda: rule.met,
        )
        client.sock.close()
    lab.links.close()
    assert [message.direction for message in lab.told] == ["request"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"api": "Produced"}, "Produced"),
        ({"effect": "loose"}, "use disconnect or hold or delay"),
        ({"effect": "delay"}, "they belong together"),
        ({"topic": "t"}, "name both, or neither"),
        ({"topic": "t", "partition": 0, "api": "Heartbeat"}, "name one of these APIs"),
        ({"broker": 1}, r"lead to the brokers \[0\]"),
    ],
)
def test_a_disturbance_that_no_link_could_make_is_refused(
    lab: ClientLab, fields: dict[str, Any], why: str
):
    with pytest.raises(RuleRefused, match=why):
        lab.links.disturb(DisturbClients(name="wrong", **fields))
