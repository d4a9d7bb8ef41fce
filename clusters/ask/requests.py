"""Requests that kchaos sends as a client: by API and values, and the answer's values.

The messages are written and read by layout tables, those of the links where links read them too, so
that no version of a client library binds whoever uses kchaos beside it.

Source of the tables here: the message definitions of Kafka 3.8.0.
"""

import struct
from collections.abc import Mapping
from typing import Any

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.client_layouts import CLIENT_LAYOUTS
from kchaos.clusters.links.layout import Layout, layouts
from kchaos.clusters.links.layouts import LAYOUTS
from kchaos.clusters.links.messages import skip_header_tags
from kchaos.clusters.links.wire import MalformedMessage, Reader, compiled, decode
from kchaos.clusters.links.writing import encode, text
from kchaos.clusters.system.exchange import NoAnswer, exchange

CLIENT_ID = "kchaos"
_CORRELATION_ID = 1

REQUESTS: Mapping[int, Layout] = {
    **CLIENT_LAYOUTS,
    **{
        key: LAYOUTS[key]
        for key in (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ELECT_LEADERS)
    },
    **layouts("""
METADATA newest 1, flexible 9
    request: topics [](topic string)
    response:
        brokers [](node_id int32, host string, port int32, rack string 1+),
        controller_id int32 1+, topics [](
            error_code int16, topic string, is_internal bool 1+, partitions [](
                error_code int16, partition int32, leader int32, replicas []int32, isr []int32))
FIND_COORDINATOR newest 1, flexible 3
    request: key string, key_type int8 1+
    response:
        throttle_time_ms int32 1+, error_code int16, error_message string 1+, node_id int32,
        host string, port int32
OFFSET_COMMIT newest 7, flexible 8
    request:
        group string, generation int32, member_id string, group_instance_id string 7+, topics [](
            topic string,
            partitions [](partition int32, offset int64, leader_epoch int32 6+, metadata string))
    response:
        throttle_time_ms int32 3+,
        topics [](topic string, partitions [](partition int32, error_code int16))
CREATE_TOPICS newest 5, flexible 5
    request:
        topics [](
            topic string, num_partitions int32, replication_factor int16,
            assignments [](partition int32, replicas []int32),
            configs [](name string, value string)),
        timeout_ms int32, validate_only bool 1+
    response:
        throttle_time_ms int32 2+, topics [](
            topic string, error_code int16, error_message string 1+, num_partitions int32 5+,
            replication_factor int16 5+, configs [] 5+ (
                name string, value string, is_read_only bool, source int8, is_sensitive bool))
DELETE_TOPICS newest 5, flexible 4
    request: topic_names []string, timeout_ms int32
    response:
        throttle_time_ms int32 1+,
        topics [](topic string, error_code int16, error_message string 5+)
DELETE_RECORDS newest 1, flexible 2
    request:
        topics [](topic string, partitions [](partition int32, offset int64)), timeout_ms int32
    response:
        throttle_time_ms int32, topics [](
            topic string, partitions [](partition int32, low_watermark int64, error_code int16))
INCREMENTAL_ALTER_CONFIGS newest 1, flexible 1
    request:
        resources [](
            type int8, name string, configs [](name string, operation int8, value string)),
        validate_only bool
    response:
        throttle_time_ms int32,
        resources [](error_code int16, error_message string, type int8, name string)
ALTER_REPLICA_LOG_DIRS newest 1, flexible 2
    request: directories [](path string, topics [](topic string, partitions []int32))
    response:
        throttle_time_ms int32,
        topics [](topic string, partitions [](partition int32, error_code int16))
CREATE_PARTITIONS newest 1, flexible 2
    request:
        topics [](topic string, count int32, assignments [](broker_ids []int32)),
        timeout_ms int32, validate_only bool
    response:
        throttle_time_ms int32,
        results [](topic string, error_code int16, error_message string)
UPDATE_FEATURES newest 1, flexible 0
    request:
        timeout_ms int32,
        feature_updates [](feature string, max_version_level int16, upgrade_type int8 1+),
        validate_only bool 1+
    response:
        throttle_time_ms int32, error_code int16, error_message string,
        results [](feature string, error_code int16, error_message string)
ALTER_PARTITION_REASSIGNMENTS newest 0, flexible 0
    request:
        timeout_ms int32,
        topics [](topic string, partitions [](partition int32, replicas []int32))
    response:
        throttle_time_ms int32, error_code int16, error_message string, topics [](
            topic string, partitions [](partition int32, error_code int16, error_message string))
ADD_RAFT_VOTER newest 0, flexible 0
    request:
        cluster_id string, timeout_ms int32, voter_id int32, voter_directory_id uuid,
        listeners [](name string, host string, port uint16)
    response: throttle_time_ms int32, error_code int16, error_message string
REMOVE_RAFT_VOTER newest 0, flexible 0
    request: cluster_id string, voter_id int32, voter_directory_id uuid
    response: throttle_time_ms int32, error_code int16, error_message string
"""),
}
"""APIs that kchaos sends, each with the newest version that is written here."""


def send(
    address: str, api: ApiKey, values: Mapping[str, Any], *, version: int, timeout_s: float
) -> dict[str, Any]:
    """Send one request, and return the fields of its response by their layout's names.

    `address` is the broker's client listener, "host:port". `values` are in the form of
    `wire.decode`. `timeout_s` is for connecting, and again for each read.

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It accepted, and did not answer in time, closed the connection, or answered what
            makes no sense.
    """
    body = exchange(address, request_frame(api, values, version=version), timeout_s=timeout_s)
    try:
        return answer_values(api, body, version=version)
    except MalformedMessage as error:
        raise NoAnswer(f"the answer of {address} makes no sense: {error}") from error


def request_frame(api: ApiKey, values: Mapping[str, Any], *, version: int) -> bytes:
    """Return a request in a frame, as bytes."""
    layout = REQUESTS[api]
    is_flexible = version >= layout.flexible_since
    header = struct.pack(">hhi", api, version, _CORRELATION_ID) + text(CLIENT_ID)
    if is_flexible:
        header += b"\x00"
    body = encode(layout.request, version, values, flexible=is_flexible)
    return struct.pack(">i", len(header) + len(body)) + header + body


def answer_values(api: ApiKey, body: bytes, *, version: int) -> dict[str, Any]:
    """Return the fields of a response from its bytes, without their size.

    Raises:
        MalformedMessage: They are no such answer.
    """
    layout = REQUESTS[api]
    is_flexible = version >= layout.flexible_since
    reader = Reader(view=memoryview(body), position=0, size=len(body))
    reader.take(4)
    skip_header_tags(reader, is_flexible=is_flexible)
    values, is_whole = decode(compiled(layout.response, version, flexible=is_flexible), reader)
    if not is_whole:
        raise MalformedMessage("it ends early")
    return values
