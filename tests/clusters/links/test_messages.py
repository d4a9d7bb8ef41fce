"""Messages of fetchers and clients as the relay reads them, from a peer's bytes."""

import struct
import threading
from typing import Any

import pytest
from kafka.protocol.consumer import fetch, offsets
from kafka.protocol.producer import transaction

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links import Match
from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.messages import read_response
from kchaos.clusters.links.sessions import FetchSessions
from tests.support.captured import TOPIC_ID, answer_to, read


def encoded(request, version, *, correlation_id=5, client_id="broker-1-fetcher-0"):
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(version=version, header=True, framed=True))


def fetch_request(version, *, session_id=0, session_epoch=0, replica_id=3):
    kinds = fetch.FetchRequest
    partition = kinds.FetchTopic.FetchPartition(
        partition=4,
        current_leader_epoch=6,
        fetch_offset=33,
        last_fetched_epoch=5,
        log_start_offset=2,
        partition_max_bytes=1 << 20,
    )
    return kinds(
        cluster_id="a cluster",
        replica_id=replica_id,
        replica_state=kinds.ReplicaState(replica_id=replica_id, replica_epoch=8),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[kinds.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[
            kinds.ForgottenTopic(topic="u", topic_id=TOPIC_ID, partitions=[1, 2])
        ],
        rack_id="",
    )


def names():
    topics = TopicNames()
    topics.add(TOPIC_ID.bytes, "t")
    return topics


@pytest.mark.parametrize("version", range(18))
def test_a_fetch_request_of_every_version_reads_as_its_peer_wrote_it(version):
    data = encoded(fetch_request(version), version, client_id="ReplicaFetcherThread-0-9")
    message = read(data, topics=names())
    assert message.detail is not None
    (partition,) = message.detail["partitions"]
    assert message.is_readable
    assert (message.source, message.correlation_id) == (3, 5)
    assert message.detail["replica_id"] == 3
    assert message.fetch_offsets == {("t", 4): 33}
    assert (partition["topic"], partition["partition"], partition["fetch_offset"]) == ("t", 4, 33)
    assert partition["current_leader_epoch"] == (6 if version >= 9 else None)
    assert partition["last_fetched_epoch"] == (5 if version >= 12 else None)
    assert partition["log_start_offset"] == (2 if version >= 5 else None)
    assert ("forgotten" in message.detail) == (version >= 7)


def batch(base_offset, last_offset_delta, *, size=70, magic=2, leader_epoch=-1):
    data = bytearray(size)
    # Before magic 2 the checksum is where the epoch is now.
    struct.pack_into(">qii", data, 0, base_offset, size - 12, leader_epoch)
    data[16] = magic
    if magic == 2:
        struct.pack_into(">i", data, 23, last_offset_delta)
    return bytes(data)


RECORDS = (
    batch(10, 4, leader_epoch=2) + batch(15, 0, leader_epoch=3) + batch(16, 3, leader_epoch=4)[:40]
)


def framed_answer(response, version, *, is_flexible):
    body = struct.pack(">i", 5) + (b"\0" if is_flexible else b"") + response.encode(version=version)
    return struct.pack(">i", len(body)) + body


def fetch_response(version, records=RECORDS):
    kinds = fetch.FetchResponse
    parts = kinds.FetchableTopicResponse
    data = parts.PartitionData
    partition = data(
        partition_index=4,
        error_code=0,
        high_watermark=15,
        last_stable_offset=14,
        log_start_offset=1,
        diverging_epoch=data.EpochEndOffset(epoch=3, end_offset=12),
        aborted_transactions=[data.AbortedTransaction(producer_id=7, first_offset=8)],
        preferred_read_replica=-1,
        records=records,
    )
    response = kinds(
        throttle_time_ms=0,
        error_code=0,
        session_id=99,
        responses=[parts(topic="t", topic_id=TOPIC_ID, partitions=[partition])],
    )
    return framed_answer(response, version, is_flexible=version >= 12)


@pytest.mark.parametrize("version", range(18))
def test_a_fetch_response_of_every_version_tells_offsets_and_batches(version):
    request = read(encoded(fetch_request(version), version), topics=names())
    message = answer_to(request, fetch_response(version), names())
    assert message.detail is not None
    (partition,) = message.detail["partitions"]
    wanted = {
        "topic": "t",
        "partition": 4,
        "error_code": 0,
        "high_watermark": 15,
        "log_start_offset": 1 if version >= 5 else None,
        "diverging_epoch": {"epoch": 3, "end_offset": 12} if version >= 12 else None,
        "records_size_bytes": len(RECORDS),
        "base_offset": 10,
        "first_leader_epoch": 2,
        "last_offset": 15,
        "last_leader_epoch": 3,
        "batch_count": 2,
    }
    assert {name: partition[name] for name in wanted} == wanted
    assert message.fetch_offsets == request.fetch_offsets
    assert "is_whole" not in message.detail


def test_of_a_large_fetch_response_the_head_is_read():
    request = read(encoded(fetch_request(11), 11))
    whole = fetch_response(11, records=batch(10, 4) + batch(15, 9, size=100_000))
    message = read_response(
        memoryview(whole)[:300],
        size=len(whole),
        request=request,
        topics=TopicNames(),
        sessions=FetchSessions(),
    )
    assert message.detail is not None
    (partition,) = message.detail["partitions"]
    assert message.detail["is_whole"] is False
    assert (partition["high_watermark"], partition["records_size_bytes"]) == (15, 100_070)
    assert (partition["base_offset"], partition["last_offset"]) == (10, 24)


def test_of_a_large_response_that_is_kept_back_the_rest_is_read_while_it_passes(lab):
    client, server = lab.pair()
    hold = lab.links.hold(Match(direction="response"))
    client.send(encoded(fetch_request(11), 11))
    server.read_frame()
    whole = fetch_response(11, batch(10, 4, size=400_000) + batch(15, 9, leader_epoch=7))
    sending = threading.Thread(target=server.send, args=(whole,))
    sending.start()
    hold.await_held(timeout_s=10, waiting_for="the answer")
    hold.release()
    assert client.read(len(whole)) == whole
    sending.join(10)

    answers = [each for each in lab.links.log() if each.direction == "response"]
    assert [answer.fate for answer in answers] == ["held", "released", "completed"]
    head, _, all_of_it = (answer.detail for answer in answers)
    assert (head["is_whole"], head["partitions"][0]["last_offset"]) == (False, 14)
    assert "is_whole" not in all_of_it
    assert all_of_it["partitions"][0]["rest"] == [[15, 24, 7]]
    assert sum(counts.passed for counts in lab.links.counts().values()) == 3


def test_a_large_response_that_nothing_keeps_back_is_read_whole(lab):
    client, server = lab.pair()
    client.send(encoded(fetch_request(11), 11))
    server.read_frame()
    whole = fetch_response(11, batch(10, 4, size=400_000) + batch(15, 9, leader_epoch=7))
    sending = threading.Thread(target=server.send, args=(whole,))
    sending.start()
    assert client.read(len(whole)) == whole
    sending.join(10)
    (answer,) = (each for each in lab.links.log() if each.direction == "response")
    assert answer.detail["partitions"][0]["last_offset"] == 24


def test_messages_before_magic_2_are_counted_by_their_own_offset():
    request = read(encoded(fetch_request(3), 3))
    records = batch(7, 0, magic=1) + batch(8, 0, magic=1)
    (partition,) = answer_to(request, fetch_response(3, records)).detail["partitions"]
    assert (partition["base_offset"], partition["last_offset"]) == (7, 8)
    assert partition["batch_count"] == 2
    assert (partition["first_leader_epoch"], partition["last_leader_epoch"]) == (None, None)


def test_a_set_that_begins_before_magic_2_has_only_its_last_epoch():
    request = read(encoded(fetch_request(4), 4))
    records = batch(7, 0, magic=1, leader_epoch=99) + batch(8, 1, leader_epoch=6)
    (partition,) = answer_to(request, fetch_response(4, records)).detail["partitions"]
    assert (partition["first_leader_epoch"], partition["last_leader_epoch"]) == (None, 6)
    (empty,) = answer_to(request, fetch_response(4, b"")).detail["partitions"]
    assert "first_leader_epoch" not in empty


@pytest.mark.parametrize("version", range(5))
def test_an_epoch_request_and_its_answer_read_as_their_peer_wrote_them(version):
    kinds = offsets.OffsetForLeaderEpochRequest
    topic = kinds.OffsetForLeaderTopic
    asked = topic.OffsetForLeaderPartition(partition=0, current_leader_epoch=6, leader_epoch=4)
    data = encoded(kinds(replica_id=3, topics=[topic(topic="t", partitions=[asked])]), version)
    request = read(data)
    assert request.source == (3 if version >= 3 else 1), "before version 3 by the client id"
    (partition,) = request.detail["partitions"]
    assert partition["leader_epoch"] == 4
    assert partition["current_leader_epoch"] == (6 if version >= 2 else None)
    kinds = offsets.OffsetForLeaderEpochResponse
    topic = kinds.OffsetForLeaderTopicResult
    told = topic.EpochEndOffset(error_code=0, partition=0, leader_epoch=3, end_offset=17)
    answer = kinds(throttle_time_ms=0, topics=[topic(topic="t", partitions=[told])])
    data = framed_answer(answer, version, is_flexible=version >= 4)
    (partition,) = answer_to(request, data).detail["partitions"]
    assert partition["leader_epoch"] == (3 if version >= 1 else None)
    assert (partition["error_code"], partition["end_offset"]) == (0, 17)


@pytest.mark.parametrize("version", range(10))
def test_a_list_offsets_request_of_every_version_tells_source_and_partitions(version):
    kinds = offsets.ListOffsetsRequest
    topic = kinds.ListOffsetsTopic
    asked = topic.ListOffsetsPartition(
        partition_index=2, current_leader_epoch=6, timestamp=-1, max_num_offsets=1
    )
    request = kinds(replica_id=3, isolation_level=0, topics=[topic(name="t", partitions=[asked])])
    message = read(encoded(request, version))
    assert (message.source, message.fetch_offsets) == (3, {("t", 2): None})
    assert message.detail is not None
    (partition,) = message.detail["partitions"]
    assert (partition["topic"], partition["partition"], partition["timestamp"]) == ("t", 2, -1)
    assert partition["current_leader_epoch"] == (6 if version >= 4 else None)


@pytest.mark.parametrize("version", range(10))
def test_a_list_offsets_response_of_every_version_tells_the_offset(version):
    kinds = offsets.ListOffsetsRequest
    topic = kinds.ListOffsetsTopic
    asked = topic.ListOffsetsPartition(
        partition_index=2, current_leader_epoch=6, timestamp=-2, max_num_offsets=1
    )
    request = kinds(replica_id=3, isolation_level=0, topics=[topic(name="t", partitions=[asked])])
    kinds = offsets.ListOffsetsResponse
    topic = kinds.ListOffsetsTopicResponse
    told = topic.ListOffsetsPartitionResponse(
        partition_index=2,
        error_code=74,
        old_style_offsets=[17],
        timestamp=-1,
        offset=17,
        leader_epoch=5,
    )
    answer = kinds(throttle_time_ms=0, topics=[topic(name="t", partitions=[told])])
    data = framed_answer(answer, version, is_flexible=version >= 6)
    (partition,) = answer_to(read(encoded(request, version)), data).detail["partitions"]
    assert (partition["topic"], partition["partition"], partition["error_code"]) == ("t", 2, 74)
    if version == 0:
        assert partition["offsets"] == [17]
    else:
        assert partition["offset"] == 17
    assert partition["leader_epoch"] == (5 if version >= 4 else None)


@pytest.mark.parametrize(
    ("client_id", "source"),
    [
        ("1", 1),
        ("broker-12-fetcher-0", 12),
        ("broker-3-to-controller-alter-partition-channel-manager", 3),
        ("ReplicaFetcherThread-0-2", None),
        ("consumer-1", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_the_client_id_tells_the_source_where_the_body_does_not(make_request, client_id, source):
    assert read(make_request(1, client_id=client_id.encode())).source == source


def test_a_consumers_fetch_comes_from_no_broker():
    assert read(encoded(fetch_request(11, replica_id=-1), 11, client_id="c")).source is None


def test_an_incremental_fetch_covers_what_its_session_covers():
    sessions, topics = FetchSessions(), names()
    full = read(encoded(fetch_request(11), 11), sessions=sessions)
    read_response(
        memoryview(fetch_response(11)),
        size=len(fetch_response(11)),
        request=full,
        topics=topics,
        sessions=sessions,
    )
    kinds = fetch.FetchRequest
    empty = kinds(
        replica_id=3,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=99,
        session_epoch=1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )
    message = read(encoded(empty, 11), sessions=sessions)
    assert (message.fetch_offsets, message.is_complete) == ({("t", 4): 33}, True)
    elsewhere = read(encoded(empty, 11), sessions=FetchSessions())
    assert (elsewhere.fetch_offsets, elsewhere.is_complete) == ({}, False)


def test_a_topic_id_without_a_name_leaves_the_request_incomplete():
    data = encoded(fetch_request(17), 17)
    message = read(data)
    assert (message.fetch_offsets, message.is_complete) == ({}, False)
    assert message.detail["partitions"][0]["topic_id"] == "AAAAAAAAAAAAAAAAAAASNA"
    assert read(data, topics=names()).is_complete


def test_a_key_is_found_by_kafkas_own_spelling():
    spelled: Any = "OffsetForLeaderEpoch"
    assert ApiKey(spelled) is ApiKey.OFFSET_FOR_LEADER_EPOCH
    with pytest.raises(ValueError, match="NoSuchApi"):
        ApiKey("NoSuchApi")  # type: ignore[arg-type]


def markers_request():
    kind = transaction.WriteTxnMarkersRequest
    marker = kind.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic
    return kind(
        markers=[
            marker(
                producer_id=7,
                producer_epoch=2,
                transaction_result=True,
                topics=[topic(name="t", partition_indexes=[0, 3])],
                coordinator_epoch=5,
            ),
            marker(
                producer_id=8,
                producer_epoch=0,
                transaction_result=False,
                topics=[topic(name="u", partition_indexes=[1])],
                coordinator_epoch=5,
            ),
        ]
    )


@pytest.mark.parametrize("version", range(2))
def test_a_request_for_transaction_markers_names_each_marker_of_each_partition(version):
    data = encoded(markers_request(), version, client_id="broker-1-txn-marker-sender")
    message = read(data)
    commit = {"producer_id": 7, "producer_epoch": 2, "transaction_result": True}
    abort = {"producer_id": 8, "producer_epoch": 0, "transaction_result": False}
    assert message.detail == {
        "partitions": [
            {"topic": "t", "partition": 0, **commit, "coordinator_epoch": 5},
            {"topic": "t", "partition": 3, **commit, "coordinator_epoch": 5},
            {"topic": "u", "partition": 1, **abort, "coordinator_epoch": 5},
        ]
    }
    assert message.source == 1
    assert message.is_complete
    assert set(message.fetch_offsets) == {("t", 0), ("t", 3), ("u", 1)}


@pytest.mark.parametrize("version", range(2))
def test_an_answer_about_transaction_markers_has_an_error_for_each(version):
    request = read(encoded(markers_request(), version))
    kind = transaction.WriteTxnMarkersResponse
    result = kind.WritableTxnMarkerResult
    topic = result.WritableTxnMarkerTopicResult
    partition = topic.WritableTxnMarkerPartitionResult
    response = kind(
        markers=[
            result(
                producer_id=7,
                topics=[topic(name="t", partitions=[partition(partition_index=3, error_code=6)])],
            )
        ]
    )
    data = framed_answer(response, version, is_flexible=version >= 1)
    assert answer_to(request, data).detail == {
        "partitions": [{"topic": "t", "partition": 3, "error_code": 6, "producer_id": 7}]
    }
