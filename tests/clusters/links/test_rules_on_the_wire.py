"""Cut, hold, release, delay and reset, over real TCP on the loopback."""

import socket
import struct
import threading

import pytest

from kchaos.checkers.acts import CutLink, CutZooKeeper, Hold
from kchaos.checkers.formats.api_keys import APIS
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.links import ApiKey, Links, Match, RuleRefused, links
from kchaos.clusters.links.frames import FrameStream

FROM_1_TO_0 = Match(source=1, target=0)


def test_requests_and_responses_pass_unchanged_and_are_recorded(lab, make_request, make_frame):
    client, server = lab.pair()
    sent = make_request(7, body=b"some body")
    client.send(sent)
    assert server.read(len(sent)) == sent
    answer = make_frame(struct.pack(">i", 7) + b"answer")
    server.send(make_frame(struct.pack(">i", 0)))
    server.send(answer)
    client.read_frame()
    assert client.read(len(answer)) == answer
    seen = [(r.correlation_id, r.direction, r.fate, r.source, r.target) for r in lab.links.log()]
    assert sorted(seen) == [
        (0, "request", "passed", 1, 0),
        (0, "response", "passed", 1, 0),
        (7, "request", "passed", 1, 0),
        (7, "response", "passed", 1, 0),
    ]


def test_frames_that_arrive_byte_by_byte_or_many_at_once_pass_unchanged(lab, make_request):
    client, server = lab.pair()
    sent = b"".join(make_request(number, body=b"x" * number) for number in range(1, 40))
    for position in range(60):
        client.send(sent[position : position + 1])
    client.send(sent[60:])
    assert server.read(len(sent)) == sent
    assert [r.correlation_id for r in lab.links.log() if r.correlation_id] == list(range(1, 40))


def test_a_body_larger_than_the_buffer_passes_unchanged(lab, make_frame):
    client, server = lab.pair()
    answer = make_frame(struct.pack(">i", 0) + bytes(range(256)) * 12_000)
    received = []
    reader = threading.Thread(target=lambda: received.append(client.read(len(answer))))
    reader.start()
    server.send(answer)
    reader.join(10)
    assert received == [answer]


def test_of_a_connection_frames_are_whole_up_to_a_size_and_begin_with_their_head_beyond(make_frame):
    here, there = socket.socketpair()
    sizes = (10, 1 << 20, 20, 3 << 20, 30)
    frames = [make_frame(bytes([number]) * size) for number, size in enumerate(sizes)]
    threading.Thread(target=there.sendall, args=(b"".join(frames),)).start()
    stream = FrameStream(here, largest_whole_bytes=lambda: 2 << 20)
    for sent in frames:
        frame = stream.next_frame(lambda: False)
        assert frame is not None
        stream.taken(frame)
        read = bytes(frame.head)
        assert frame.rest_bytes == 0 or len(sent) > 2 << 20
        while len(read) < len(sent):
            read += stream.chunk(len(sent) - len(read))
        assert read == sent


@pytest.mark.slow
def test_a_held_request_waits_with_all_that_follow_it_and_passes_in_order(lab, make_request):
    client, server = lab.pair()
    hold = lab.links.hold(FROM_1_TO_0)
    client.send(make_request(1) + make_request(2))
    hold.await_held(timeout_s=10, waiting_for="request 1")
    assert [record.correlation_id for record in hold.held] == [1]
    assert server.has_nothing_to_read()
    hold.release()
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    assert server.read_frame()[4:8] == struct.pack(">i", 2)
    assert hold.held == ()
    fates = [(r.correlation_id, r.fate) for r in lab.links.log(since=2)]
    assert fates == [(1, "held"), (1, "released"), (2, "passed")]


def test_what_is_held_on_several_connections_is_released_in_the_order_of_arrival(lab, make_request):
    pairs = [lab.pair() for _ in range(5)]
    hold = lab.links.hold(FROM_1_TO_0)
    for number, (client, _) in enumerate(pairs, start=1):
        client.send(make_request(number))
        hold.await_held(number, timeout_s=10, waiting_for=f"{number} requests")
    hold.release()
    for _, server in pairs:
        server.read_frame()
    released = [r.correlation_id for r in lab.links.log() if r.fate == "released"]
    assert released == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_hold_on_responses_lets_the_request_reach_its_target(lab, make_request, make_frame):
    client, server = lab.pair()
    with lab.links.hold(Match(source=1, target=0, direction="response")) as hold:
        client.send(make_request(1))
        server.read_frame()
        server.send(make_frame(struct.pack(">i", 0)))
        hold.await_held(timeout_s=10, waiting_for="the response")
        assert client.has_nothing_to_read()
    assert client.read_frame() == struct.pack(">i", 0)
    assert hold.is_released


def test_a_hold_leaves_other_sources_targets_and_apis_alone(lab, make_request):
    hold = lab.links.hold(Match(api_keys=frozenset({ApiKey.API_VERSIONS}), source=1, target=0))
    for source, target, api_key in ((2, 0, 18), (1, 2, 18), (1, 0, 3)):
        client = lab.connect(lab.addresses[target])
        client.send(make_request(5, client_id=b"broker-%d-x" % source, api_key=api_key))
        assert lab.server.next_peer().read_frame()[4:8] == struct.pack(">i", 5)
    assert hold.held == ()


def test_the_first_rule_that_matches_decides(lab, make_request):
    client, server = lab.pair()
    first = lab.links.hold(FROM_1_TO_0)
    second = lab.links.hold(Match(source=1))
    client.send(make_request(1))
    first.await_held(timeout_s=10, waiting_for="the request at the first rule")
    assert second.held == ()
    first.release()
    server.read_frame()
    client.send(make_request(2))
    second.await_held(timeout_s=10, waiting_for="the request at the second rule")


def test_a_hold_that_meets_nothing_says_so(lab):
    hold = lab.links.hold(FROM_1_TO_0)
    with pytest.raises(AwaitTimeout, match=r"a fetch of broker 1 .*last seen: 0 held"):
        hold.await_held(timeout_s=0.05, waiting_for="a fetch of broker 1")


@pytest.mark.slow
def test_a_silent_cut_keeps_bytes_back_both_ways_and_healing_lets_them_flow(
    lab, make_request, make_frame
):
    client, server = lab.pair()
    other_client, other_server = lab.pair(source=0, target=1)
    cut = lab.links.cut(CutLink(source=0, target=1))
    client.send(make_request(1))
    server.send(make_frame(struct.pack(">i", 0)))
    other_client.send(make_request(1))
    assert server.has_nothing_to_read()
    assert client.has_nothing_to_read(0.05)
    assert other_server.has_nothing_to_read(0.05)
    cut.heal()
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    assert client.read_frame() == struct.pack(">i", 0)
    assert other_server.read_frame()[4:8] == struct.pack(">i", 1)
    assert cut.is_healed


def test_a_cut_leaves_other_pairs_alone(lab, make_request):
    client, server = lab.pair(source=2, target=0)
    with lab.links.cut(CutLink(source=0, target=1)):
        client.send(make_request(1))
        assert server.read_frame()[4:8] == struct.pack(">i", 1)


def test_a_new_connection_over_a_silent_cut_is_accepted_and_reaches_nobody_until_healed(
    lab, make_request
):
    with lab.links.cut(CutLink(source=0, target=1)):
        client = lab.connect(lab.addresses[0])
        client.send(make_request(1))
        lab.links.await_record(
            lambda r: r.fate == "cut", 10, "the request to meet the cut", since=1
        )
        assert lab.server.accepted.empty()
    assert lab.server.next_peer().read_frame()[4:8] == struct.pack(">i", 1)


def test_a_connection_given_up_during_a_silent_cut_never_reaches_the_target(
    lab, make_request, link_threads
):
    acceptors = len(link_threads(expected=5))
    with lab.links.cut(CutLink(source=0, target=1)):
        client = lab.connect(lab.addresses[0])
        client.send(make_request(1))
        lab.links.await_record(
            lambda r: r.fate == "cut", 10, "the request to meet the cut", since=1
        )
        client.sock.close()
    assert len(link_threads(expected=acceptors)) == acceptors
    assert lab.server.accepted.empty()


@pytest.mark.slow
def test_a_silent_cut_hides_the_end_of_a_connection_until_it_heals(lab):
    client, server = lab.pair()
    with lab.links.cut(CutLink(source=0, target=1)):
        server.sock.close()
        assert client.has_nothing_to_read()
    assert client.sock.recv(1) == b""


@pytest.mark.slow
def test_a_one_way_cut_stops_what_one_broker_sends_and_nothing_else(lab, make_request, make_frame):
    client, server = lab.pair(source=1, target=0)
    other_client, other_server = lab.pair(source=0, target=1)
    with lab.links.cut(CutLink(source=1, target=0, one_way=True)):
        server.send(make_frame(struct.pack(">i", 0)))
        assert client.read_frame() == struct.pack(">i", 0)
        other_client.send(make_request(1))
        assert other_server.read_frame()[4:8] == struct.pack(">i", 1)
        client.send(make_request(1))
        other_server.send(make_frame(struct.pack(">i", 0)))
        assert server.has_nothing_to_read()
        assert other_client.has_nothing_to_read(0.05)
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    assert other_client.read_frame() == struct.pack(">i", 0)


def test_a_reset_cut_resets_both_ends_and_new_connections_until_healed(lab, make_request):
    client, server = lab.pair()
    cut = lab.links.cut(CutLink(source=1, target=0, style="reset"))
    with pytest.raises(ConnectionResetError):
        client.sock.recv(1)
    with pytest.raises(ConnectionResetError):
        server.sock.recv(1)
    again = lab.connect(lab.addresses[0])
    again.send(make_request(1))
    with pytest.raises(ConnectionResetError):
        again.sock.recv(1)
    assert lab.server.accepted.empty()
    cut.heal()
    lab.pair()


@pytest.mark.slow
def test_zookeeper_bytes_pass_unread_and_are_cut_by_broker(lab):
    clients, servers = {}, {}
    for broker in (0, 1):
        clients[broker] = lab.connect(lab.zookeeper[broker])
        clients[broker].send(b"not kafka %d" % broker)
        servers[broker] = lab.server.next_peer()
        assert servers[broker].read(11) == b"not kafka %d" % broker
    with lab.links.cut(CutZooKeeper(broker=0)):
        clients[0].send(b"late")
        clients[1].send(b"in time")
        assert servers[1].read(7) == b"in time"
        assert servers[0].has_nothing_to_read()
    assert servers[0].read(4) == b"late"
    with lab.links.cut(CutZooKeeper(broker=0, style="reset")):
        with pytest.raises(ConnectionResetError):
            clients[0].sock.recv(1)
        new = lab.connect(lab.zookeeper[0])
        with pytest.raises(ConnectionResetError):
            new.sock.recv(1)


@pytest.mark.slow
def test_a_cut_from_zookeeper_that_drops_connections_resets_the_old_and_keeps_the_new_waiting(lab):
    old = lab.connect(lab.zookeeper[0])
    old.send(b"old")
    assert lab.server.next_peer().read(3) == b"old"
    with lab.links.cut(CutZooKeeper(broker=0, style="dropped")):
        with pytest.raises(ConnectionResetError):
            old.sock.recv(1)
        new = lab.connect(lab.zookeeper[0])
        new.send(b"new")
        assert new.has_nothing_to_read()
        assert lab.server.accepted.empty()
    assert lab.server.next_peer().read(3) == b"new"


def test_only_a_cut_from_zookeeper_drops_connections(lab):
    with pytest.raises(RuleRefused, match=r"style is 'dropped'; use 'silent' or 'reset'$"):
        lab.links.cut(CutLink(source=0, target=1, style="dropped"))  # type: ignore[arg-type]


def test_a_connection_is_reset_while_its_target_is_down(lab):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    client = lab.connect(lab.links.add_broker(9, address))
    with pytest.raises(ConnectionResetError):
        client.sock.recv(1)


def test_rules_that_can_never_be_decided_are_refused():
    with pytest.raises(RuleRefused, match="CONTROLLED_SHUTDOWN cannot be matched by partition"):
        Match(api_keys=frozenset({ApiKey.CONTROLLED_SHUTDOWN}), partition=("t", 0))
    with pytest.raises(RuleRefused, match="fetch_offset_at_least needs"):
        Match(fetch_offset_at_least=3)
    with pytest.raises(RuleRefused, match="matches nothing"):
        Match(api_keys=frozenset())
    with Links() as links, pytest.raises(RuleRefused, match="broker 3 has no link"):
        links.hold(Match(source=3))
    with Links() as links, pytest.raises(RuleRefused, match="broker 5 has no ZooKeeper link"):
        links.cut(CutZooKeeper(broker=5))


def test_a_connection_whose_source_nobody_knows_passes_a_cut_and_is_counted(lab, make_request):
    with lab.links.cut(CutLink(source=0, target=1)), lab.links.hold(FROM_1_TO_0) as hold:
        client = lab.connect(lab.addresses[0])
        client.send(make_request(1, client_id=b"some tool"))
        assert lab.server.next_peer().read_frame()[4:8] == struct.pack(">i", 1)
        assert hold.held == ()
    (counts,) = lab.links.counts().values()
    assert (counts.passed, counts.undecided) == (1, 1)


def test_what_a_hold_is_about_is_read_from_the_act():
    hold = Hold(
        name="h",
        api="Fetch",
        source=1,
        target=0,
        topic="t",
        partition=3,
        fetch_offset_at_least=20,
        direction="response",
    )
    assert Match.of(hold) == Match(
        api_keys=frozenset({ApiKey.FETCH}),
        source=1,
        target=0,
        partition=("t", 3),
        fetch_offset_at_least=20,
        direction="response",
    )


def test_every_api_that_a_hold_may_name_is_known_by_that_name_and_no_other_is():
    assert [ApiKey(name) for name in APIS] == list(ApiKey)  # type: ignore[arg-type]
    with pytest.raises(RuleRefused, match="no API is named 'fetch'; known: Produce, Fetch"):
        Match.of(Hold(name="h", api="fetch"))


@pytest.mark.slow
def test_cuts_and_holds_that_last_are_known_by_name_and_each_ends_alone(lab, make_request):
    client, server = lab.pair()
    first = CutLink(source=0, target=1)
    second = CutLink(source=1, target=0, one_way=True, name="second")
    held = Hold(name="h", api="Fetch", source=2)
    with lab.links.hold(held), lab.links.cut(second):
        with lab.links.cut(first):
            assert lab.links.cuts == {"0-1": first, "second": second}
            assert lab.links.holds == {"h": held}
            with pytest.raises(RuleRefused, match="a cut named '0-1' lasts already"):
                lab.links.cut(first)
            with pytest.raises(RuleRefused, match="a hold named 'h' lasts already"):
                lab.links.hold(held)
            client.send(make_request(1))
        assert lab.links.cuts == {"second": second}
        assert server.has_nothing_to_read()
    assert server.read_frame()[4:8] == struct.pack(">i", 1)
    assert (lab.links.cuts, lab.links.holds) == ({}, {})


def test_an_answer_whose_client_has_hung_up_is_abandoned(lab, make_request, make_frame):
    client, server = lab.pair()
    client.sock.close()
    with pytest.raises(EOFError):
        server.read(1)  # The relay has passed the client's end on.
    server.send(make_frame(struct.pack(">i", 0)))
    answer = lab.links.await_record(
        lambda record: record.direction == "response", 10, "the answer", since=1
    )
    assert (answer.correlation_id, answer.fate) == (0, "abandoned")
    (counts,) = [each for key, each in lab.links.counts().items() if key.direction == "response"]
    assert (counts.passed, counts.abandoned) == (0, 1)


def test_a_request_is_abandoned_when_its_client_hangs_up_while_a_cut_lasts(lab, make_request):
    with lab.links.cut(CutLink(source=0, target=1)):
        client = lab.connect(lab.addresses[0])
        client.send(make_request(1))
        lab.links.await_record(lambda record: record.fate == "cut", 10, "the request", since=1)
        client.sock.close()
    lab.links.await_record(lambda record: record.fate == "abandoned", 10, "its end", since=1)
    assert [record.fate for record in lab.links.log()] == ["cut", "abandoned"]
    assert lab.server.accepted.empty()


def test_a_rule_waits_on_while_the_machine_is_slow(monkeypatch: pytest.MonkeyPatch):
    # The clock stands for three looks, and the thread is done at the fifth.
    times = iter([0.0, 0.0, 0.0, 0.5, 0.6, 1.2])
    monkeypatch.setattr(links, "awake_s", lambda: next(times))
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 5

    assert links._by(1.0, wait)
    assert not links._by(1.0, lambda seconds: seconds > 0)
