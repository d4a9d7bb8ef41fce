"""Control requests and their answers as the relay reads them, from real brokers' bytes."""

import struct

import pytest

from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.wire import MalformedMessage
from tests.support.captured import CAPTURED, answer_to, captured, name_of, read, read_entry


@pytest.mark.parametrize("entry", captured("LEADER_AND_ISR", "request"), ids=name_of)
def test_leader_and_isr_of_every_version_tells_the_leader_epoch_and_isr(entry):
    message = read_entry(entry)
    (partition,) = message.detail["partitions"]
    assert message.source == message.detail["controller_id"] == 2
    assert message.detail["controller_epoch"] == 1
    assert ("broker_epoch" in message.detail) == (entry["version"] >= 2)
    wanted = {"topic": "t", "partition": 0, "leader": 0, "isr": [0, 1], "replicas": [0, 1]}
    assert {name: partition[name] for name in wanted} == wanted
    assert (partition["leader_epoch"], partition["partition_epoch"]) == (0, 0)
    assert partition["is_new"] is (None if entry["version"] == 0 else True)
    assert message.fetch_offsets == {("t", 0): None}
    assert message.is_complete


def test_the_captured_control_requests_are_of_every_version():
    versions = {
        api: sorted(entry["version"] for entry in captured(api, "request"))
        for api in ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN")
    }
    assert versions == {
        "LEADER_AND_ISR": [0, 1, 2, 3, 4, 5, 6, 7],
        "STOP_REPLICA": [0, 1, 2, 3, 4],
        "UPDATE_METADATA": [0, 1, 2, 3, 4, 5, 6, 7, 8],
        "CONTROLLED_SHUTDOWN": [0, 1, 2, 3],
    }


@pytest.mark.parametrize("entry", captured("STOP_REPLICA", "request"), ids=name_of)
def test_stop_replica_of_every_version_tells_its_partitions(entry):
    message = read_entry(entry)
    assert message.source == 2
    assert message.fetch_offsets == {("t", 0): None}
    partition = message.detail["partitions"][0]
    assert (message.detail | partition)[
        "delete_partitions" if entry["version"] < 3 else "delete_partition"
    ] is False


@pytest.mark.parametrize("entry", captured("UPDATE_METADATA", "request"), ids=name_of)
def test_update_metadata_of_every_version_tells_its_partitions_and_the_live_brokers(entry):
    message = read_entry(entry)
    assert (message.source, message.detail["partitions"][0]["isr"]) == (2, [0, 1])
    assert message.fetch_offsets == {("t", 0): None}
    assert sorted(message.detail["live_brokers"]) == [0, 1, 2]
    assert ("broker_epoch" in message.detail) == (entry["version"] >= 5)
    assert message.is_complete


def text(value):
    return struct.pack(">h", len(value)) + value


@pytest.mark.parametrize("version", range(3))
def test_the_live_brokers_of_update_metadata_are_told_as_brokers_before_0_10_2_wrote_them(
    make_request, version
):
    place = text(b"a-host") + struct.pack(">i", 9092)
    if version > 0:
        place = struct.pack(">ii", 1, 9092) + text(b"a-host") + struct.pack(">h", 0)
    if version > 1:
        place += struct.pack(">h", -1)
    live = b"".join(struct.pack(">i", broker) + place for broker in (4, 7))
    body = struct.pack(">iiii", 2, 1, 0, 2) + live
    message = read(make_request(1, client_id=b"2", api_key=6, version=version, body=body))
    assert message.detail == {
        "controller_id": 2,
        "controller_epoch": 1,
        "live_brokers": [4, 7],
        "partitions": [],
    }


@pytest.mark.parametrize("entry", captured("CONTROLLED_SHUTDOWN", "request"), ids=name_of)
def test_a_controlled_shutdown_comes_from_the_broker_that_it_names(entry):
    message = read_entry(entry)
    assert (message.source, message.fetch_offsets, message.is_complete) == (
        entry["source"],
        {},
        True,
    )


@pytest.mark.parametrize("entry", captured("ALTER_PARTITION", "request"), ids=name_of)
def test_alter_partition_tells_the_isr_that_a_leader_asks_for(entry):
    message = read_entry(entry)
    (partition,) = message.detail["partitions"]
    assert (message.source, partition["leader_epoch"], partition["partition_epoch"]) == (0, 1, 1)
    if entry["version"] == 0:
        assert (partition["topic"], partition["new_isr"]) == ("t", [0, 1])
    else:
        ids = [state["broker_id"] for state in partition["new_isr_with_epochs"]]
        assert (partition["topic"], ids) == (None, [0, 1])
        assert (message.fetch_offsets, message.is_complete) == ({}, False)


@pytest.mark.parametrize(
    "entry",
    captured("LEADER_AND_ISR", "response")
    + captured("STOP_REPLICA", "response")
    + captured("CONTROLLED_SHUTDOWN", "response")
    + captured("ALTER_PARTITION", "response"),
    ids=lambda entry: f"{entry['api']}-{name_of(entry)}",
)
def test_the_answers_to_control_requests_tell_their_errors(entry):
    (asked,) = captured(entry["api"], "request", entry["version"])
    message = answer_to(read_entry(asked), bytes.fromhex(entry["hex"]))
    assert message.detail["error_code"] == 0
    assert all(each["error_code"] == 0 for each in message.detail.get("partitions", []))


@pytest.mark.parametrize("entry", captured("ALTER_PARTITION", "response"), ids=name_of)
def test_the_answer_to_alter_partition_tells_the_isr_that_the_controller_wrote(entry):
    (asked,) = captured("ALTER_PARTITION", "request", entry["version"])
    message = answer_to(read_entry(asked), bytes.fromhex(entry["hex"]))
    (partition,) = message.detail["partitions"]
    wanted = {"leader": 0, "leader_epoch": 1, "isr": [0, 1], "error_code": 0, "partition_epoch": 2}
    assert {name: partition[name] for name in wanted} == wanted


@pytest.mark.parametrize("entry", captured("CONTROLLED_SHUTDOWN", "response"), ids=name_of)
def test_the_answer_to_a_controlled_shutdown_tells_what_the_broker_still_leads(entry):
    (asked,) = captured("CONTROLLED_SHUTDOWN", "request", entry["version"])
    request, answer = read_entry(asked), bytes.fromhex(entry["hex"])
    assert answer_to(request, answer).detail == {"error_code": 0, "partitions": []}
    if entry["version"] == 3:
        return
    left = answer[:-4] + struct.pack(">i", 1) + text(b"t") + struct.pack(">i", 5)
    left = struct.pack(">i", len(left) - 4) + left[4:]
    assert answer_to(request, left).detail["partitions"] == [{"topic": "t", "partition": 5}]


def test_control_requests_teach_the_names_of_topic_ids():
    topics = TopicNames()
    (asked,) = captured("LEADER_AND_ISR", "request", 7)
    (answer,) = captured("LEADER_AND_ISR", "response", 7)
    request = read(bytes.fromhex(asked["hex"]), topics=topics)
    message = answer_to(request, bytes.fromhex(answer["hex"]), topics)
    assert [each["topic"] for each in message.detail["partitions"]] == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", CAPTURED, ids=lambda e: f"{e['api']}-{e['direction']}-{name_of(e)}"
)
def test_no_damage_to_a_real_message_raises_anything_but_malformed(entry):
    good = bytes.fromhex(entry["hex"])
    (asked,) = captured(entry["api"], "request", entry["version"])
    for position in range(4, len(good)):
        for value in (0x00, 0x7F, 0xFF):
            bad = good[:position] + bytes([value]) + good[position + 1 :]
            for data in (bad, good[:position]):
                try:
                    if entry["direction"] == "request":
                        read(data)
                    else:
                        answer_to(read_entry(asked), data)
                except MalformedMessage:
                    continue
