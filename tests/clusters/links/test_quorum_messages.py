"""Messages between brokers and KRaft controllers, and among these, as the relay reads them."""

import json
import struct
import uuid

import pytest

from kchaos.checkers.acts import CutLink, Hold
from kchaos.clusters.links import ApiKey, Links, Match, RuleRefused
from kchaos.clusters.links.control_requests import request_bytes
from kchaos.clusters.links.details import TopicNames
from tests.support.captured import answer_to, read

METADATA_ID = bytes(15) + b"\x01"
INCARNATION = uuid.UUID(int=0xABCDEF)
LOG_DIRECTORY = uuid.UUID(int=0x77)
NO_TAGS = b"\x00"


def text(value: bytes) -> bytes:
    """A compact string of fewer than 127 bytes."""
    return bytes([len(value) + 1]) + value


def flexible(api_key, version, body, *, client_id=b"1", correlation_id=5):
    """A request as a flexible version frames it."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id))
    sent = header + client_id + NO_TAGS + body
    return struct.pack(">i", len(sent)) + sent


def answer(body, *, is_flexible=True):
    sent = struct.pack(">i", 5) + (NO_TAGS if is_flexible else b"") + body
    return struct.pack(">i", len(sent)) + sent


def heartbeat(version, *, tags=NO_TAGS):
    body = struct.pack(">iqq??", 1, 29, 77, True, False) + tags
    return flexible(63, version, body)


OFFLINE = b"\x00" + bytes([1 + 16]) + b"\x02" + LOG_DIRECTORY.bytes
CORDONED = b"\x01" + bytes([1]) + b"\x00"


@pytest.mark.parametrize(
    ("version", "tags", "told"),
    [
        (0, NO_TAGS, {}),
        (1, NO_TAGS, {}),
        (1, b"\x01" + OFFLINE, {"offline_log_dirs": ["AAAAAAAAAAAAAAAAAAAAdw"]}),
        (
            2,
            b"\x02" + OFFLINE + CORDONED,
            {"offline_log_dirs": ["AAAAAAAAAAAAAAAAAAAAdw"], "cordoned_log_dirs": []},
        ),
    ],
)
def test_a_heartbeat_of_every_version_tells_what_the_broker_wants(version, tags, told):
    message = read(heartbeat(version, tags=tags), target=100)
    assert message.detail == {
        "broker_id": 1,
        "broker_epoch": 29,
        "current_metadata_offset": 77,
        "want_fence": True,
        "want_shut_down": False,
        **told,
    }
    assert (message.source, message.target, message.is_complete) == (1, 100, True)
    json.dumps(message.detail)
    response = answer_to(message, answer(struct.pack(">ih???", 0, 77, True, False, True) + NO_TAGS))
    assert response.detail == {
        "error_code": 77,
        "is_caught_up": True,
        "is_fenced": False,
        "should_shut_down": True,
    }


@pytest.mark.parametrize("version", range(5))
def test_a_registration_of_every_version_tells_the_incarnation_and_its_answer_the_epoch(version):
    listeners = b"\x02" + text(b"INTERNAL") + text(b"host") + struct.pack(">Hh", 65000, 0) + NO_TAGS
    features = b"\x02" + text(b"metadata.version") + struct.pack(">hh", 7, 33) + NO_TAGS
    body = struct.pack(">i", 1) + text(b"a cluster") + INCARNATION.bytes
    body += listeners + features + b"\x00"
    body += b"\x00" if version >= 1 else b""
    body += b"\x02" + LOG_DIRECTORY.bytes if version >= 2 else b""
    body += struct.pack(">q", 28) if version >= 3 else b""
    message = read(flexible(62, version, body + NO_TAGS), target=100)
    assert message.detail is not None
    assert message.detail["incarnation_id"] == "AAAAAAAAAAAAAAAAAKvN7w"
    assert message.detail.get("log_dirs") == (["AAAAAAAAAAAAAAAAAAAAdw"] if version >= 2 else None)
    assert message.detail.get("previous_broker_epoch") == (28 if version >= 3 else None)
    assert (message.source, message.is_complete) == (1, True)
    assert not {"listeners", "features"} & set(message.detail)
    json.dumps(message.detail)
    response = answer_to(message, answer(struct.pack(">ihq", 0, 0, 29) + NO_TAGS))
    assert response.detail == {"error_code": 0, "broker_epoch": 29}


def test_a_broker_tells_directory_by_directory_where_its_replicas_lie():
    topic = uuid.UUID(int=0x88)
    named = b"\x02" + LOG_DIRECTORY.bytes + b"\x02" + topic.bytes
    asked = struct.pack(">iq", 1, 29) + named + b"\x02" + struct.pack(">i", 4) + 4 * NO_TAGS
    message = read(flexible(73, 0, asked), target=100)
    assert (message.source, message.is_readable) == (1, True)
    entry = {
        "topic": None,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAiA",
        "partition": 4,
        "directory": "AAAAAAAAAAAAAAAAAAAAdw",
    }
    assert message.detail == {"broker_id": 1, "broker_epoch": 29, "partitions": [entry]}
    json.dumps(message.detail)
    told = struct.pack(">ih", 0, 0) + named + b"\x02" + struct.pack(">ih", 4, 6) + 4 * NO_TAGS
    response = answer_to(message, answer(told))
    assert response.detail == {"error_code": 0, "partitions": [entry | {"error_code": 6}]}


def metadata_fetch(version, *, broker=2, offset=40):
    """A raft client's Fetch: by name up to version 12, with a replica state from 15 on."""
    tags = NO_TAGS
    if version >= 18:
        tags = b"\x02" + b"\x00\x10" + LOG_DIRECTORY.bytes + b"\x01\x08" + struct.pack(">q", 39)
    elif version >= 17:
        tags = b"\x01" + b"\x00\x10" + LOG_DIRECTORY.bytes
    partition = struct.pack(">iiqiqi", 0, 3, offset, 3, 0, 0) + tags
    topic = METADATA_ID if version >= 13 else text(b"__cluster_metadata")
    body = b"" if version >= 15 else struct.pack(">i", broker)
    body += struct.pack(">iiib", 500, 0, 8 << 20, 0) + struct.pack(">ii", 0, -1)
    body += b"\x02" + topic + b"\x02" + partition + NO_TAGS
    body += b"\x01" + text(b"")
    state = b"\x01\x0d" + struct.pack(">iq", broker, -1) + NO_TAGS
    body += b"\x01" + state if version >= 15 else NO_TAGS
    return flexible(1, version, body, client_id=b"raft-client-%d" % broker)


@pytest.mark.parametrize("version", [12, 13, 15, 17, 18])
def test_a_fetch_of_the_metadata_log_is_known_by_its_topic_and_its_broker(version):
    message = read(metadata_fetch(version), target=100)
    assert (message.source, message.target) == (2, 100)
    assert message.fetch_offsets == {("__cluster_metadata", 0): 40}
    assert message.is_complete
    assert message.detail is not None
    (partition,) = message.detail["partitions"]
    assert (partition["topic"], partition["current_leader_epoch"]) == ("__cluster_metadata", 3)
    assert partition.get("high_watermark") == (39 if version >= 18 else None)


def test_the_raft_client_of_a_node_is_known_before_it_has_said_anything(make_request):
    message = read(make_request(1, client_id=b"raft-client-2"), target=100)
    assert message.source == 2


@pytest.mark.parametrize("version", range(3))
def test_a_vote_of_every_version_tells_who_wants_it_and_whether_it_was_given(version):
    partition = struct.pack(">iii", 0, 6, 101)
    partition += LOG_DIRECTORY.bytes * 2 if version >= 1 else b""
    partition += struct.pack(">iq", 5, 90) + (b"\x01" if version >= 2 else b"") + NO_TAGS
    body = text(b"a cluster") + (struct.pack(">i", 100) if version >= 1 else b"")
    body += b"\x02" + text(b"__cluster_metadata") + b"\x02" + partition + NO_TAGS + NO_TAGS
    message = read(flexible(52, version, body, client_id=b"raft-client-101"), target=100)
    assert message.source == 101
    assert message.detail is not None
    (told,) = message.detail["partitions"]
    assert (told["replica_id"], told["replica_epoch"], told["last_offset"]) == (101, 6, 90)
    assert told.get("pre_vote") == (True if version >= 2 else None)
    json.dumps(message.detail)
    given = struct.pack(">ihii?", 0, 0, -1, 6, True) + NO_TAGS
    body = struct.pack(">h", 0) + b"\x02" + text(b"__cluster_metadata") + b"\x02" + given
    response = answer_to(message, answer(body + NO_TAGS + NO_TAGS))
    assert response.detail is not None
    (told,) = response.detail["partitions"]
    assert (told["vote_granted"], told["leader_id"], told["leader_epoch"]) == (True, -1, 6)


@pytest.mark.parametrize("api", [ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH])
@pytest.mark.parametrize("version", [0, 1])
def test_a_leader_that_comes_or_goes_tells_its_epoch(api, version, make_request):
    name = b"__cluster_metadata"
    state = struct.pack(">ii", 101, 6)
    if version == 0:
        body = struct.pack(">h", 9) + b"a cluster" + struct.pack(">ih", 1, len(name)) + name
        body += struct.pack(">ii", 1, 0) + state
        body += struct.pack(">ii", 1, 102) if api == ApiKey.END_QUORUM_EPOCH else b""
        sent = make_request(5, client_id=b"raft-client-101", api_key=api, version=0, body=body)
    else:
        is_begin = api == ApiKey.BEGIN_QUORUM_EPOCH
        body = text(b"a cluster") + (struct.pack(">i", 100) if is_begin else b"")
        body += b"\x02" + text(name) + b"\x02" + struct.pack(">i", 0)
        body += LOG_DIRECTORY.bytes if is_begin else b""
        body += state
        candidate = struct.pack(">i", 102) + LOG_DIRECTORY.bytes + NO_TAGS
        body += b"" if is_begin else b"\x02" + candidate
        body += NO_TAGS + NO_TAGS
        body += b"\x02" + text(b"CONTROLLER") + text(b"host") + struct.pack(">H", 9093)
        body += NO_TAGS + NO_TAGS
        sent = flexible(api, 1, body, client_id=b"raft-client-101")
    message = read(sent, target=100)
    assert (message.source, message.is_readable, message.is_complete) == (101, True, True)
    assert message.detail is not None
    (told,) = message.detail["partitions"]
    assert (told["leader_id"], told["leader_epoch"]) == (101, 6)
    json.dumps(message.detail)
    names = text(name) if version else struct.pack(">h", len(name)) + name
    count = b"\x02" if version else struct.pack(">i", 1)
    tags = NO_TAGS * version
    body = struct.pack(">h", 0) + count + names + count + struct.pack(">ihii", 0, 0, 101, 6)
    response = answer_to(message, answer(body + tags * 3, is_flexible=version == 1))
    assert response.detail is not None
    assert response.detail["partitions"][0]["leader_id"] == 101


def test_a_heartbeat_that_kchaos_writes_is_that_of_a_broker():
    values = {
        "broker_id": 1,
        "broker_epoch": 29,
        "current_metadata_offset": 77,
        "want_fence": True,
        "want_shut_down": False,
    }
    written = request_bytes(ApiKey.BROKER_HEARTBEAT, 0, values, correlation_id=5, client_id="1")
    assert written == heartbeat(0)


@pytest.fixture
def quorum(lab):
    """The lab with controllers 100 and 101 beside its brokers."""
    for controller in (100, 101):
        lab.addresses[controller] = lab.links.add_controller(controller, lab.server.address)
    return lab


def test_the_heartbeats_of_one_broker_are_held_and_those_of_another_pass(quorum):
    hold = quorum.links.hold(Hold(name="silent", api="BrokerHeartbeat", source=1))
    client = quorum.connect(quorum.addresses[100])
    client.send(heartbeat(1))
    hold.await_held(timeout_s=10, waiting_for="a heartbeat of broker 1")
    assert [record.target for record in hold.held] == [100]
    other = quorum.connect(quorum.addresses[101])
    body = struct.pack(">iqq??", 2, 30, 77, False, False) + NO_TAGS
    sent = flexible(63, 1, body, client_id=b"2")
    other.send(sent)
    passed = quorum.links.await_record(
        lambda record: record.source == 2, 10, "the heartbeat of broker 2", since=1
    )
    assert (passed.fate, passed.api_key) == ("passed", ApiKey.BROKER_HEARTBEAT)
    hold.release()


FETCHES = frozenset({ApiKey.FETCH})


def test_a_fetch_of_the_metadata_log_is_held_only_where_that_is_meant():
    message = read(metadata_fetch(18), target=100)
    partition = ("__cluster_metadata", 0)
    meant = [
        Match(api_keys=FETCHES, source=2, partition=partition),
        Match(api_keys=FETCHES, source=2, target=100),
        Match(api_keys=FETCHES, partition=partition),
    ]
    others = [
        Match(api_keys=FETCHES),
        Match(api_keys=FETCHES, source=2),
        Match(api_keys=FETCHES, source=1, partition=partition),
        Match(api_keys=FETCHES, source=2, partition=("t", 0)),
        Match(api_keys=FETCHES, source=2, target=101),
    ]
    assert [match.decides(message) for match in meant] == [True] * len(meant)
    assert [match.decides(message) for match in others] == [False] * len(others)


def test_a_broker_is_cut_from_one_controller_and_reaches_the_other(quorum):
    cut = quorum.links.cut(CutLink(source=1, target=100))
    stuck = quorum.connect(quorum.addresses[100])
    stuck.send(heartbeat(1))
    quorum.links.await_record(
        lambda record: (record.target, record.fate) == (100, "cut"),
        10,
        "a heartbeat at the cut",
        since=1,
    )
    free = quorum.connect(quorum.addresses[101])
    free.send(heartbeat(1))
    quorum.links.await_record(
        lambda record: (record.target, record.fate) == (101, "passed"),
        10,
        "one to controller 101",
        since=1,
    )
    cut.heal()
    quorum.links.await_record(
        lambda record: (record.target, record.fate) == (100, "passed"),
        10,
        "what had waited",
        since=1,
    )


def test_a_rule_about_a_controller_that_is_not_there_is_refused():
    with Links() as links, pytest.raises(RuleRefused, match="broker 100 has no link"):
        links.cut(CutLink(source=100, target=101))


# -- Names of topic ids that no control request tells --

TOPIC_ID = bytes(range(16))


def test_an_unknown_topic_id_is_asked_for_until_it_has_a_name():
    names, asked = TopicNames(), []
    answers = iter((None, "t"))

    def ask(topic_id: str) -> str | None:
        asked.append(topic_id)
        return next(answers)

    names.ask = ask
    assert [names.name_of(TOPIC_ID) for _ in range(3)] == [None, "t", "t"]
    assert asked == ["AAECAwQFBgcICQoLDA0ODw"] * 2


def test_a_name_and_the_id_of_no_topic_are_not_asked_for():
    names = TopicNames()
    names.ask = lambda _topic_id: "wrong"
    assert names.name_of("t") == "t"
    assert names.name_of(bytes(16)) is None
