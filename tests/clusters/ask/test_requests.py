"""Requests that kchaos sends: every byte as a peer writes it, every answer as a peer says it.

The peer is kafka-python 3, which makes its messages of Kafka's own definitions.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from kafka.protocol import admin, consumer, metadata, producer

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.ask.client import batches_in, fetch_request
from kchaos.clusters.ask.requests import CLIENT_ID, REQUESTS, answer_values, request_frame
from kchaos.clusters.links.wire import MalformedMessage

RECORDS = bytes(range(256)) * 3


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One API: what is sent, ours and the peer's, and an answer, the peer's and as we read it."""

    versions: tuple[int, ...]
    values: Mapping[str, Any]
    request: Any
    answer: Any
    said: Mapping[str, Any]


def _produce() -> Peer:
    topics, answered = producer.ProduceRequest.TopicProduceData, producer.ProduceResponse
    told = answered.TopicProduceResponse
    batch = topics.PartitionProduceData(index=4, records=RECORDS)
    result = told.PartitionProduceResponse(index=4, error_code=19, base_offset=77)
    return Peer(
        versions=(2, 3),
        values={
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 500,
            "topics": [{"topic": "t", "partitions": [{"partition": 4, "records": RECORDS}]}],
        },
        request=producer.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=500,
            topic_data=[topics(name="t", partition_data=[batch])],
        ),
        answer=answered(responses=[told(name="t", partition_responses=[result])]),
        said={"partition": 4, "error_code": 19, "base_offset": 77},
    )


def _fetch() -> Peer:
    topics, answered = consumer.FetchRequest.FetchTopic, consumer.FetchResponse
    told = answered.FetchableTopicResponse
    wanted = topics.FetchPartition(
        partition=4,
        current_leader_epoch=6,
        fetch_offset=33,
        last_fetched_epoch=5,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    result = told.PartitionData(partition_index=4, error_code=0, high_watermark=90, records=RECORDS)
    return Peer(
        versions=(0, 1, 2, 3, 4, 10, 11, 12),
        values=fetch_request(
            "t",
            4,
            offset=33,
            max_wait_ms=7,
            most_bytes=1 << 20,
            leader_epoch=6,
            last_fetched_epoch=5,
        ),
        request=consumer.FetchRequest(
            replica_id=-1,
            max_wait_ms=7,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topics(topic="t", partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id="",
        ),
        answer=answered(responses=[told(topic="t", partitions=[result])]),
        said={"partition": 4, "error_code": 0, "high_watermark": 90},
    )


def _list_offsets() -> Peer:
    topics, answered = consumer.ListOffsetsRequest.ListOffsetsTopic, consumer.ListOffsetsResponse
    told = answered.ListOffsetsTopicResponse
    wanted = topics.ListOffsetsPartition(partition_index=4, current_leader_epoch=6, timestamp=-2)
    result = told.ListOffsetsPartitionResponse(
        partition_index=4, error_code=0, timestamp=-1, offset=12, leader_epoch=3
    )
    return Peer(
        versions=(4, 5, 6, 8, 9),
        values={
            "replica_id": -2,
            "isolation_level": 0,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 4, "current_leader_epoch": 6, "timestamp": -2}],
                }
            ],
        },
        request=consumer.ListOffsetsRequest(
            replica_id=-2, isolation_level=0, topics=[topics(name="t", partitions=[wanted])]
        ),
        answer=answered(topics=[told(name="t", partitions=[result])]),
        said={"partition": 4, "error_code": 0, "offset": 12, "leader_epoch": 3},
    )


def _end_offset() -> Peer:
    asked, answered = consumer.OffsetForLeaderEpochRequest, consumer.OffsetForLeaderEpochResponse
    wanted = asked.OffsetForLeaderTopic.OffsetForLeaderPartition(
        partition=4, current_leader_epoch=-1, leader_epoch=3
    )
    told = answered.OffsetForLeaderTopicResult
    result = told.EpochEndOffset(error_code=0, partition=4, leader_epoch=2, end_offset=11)
    return Peer(
        versions=(3,),
        values={
            "replica_id": -1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 4, "current_leader_epoch": -1, "leader_epoch": 3}],
                }
            ],
        },
        request=asked(
            replica_id=-1, topics=[asked.OffsetForLeaderTopic(topic="t", partitions=[wanted])]
        ),
        answer=answered(topics=[told(topic="t", partitions=[result])]),
        said={"partition": 4, "error_code": 0, "leader_epoch": 2, "end_offset": 11},
    )


def _offset_commit() -> Peer:
    topics = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
    told = consumer.OffsetCommitResponse.OffsetCommitResponseTopic
    position = topics.OffsetCommitRequestPartition(
        partition_index=4, committed_offset=9, committed_leader_epoch=2, committed_metadata=""
    )
    result = told.OffsetCommitResponsePartition(partition_index=4, error_code=25)
    return Peer(
        versions=(7,),
        values={
            "group": "g",
            "generation": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {"partition": 4, "offset": 9, "leader_epoch": 2, "metadata": ""}
                    ],
                }
            ],
        },
        request=consumer.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[topics(name="t", partitions=[position])],
        ),
        answer=consumer.OffsetCommitResponse(topics=[told(name="t", partitions=[result])]),
        said={"partition": 4, "error_code": 25},
    )


def _delete_records() -> Peer:
    topics, answered = admin.DeleteRecordsRequest.DeleteRecordsTopic, admin.DeleteRecordsResponse
    told = answered.DeleteRecordsTopicResult
    wanted = topics.DeleteRecordsPartition(partition_index=4, offset=9)
    result = told.DeleteRecordsPartitionResult(partition_index=4, low_watermark=9, error_code=0)
    return Peer(
        versions=(0,),
        values={
            "topics": [{"topic": "t", "partitions": [{"partition": 4, "offset": 9}]}],
            "timeout_ms": 500,
        },
        request=admin.DeleteRecordsRequest(
            topics=[topics(name="t", partitions=[wanted])], timeout_ms=500
        ),
        answer=answered(topics=[told(name="t", partitions=[result])]),
        said={"partition": 4, "low_watermark": 9, "error_code": 0},
    )


def _elect_leaders() -> Peer:
    topics, told = (
        admin.ElectLeadersRequest.TopicPartitions,
        admin.ElectLeadersResponse.ReplicaElectionResult,
    )
    result = told.PartitionResult(partition_id=4, error_code=84, error_message="no need")
    return Peer(
        versions=(0, 1, 2),
        values={
            "election_type": 0,
            "topics": [{"topic": "t", "partitions": [4]}],
            "timeout_ms": 500,
        },
        request=admin.ElectLeadersRequest(
            election_type=0, topic_partitions=[topics(topic="t", partitions=[4])], timeout_ms=500
        ),
        answer=admin.ElectLeadersResponse(
            error_code=0, replica_election_results=[told(topic="t", partition_result=[result])]
        ),
        said={"partition": 4, "error_code": 84, "error_message": "no need"},
    )


def _reassign() -> Peer:
    asked, answered = (
        admin.AlterPartitionReassignmentsRequest,
        admin.AlterPartitionReassignmentsResponse,
    )
    told = answered.ReassignableTopicResponse
    wanted = asked.ReassignableTopic.ReassignablePartition(partition_index=4, replicas=[2, 0])
    result = told.ReassignablePartitionResponse(
        partition_index=4, error_code=39, error_message="no such broker"
    )
    return Peer(
        versions=(0,),
        values={
            "timeout_ms": 500,
            "topics": [{"topic": "t", "partitions": [{"partition": 4, "replicas": [2, 0]}]}],
        },
        request=asked(
            timeout_ms=500, topics=[asked.ReassignableTopic(name="t", partitions=[wanted])]
        ),
        answer=answered(error_code=0, responses=[told(name="t", partitions=[result])]),
        said={"partition": 4, "error_code": 39, "error_message": "no such broker"},
    )


PEERS = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _end_offset,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
}


def asked_by_peer(request: Any, version: int) -> bytes:
    request.with_header(correlation_id=1, client_id=CLIENT_ID)
    return bytes(request.encode(version=version, header=True, framed=True))


def answered_by_peer(api: ApiKey, answer: Any, version: int) -> bytes:
    header = struct.pack(">i", 1) + (b"\x00" if version >= REQUESTS[api].flexible_since else b"")
    return header + bytes(answer.encode(version=version, header=False))


def said_by_peer(api: ApiKey, answer: Any, version: int) -> dict[str, Any]:
    """What an answer of the peer says, as it is read here."""
    return answer_values(api, answered_by_peer(api, answer, version), version=version)


@pytest.mark.parametrize("api", PEERS, ids=lambda api: api.spelled)
def test_a_request_is_written_as_its_peer_writes_it(api: ApiKey):
    peer = PEERS[api]()
    for version in peer.versions:
        written = request_frame(api, peer.values, version=version)
        assert written == asked_by_peer(peer.request, version), version


@pytest.mark.parametrize("api", PEERS, ids=lambda api: api.spelled)
def test_an_answer_says_what_its_peer_wrote(api: ApiKey):
    peer = PEERS[api]()
    for version in peer.versions:
        body = answered_by_peer(api, peer.answer, version)

        values = answer_values(api, body, version=version)

        (topic,) = values["topics"]
        (partition,) = topic["partitions"]
        assert topic["topic"] == "t", version
        assert {name: partition[name] for name in peer.said} == peer.said, version
        if api is ApiKey.FETCH:
            assert batches_in(partition) == RECORDS, version
        with pytest.raises(MalformedMessage):
            answer_values(api, body[: len(body) // 2], version=version)


def test_a_topic_is_made_and_deleted_by_the_bytes_of_the_peer():
    topics = admin.CreateTopicsRequest.CreatableTopic
    made = {
        "topic": "t",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition": 0, "replicas": [1, 0]}],
        "configs": [{"name": "min.insync.replicas", "value": "2"}],
    }
    peer = topics(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 0])],
        configs=[topics.CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    values = {"topics": [made], "timeout_ms": 500, "validate_only": False}
    assert request_frame(ApiKey.CREATE_TOPICS, values, version=5) == asked_by_peer(
        admin.CreateTopicsRequest(topics=[peer], timeout_ms=500), 5
    )
    answer = admin.CreateTopicsResponse
    told = answer.CreatableTopicResult
    setting = told.CreatableTopicConfigs(
        name="a", value=None, read_only=False, config_source=1, is_sensitive=False
    )
    result = told(name="t", error_code=36, error_message="it exists", configs=[setting])
    said = said_by_peer(ApiKey.CREATE_TOPICS, answer(topics=[result]), 5)
    assert said["topics"][0]["error_message"] == "it exists"
    assert said["topics"][0]["error_code"] == 36

    gone = {"topic_names": ["t"], "timeout_ms": 500}
    assert request_frame(ApiKey.DELETE_TOPICS, gone, version=5) == asked_by_peer(
        admin.DeleteTopicsRequest(topic_names=["t"], timeout_ms=500), 5
    )
    results = admin.DeleteTopicsResponse
    refused = results.DeletableTopicResult(name="t", error_code=3, error_message="there is none")
    said = said_by_peer(ApiKey.DELETE_TOPICS, results(responses=[refused]), 5)
    assert said["topics"] == [{"topic": "t", "error_code": 3, "error_message": "there is none"}]


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_changed_by_the_bytes_of_the_peer(version: int):
    resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(name="a", config_operation=1, value=None)
    peer = admin.IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=2, resource_name="t", configs=[change])],
        validate_only=False,
    )
    deleted = {"name": "a", "operation": 1, "value": None}
    values = {"resources": [{"type": 2, "name": "t", "configs": [deleted]}], "validate_only": False}
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert request_frame(api, values, version=version) == asked_by_peer(peer, version)

    answer = admin.IncrementalAlterConfigsResponse
    told = answer.AlterConfigsResourceResponse(
        error_code=40, error_message="no", resource_type=2, resource_name="t"
    )
    said = said_by_peer(api, answer(responses=[told]), version)
    assert said["resources"] == [{"error_code": 40, "error_message": "no", "type": 2, "name": "t"}]


def test_metadata_is_asked_for_and_read_as_the_peer_has_it():
    topics, answer = metadata.MetadataRequest.MetadataRequestTopic, metadata.MetadataResponse
    values = {"topics": [{"topic": "t"}]}
    assert request_frame(ApiKey.METADATA, values, version=1) == asked_by_peer(
        metadata.MetadataRequest(topics=[topics(name="t")]), 1
    )
    broker = answer.MetadataResponseBroker(node_id=3, host="h", port=9, rack=None)
    told = answer.MetadataResponseTopic
    partition = told.MetadataResponsePartition(
        error_code=0, partition_index=4, leader_id=3, replica_nodes=[3, 1], isr_nodes=[3]
    )
    topic = told(error_code=0, name="t", is_internal=False, partitions=[partition])
    said = said_by_peer(
        ApiKey.METADATA, answer(brokers=[broker], controller_id=3, topics=[topic]), 1
    )
    assert said["brokers"] == [{"node_id": 3, "host": "h", "port": 9, "rack": None}]
    assert said["topics"][0]["partitions"] == [
        {"error_code": 0, "partition": 4, "leader": 3, "replicas": [3, 1], "isr": [3]}
    ]


def test_a_transaction_is_asked_for_by_the_bytes_of_the_peer():
    kinds = producer.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    of_transaction = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 1}
    added = {"topic": "t", "partitions": [4]}
    peers: list[tuple[ApiKey, int, Mapping[str, Any], Any]] = [
        (
            ApiKey.FIND_COORDINATOR,
            1,
            {"key": "x", "key_type": 1},
            metadata.FindCoordinatorRequest(key="x", key_type=1),
        ),
        (
            ApiKey.INIT_PRODUCER_ID,
            0,
            {"transactional_id": "x", "transaction_timeout_ms": 60_000},
            producer.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000),
        ),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            0,
            of_transaction | {"topics": [added]},
            producer.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=7,
                v3_and_below_producer_epoch=1,
                v3_and_below_topics=[kinds(name="t", partitions=[4])],
            ),
        ),
        (
            ApiKey.END_TXN,
            0,
            of_transaction | {"committed": False},
            producer.EndTxnRequest(
                transactional_id="x", producer_id=7, producer_epoch=1, committed=False
            ),
        ),
    ]
    for api, version, values, peer in peers:
        assert request_frame(api, values, version=version) == asked_by_peer(peer, version)


def test_what_a_transaction_is_answered_is_read_as_the_peer_has_it():
    coordinator = metadata.FindCoordinatorResponse(
        error_code=15, error_message="wait", node_id=3, host="h", port=9
    )
    said = said_by_peer(ApiKey.FIND_COORDINATOR, coordinator, 1)
    assert (said["error_code"], said["node_id"], said["port"]) == (15, 3, 9)
    begun = producer.InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=1)
    said = said_by_peer(ApiKey.INIT_PRODUCER_ID, begun, 0)
    assert (said["producer_id"], said["producer_epoch"]) == (7, 1)
    of_topics = producer.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    result = of_topics.AddPartitionsToTxnPartitionResult(partition_index=4, partition_error_code=51)
    refused = producer.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[of_topics(name="t", results_by_partition=[result])]
    )
    said = said_by_peer(ApiKey.ADD_PARTITIONS_TO_TXN, refused, 0)
    assert said["topics"][0]["partitions"] == [{"partition": 4, "error_code": 51}]
    ended = producer.EndTxnResponse(error_code=51)
    assert said_by_peer(ApiKey.END_TXN, ended, 0)["error_code"] == 51


def test_more_partitions_are_asked_for_by_the_bytes_of_the_peer():
    asked, told = admin.CreatePartitionsRequest, admin.CreatePartitionsResponse
    assigned = asked.CreatePartitionsTopic.CreatePartitionsAssignment(broker_ids=[3, 1])
    topic = asked.CreatePartitionsTopic(name="t", count=2, assignments=[assigned])
    wanted = {"topic": "t", "count": 2, "assignments": [{"broker_ids": [3, 1]}]}
    values = {"topics": [wanted], "timeout_ms": 500, "validate_only": False}
    peer = asked(topics=[topic], timeout_ms=500, validate_only=False)
    result = told.CreatePartitionsTopicResult(name="t", error_code=37, error_message="few")
    for version in (0, 1):
        written = request_frame(ApiKey.CREATE_PARTITIONS, values, version=version)
        assert written == asked_by_peer(peer, version)
        said = said_by_peer(ApiKey.CREATE_PARTITIONS, told(results=[result]), version)["results"]
        assert said == [{"topic": "t", "error_code": 37, "error_message": "few"}]


def test_a_replica_is_moved_by_the_bytes_of_the_peer():
    asked, told = admin.AlterReplicaLogDirsRequest, admin.AlterReplicaLogDirsResponse
    kinds, results = asked.AlterReplicaLogDir, told.AlterReplicaLogDirTopicResult
    moved = kinds.AlterReplicaLogDirTopic(name="t", partitions=[4])
    values = {"directories": [{"path": "/d", "topics": [{"topic": "t", "partitions": [4]}]}]}
    result = results.AlterReplicaLogDirPartitionResult(partition_index=4, error_code=57)
    answer = told(results=[results(topic_name="t", partitions=[result])])
    peer = asked(dirs=[kinds(path="/d", topics=[moved])])
    api = ApiKey.ALTER_REPLICA_LOG_DIRS
    assert request_frame(api, values, version=1) == asked_by_peer(peer, 1)
    said = said_by_peer(api, answer, 1)["topics"]
    assert said[0]["partitions"] == [{"partition": 4, "error_code": 57}]


def test_every_request_has_a_peer_here():
    others = {
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.METADATA,
        ApiKey.UPDATE_FEATURES,
        # Seen by a real controller alone (tests/harness/test_dynamic_quorum.py).
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.END_TXN,
    }
    assert set(REQUESTS) == set(PEERS) | others


def test_feature_levels_are_asked_for_and_refused_as_a_peer_has_it():
    asked, answered = admin.UpdateFeaturesRequest, admin.UpdateFeaturesResponse
    wanted = {"feature": "metadata.version", "max_version_level": 27, "upgrade_type": 1}
    said = {"feature": "metadata.version", "error_code": 96, "error_message": "no"}
    updates = [asked.FeatureUpdateKey(**wanted)]
    request = asked(timeout_ms=500, feature_updates=updates, validate_only=False)
    values = {"timeout_ms": 500, "feature_updates": [wanted], "validate_only": False}
    written = request_frame(ApiKey.UPDATE_FEATURES, values, version=1)
    assert written == asked_by_peer(request, 1)
    answer = answered(error_code=0, results=[answered.UpdatableFeatureResult(**said)])
    assert said_by_peer(ApiKey.UPDATE_FEATURES, answer, 1)["results"] == [said]


def test_an_answer_of_no_message_at_all_is_malformed():
    with pytest.raises(MalformedMessage):
        answer_values(ApiKey.METADATA, struct.pack(">ii", 1, 1 << 30), version=1)
