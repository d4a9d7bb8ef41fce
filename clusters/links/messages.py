"""What one request or response is: who sent it, which partitions it covers, what it says.

Source: ``RequestHeader`` and ``RequestContext`` of Kafka's clients, KIP-482 for flexible headers.
"""

from __future__ import annotations

import re
import struct
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from clusters.links.api_keys import ApiKey
from clusters.links.layouts import LAYOUTS, PARTITION_API_KEYS, Layout
from clusters.links.sessions import FetchSessions, PartitionKey
from clusters.links.wire import (
    BytesEndEarly,
    MalformedMessage,
    Reader,
    Records,
    Step,
    compiled,
    decode,
    read_string,
)

Direction = Literal["request", "response"]
TopicPartition = tuple[str, int]

_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_BATCH_START = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_CLIENT_ID_OF_BROKER = re.compile(r"(\d+)|broker-(\d+)-.*")
_HIGHEST_API_KEY = 255
_MOST_BATCHES = 10_000
# Requests that name partitions in a body that this module does not read.
_UNREAD_PARTITIONS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.DELETE_RECORDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ELECT_LEADERS,
        ApiKey.ENVELOPE,
    }
)
_LEFT_OUT = frozenset(
    {
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "rack_id",
        "throttle_time_ms",
        "partition_max_bytes",
        "aborted_transactions",
        "preferred_read_replica",
        "topics",
        "ungrouped_partitions",
        "forgotten_topics",
        "replica_state",
    }
)
_ABSENT_IN_OLD_VERSIONS: dict[tuple[int, Direction], tuple[str, ...]] = {
    (ApiKey.FETCH, "request"): ("last_fetched_epoch", "current_leader_epoch", "log_start_offset"),
    (ApiKey.FETCH, "response"): ("log_start_offset", "diverging_epoch"),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "request"): ("current_leader_epoch",),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "response"): ("leader_epoch",),
    (ApiKey.LEADER_AND_ISR, "request"): ("is_new",),
}


class TopicNames:
    """Names of topic ids: those that were set, and those that control requests told."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def add(self, topic_id: bytes, name: str) -> None:
        """Remember one name; the newest wins."""
        if any(topic_id):
            self._names[topic_id] = name

    def name_of(self, topic: str | bytes) -> str | None:
        """The name of a topic id, or the name itself; None for an unknown id."""
        return topic if isinstance(topic, str) else self._names.get(topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request or response at a link.

    ``fetch_offsets`` has the partitions that it covers (for a response: those of its request),
    with the fetch offset where it is a Fetch; ``is_complete`` tells whether these are all.
    ``detail`` is what the body says, JSON-able, None when it was not read.
    """

    direction: Direction
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    source: int | None
    target: int | None
    fetch_offsets: Mapping[TopicPartition, int | None]
    is_complete: bool
    is_readable: bool
    detail: Mapping[str, Any] | None
    opens_session: Mapping[PartitionKey, int | None] | None = None


def read_request(
    head: memoryview,
    *,
    size: int,
    target: int,
    connection_source: int | None,
    topics: TopicNames,
    sessions: FetchSessions,
) -> Message:
    """The request in a frame whose first bytes are ``head`` and that has ``size`` bytes in all.

    Both count the four bytes of the size field. Raises MalformedMessage when it is no request.
    """
    reader = Reader(view=head, position=4, size=size)
    api_key, api_version, correlation_id, client_id = _read_header(reader)
    layout = LAYOUTS.get(api_key)
    values: dict[str, Any] = {}
    is_whole = is_readable = False
    if layout is not None and api_version <= layout.newest:
        try:
            _skip_header_tags(reader, is_flexible=api_version >= layout.flexible_since)
            values, is_whole = decode(_steps(api_key, api_version, "request"), reader)
            is_readable = True
        except (MalformedMessage, BytesEndEarly):
            # A header that is fine before a body that is not: the body alone stays unread.
            values = {}
    source = _source_of(values, client_id)
    offsets: Mapping[PartitionKey, int | None] | None = {}
    if api_key in PARTITION_API_KEYS or api_key in _UNREAD_PARTITIONS:
        offsets = _covered(api_key, values, sessions) if is_readable else None
    _learn_topic_ids(values, topics)
    named = {
        (name, partition): offset
        for (topic, partition), offset in (offsets or {}).items()
        if (name := topics.name_of(topic)) is not None
    }
    is_complete = offsets is not None and len(named) == len(offsets)
    if layout is not None and not is_whole:
        is_complete = False
    is_full_fetch = api_key == ApiKey.FETCH and values.get("session_epoch", -1) == 0
    return Message(
        direction="request",
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        source=source if source is not None else connection_source,
        target=target,
        fetch_offsets=named,
        is_complete=is_complete,
        is_readable=is_readable or layout is None,
        detail=_detail(api_key, "request", values, topics, is_whole) if is_readable else None,
        opens_session=offsets if is_full_fetch else None,
    )


def correlation_id_of_response(head: memoryview) -> int:
    """The correlation id of the response in a frame with at least eight bytes at hand."""
    if len(head) < 8:
        raise MalformedMessage("a response without a correlation id")
    return int(_CORRELATION_ID.unpack_from(head, 4)[0])


def read_response(
    head: memoryview,
    *,
    size: int,
    request: Message,
    topics: TopicNames,
    sessions: FetchSessions,
) -> Message:
    """The response to ``request``; it has the request's source, target and partitions."""
    layout = LAYOUTS.get(request.api_key)
    detail = None
    if layout is not None and request.api_version <= layout.newest:
        try:
            detail = _response_detail(head, size, request, layout, topics)
        except (MalformedMessage, BytesEndEarly):
            detail = None
    if detail is not None and request.opens_session is not None:
        sessions.opened(detail.get("session_id") or 0, request.opens_session)
    return Message(
        direction="response",
        api_key=request.api_key,
        api_version=request.api_version,
        correlation_id=request.correlation_id,
        client_id=request.client_id,
        source=request.source,
        target=request.target,
        fetch_offsets=request.fetch_offsets,
        is_complete=request.is_complete,
        is_readable=layout is None or detail is not None,
        detail=detail,
    )


@cache
def _steps(api_key: int, api_version: int, direction: Direction) -> tuple[Step, ...]:
    layout = LAYOUTS[api_key]
    fields = layout.request if direction == "request" else layout.response
    return compiled(fields, api_version, flexible=api_version >= layout.flexible_since)


def _response_detail(
    head: memoryview, size: int, request: Message, layout: Layout, topics: TopicNames
) -> dict[str, Any]:
    is_flexible = request.api_version >= layout.flexible_since
    reader = Reader(view=head, position=8, size=size)
    _skip_header_tags(reader, is_flexible=is_flexible)
    values, is_whole = decode(_steps(request.api_key, request.api_version, "response"), reader)
    return _detail(request.api_key, "response", values, topics, is_whole)


def _read_header(reader: Reader) -> tuple[int, int, int, str | None]:
    try:
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack(reader.take(8))
        if not (0 <= api_key <= _HIGHEST_API_KEY and 0 <= api_version <= _HIGHEST_API_KEY):
            raise MalformedMessage(f"API key {api_key} version {api_version}")
        if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
            return api_key, api_version, correlation_id, None  # the one header without a client id
        return api_key, api_version, correlation_id, read_string(reader, compact=False)
    except BytesEndEarly as error:
        raise MalformedMessage("a request that ends in its header") from error


def _skip_header_tags(reader: Reader, *, is_flexible: bool) -> None:
    if not is_flexible:
        return
    for _ in range(reader.unsigned_varint()):
        reader.unsigned_varint()
        reader.take(reader.unsigned_varint())


def _source_of(values: Mapping[str, Any], client_id: str | None) -> int | None:
    # The body is surer than the client id: on 0.10.2 a fetcher's client id is
    # ReplicaFetcherThread-<fetcher>-<leader> and says nothing about the follower.
    state = values.get("replica_state") or {}
    for value in (
        state.get("replica_id"),
        values.get("replica_id"),
        values.get("controller_id"),
        values.get("broker_id"),
    ):
        if value is not None and value >= 0:
            return int(value)
    named = _CLIENT_ID_OF_BROKER.fullmatch(client_id or "")
    return int(named[1] or named[2]) if named else None


def _keys_of(topics: list[dict[str, Any]]) -> list[tuple[PartitionKey, Any]]:
    found: list[tuple[PartitionKey, Any]] = []
    for topic in topics:
        name = topic.get("topic", topic.get("topic_id", ""))
        for partition in topic.get("partitions", ()):
            number = partition if isinstance(partition, int) else partition.get("partition")
            if number is not None:
                found.append(((name, number), partition))
    return found


def _covered(
    api_key: int, values: Mapping[str, Any], sessions: FetchSessions
) -> Mapping[PartitionKey, int | None] | None:
    named = _keys_of(values.get("topics", []))
    if api_key == ApiKey.FETCH:
        return sessions.requested(
            session_id=values.get("session_id", 0),
            session_epoch=values.get("session_epoch", -1),
            named={key: entry.get("fetch_offset", -1) for key, entry in named},
            forgotten=[key for key, _ in _keys_of(values.get("forgotten_topics", []))],
        )
    ungrouped = values.get("ungrouped_partitions", [])
    return {
        **{key: None for key, _ in named},
        **{(entry["topic"], entry["partition"]): None for entry in ungrouped if len(entry) > 1},
    }


def _learn_topic_ids(values: Mapping[str, Any], topics: TopicNames) -> None:
    for topic in values.get("topics", ()):
        if topic.get("topic") and topic.get("topic_id"):
            topics.add(topic["topic_id"], topic["topic"])


def _detail(
    api_key: int,
    direction: Direction,
    values: Mapping[str, Any],
    topics: TopicNames,
    is_whole: bool,
) -> dict[str, Any]:
    detail = {name: value for name, value in values.items() if name not in _LEFT_OUT}
    state = values.get("replica_state")
    if state:
        detail["replica_id"] = state.get("replica_id")
    absent = dict.fromkeys(_ABSENT_IN_OLD_VERSIONS.get((api_key, direction), ()))
    partitions = [
        {**_topic_of(key[0], topics), **_entry(partition, absent)}
        for key, partition in _keys_of(values.get("topics", []))
    ]
    partitions.extend(
        {"topic": partition.get("topic"), **_entry(partition, absent)}
        for partition in values.get("ungrouped_partitions", ())
    )
    if "topics" in values or "ungrouped_partitions" in values:
        detail["partitions"] = partitions
    if values.get("forgotten_topics"):
        detail["forgotten"] = [
            {**_topic_of(key[0], topics), "partition": key[1]}
            for key, _ in _keys_of(values["forgotten_topics"])
        ]
    if not is_whole:
        detail["is_whole"] = False
    return detail


def _topic_of(topic: str | bytes, topics: TopicNames) -> dict[str, Any]:
    if isinstance(topic, str):
        return {"topic": topic}
    # Kafka prints a topic id as base64 for URLs without padding.
    text = urlsafe_b64encode(topic).decode().rstrip("=")
    return {"topic": topics.name_of(topic), "topic_id": text}


def _entry(partition: int | dict[str, Any], absent: Mapping[str, None]) -> dict[str, Any]:
    if isinstance(partition, int):
        return {"partition": partition}
    entry: dict[str, Any] = {"partition": partition.get("partition"), **absent}
    entry.update(item for item in partition.items() if item[0] not in _LEFT_OUT)
    records = entry.pop("records", None)
    if records is not None:
        entry.update(_batches(records))
    return entry


def _batches(records: Records) -> dict[str, Any]:
    """The size of a record set, and the offsets of the batches whose headers are at hand.

    ``last_offset`` is inclusive. A batch of magic 0 or 1 is one entry of a message set: its only
    offset is that of its last record, also when the entry wraps several compressed ones.
    """
    summary: dict[str, Any] = {"records_size_bytes": records.size_bytes}
    position = count = 0
    while position + 17 <= len(records.head) and count < _MOST_BATCHES:
        base_offset, length = _BATCH_START.unpack_from(records.head, position)
        if length < 14 or position + 12 + length > records.size_bytes:
            break  # Kafka cuts a fetched record set anywhere: a last batch may be a part of one.
        magic = records.head[position + 16]
        last_offset = base_offset
        if magic >= 2:
            if position + 27 > len(records.head):
                break
            last_offset += _LAST_OFFSET_DELTA.unpack_from(records.head, position + 23)[0]
        if count == 0:
            summary["base_offset"] = base_offset
        summary["last_offset"] = last_offset
        count += 1
        position += 12 + length
    summary["batch_count"] = count
    return summary
