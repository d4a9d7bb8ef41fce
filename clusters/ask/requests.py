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
from kchaos.clusters.links.layouts import LAYOUTS, Layout
from kchaos.clusters.links.messages import skip_header_tags
from kchaos.clusters.links.wire import (
    MalformedMessage,
    Reader,
    array,
    compiled,
    decode,
    per_partition,
    plain,
)
from kchaos.clusters.links.writing import encode, text
from kchaos.clusters.system.exchange import NoAnswer, exchange

CLIENT_ID = "kchaos"
_CORRELATION_ID = 1
_TOPIC_ERROR = (plain("topic", "string"), plain("error_code", "int16"))

_METADATA_REQUEST = (array("topics", (plain("topic", "string"),)),)
_METADATA_RESPONSE = (
    array(
        "brokers",
        (
            plain("node_id", "int32"),
            plain("host", "string"),
            plain("port", "int32"),
            plain("rack", "string", 1),
        ),
    ),
    plain("controller_id", "int32", 1),
    array(
        "topics",
        (
            plain("error_code", "int16"),
            plain("topic", "string"),
            plain("is_internal", "bool", 1),
            array(
                "partitions",
                (
                    plain("error_code", "int16"),
                    plain("partition", "int32"),
                    plain("leader", "int32"),
                    array("replicas", "int32"),
                    array("isr", "int32"),
                ),
            ),
        ),
    ),
)

_FIND_COORDINATOR_REQUEST = (plain("key", "string"), plain("key_type", "int8", 1))
_FIND_COORDINATOR_RESPONSE = (
    plain("throttle_time_ms", "int32", 1),
    plain("error_code", "int16"),
    plain("error_message", "string", 1),
    plain("node_id", "int32"),
    plain("host", "string"),
    plain("port", "int32"),
)

_OFFSET_COMMIT_REQUEST = (
    plain("group", "string"),
    plain("generation", "int32"),
    plain("member_id", "string"),
    plain("group_instance_id", "string", 7),
    per_partition(
        plain("partition", "int32"),
        plain("offset", "int64"),
        plain("leader_epoch", "int32", 6),
        plain("metadata", "string"),
    ),
)
_OFFSET_COMMIT_RESPONSE = (
    plain("throttle_time_ms", "int32", 3),
    per_partition(plain("partition", "int32"), plain("error_code", "int16")),
)

_CREATE_TOPICS_REQUEST = (
    array(
        "topics",
        (
            plain("topic", "string"),
            plain("num_partitions", "int32"),
            plain("replication_factor", "int16"),
            array("assignments", (plain("partition", "int32"), array("replicas", "int32"))),
            array("configs", (plain("name", "string"), plain("value", "string"))),
        ),
    ),
    plain("timeout_ms", "int32"),
    plain("validate_only", "bool", 1),
)
_CREATE_TOPICS_RESPONSE = (
    plain("throttle_time_ms", "int32", 2),
    array(
        "topics",
        (
            *_TOPIC_ERROR,
            plain("error_message", "string", 1),
            plain("num_partitions", "int32", 5),
            plain("replication_factor", "int16", 5),
            array(
                "configs",
                (
                    plain("name", "string"),
                    plain("value", "string"),
                    plain("is_read_only", "bool"),
                    plain("source", "int8"),
                    plain("is_sensitive", "bool"),
                ),
                5,
            ),
        ),
    ),
)

_DELETE_TOPICS_REQUEST = (array("topic_names", "string"), plain("timeout_ms", "int32"))
_DELETE_TOPICS_RESPONSE = (
    plain("throttle_time_ms", "int32", 1),
    array("topics", (*_TOPIC_ERROR, plain("error_message", "string", 5))),
)

_DELETE_RECORDS_REQUEST = (
    per_partition(plain("partition", "int32"), plain("offset", "int64")),
    plain("timeout_ms", "int32"),
)
_DELETE_RECORDS_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    per_partition(
        plain("partition", "int32"), plain("low_watermark", "int64"), plain("error_code", "int16")
    ),
)

_INCREMENTAL_ALTER_CONFIGS_REQUEST = (
    array(
        "resources",
        (
            plain("type", "int8"),
            plain("name", "string"),
            array(
                "configs",
                (plain("name", "string"), plain("operation", "int8"), plain("value", "string")),
            ),
        ),
    ),
    plain("validate_only", "bool"),
)
_INCREMENTAL_ALTER_CONFIGS_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    array(
        "resources",
        (
            plain("error_code", "int16"),
            plain("error_message", "string"),
            plain("type", "int8"),
            plain("name", "string"),
        ),
    ),
)

_ALTER_PARTITION_REASSIGNMENTS_REQUEST = (
    plain("timeout_ms", "int32"),
    per_partition(plain("partition", "int32"), array("replicas", "int32")),
)
_ALTER_PARTITION_REASSIGNMENTS_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("error_message", "string"),
    per_partition(
        plain("partition", "int32"), plain("error_code", "int16"), plain("error_message", "string")
    ),
)

REQUESTS: Mapping[ApiKey, Layout] = {
    ApiKey.PRODUCE: CLIENT_LAYOUTS[ApiKey.PRODUCE],
    ApiKey.FETCH: LAYOUTS[ApiKey.FETCH],
    ApiKey.LIST_OFFSETS: LAYOUTS[ApiKey.LIST_OFFSETS],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: LAYOUTS[ApiKey.OFFSET_FOR_LEADER_EPOCH],
    ApiKey.ELECT_LEADERS: LAYOUTS[ApiKey.ELECT_LEADERS],
    ApiKey.METADATA: Layout(
        newest=1, flexible_since=9, request=_METADATA_REQUEST, response=_METADATA_RESPONSE
    ),
    ApiKey.INIT_PRODUCER_ID: CLIENT_LAYOUTS[ApiKey.INIT_PRODUCER_ID],
    ApiKey.ADD_PARTITIONS_TO_TXN: CLIENT_LAYOUTS[ApiKey.ADD_PARTITIONS_TO_TXN],
    ApiKey.END_TXN: CLIENT_LAYOUTS[ApiKey.END_TXN],
    ApiKey.FIND_COORDINATOR: Layout(
        newest=1,
        flexible_since=3,
        request=_FIND_COORDINATOR_REQUEST,
        response=_FIND_COORDINATOR_RESPONSE,
    ),
    ApiKey.OFFSET_COMMIT: Layout(
        newest=7, flexible_since=8, request=_OFFSET_COMMIT_REQUEST, response=_OFFSET_COMMIT_RESPONSE
    ),
    ApiKey.CREATE_TOPICS: Layout(
        newest=5, flexible_since=5, request=_CREATE_TOPICS_REQUEST, response=_CREATE_TOPICS_RESPONSE
    ),
    ApiKey.DELETE_TOPICS: Layout(
        newest=5, flexible_since=4, request=_DELETE_TOPICS_REQUEST, response=_DELETE_TOPICS_RESPONSE
    ),
    ApiKey.DELETE_RECORDS: Layout(
        newest=1,
        flexible_since=2,
        request=_DELETE_RECORDS_REQUEST,
        response=_DELETE_RECORDS_RESPONSE,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Layout(
        newest=1,
        flexible_since=1,
        request=_INCREMENTAL_ALTER_CONFIGS_REQUEST,
        response=_INCREMENTAL_ALTER_CONFIGS_RESPONSE,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Layout(
        newest=0,
        flexible_since=0,
        request=_ALTER_PARTITION_REASSIGNMENTS_REQUEST,
        response=_ALTER_PARTITION_REASSIGNMENTS_RESPONSE,
    ),
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
