"""One request or response, decoded: its sender, the partitions that it covers, and its content.

Source: ``RequestHeader`` and ``RequestContext`` of Kafka's clients, KIP-482 for flexible headers.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links import wire
from kchaos.clusters.links.details import TopicNames, detail_of, partitions_of
from kchaos.clusters.links.layout import Layout
from kchaos.clusters.links.layouts import LAYOUTS, PARTITION_API_KEYS
from kchaos.clusters.links.rest_of_records import RestOfRecords
from kchaos.clusters.links.sessions import FetchSessions, PartitionKey

TopicPartition = tuple[str, int]

_REQUEST_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_CLIENT_ID_OF_NODE = re.compile(r"(?:raft-client-)?(\d+)|broker-(\d+)-.*")
_HIGHEST_API_KEY = 255
# Requests that name partitions in a body that this module does not read; so may unknown ones.
_UNREAD_PARTITIONS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ENVELOPE,
    }
)
_WITHOUT_PARTITIONS = frozenset(ApiKey) - _UNREAD_PARTITIONS - PARTITION_API_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request or response at a link.

    ``fetch_offsets`` has the partitions that it covers (for a response: those of its request),
    with the fetch offset where it is a Fetch; ``is_complete`` tells whether these are all.
    ``detail`` is what the body says, JSON-able, None when it was not read. ``rest`` reads on in
    the records of a Fetch response of which the head does not have all.
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
    rest: RestOfRecords | None = None


def read_request(
    head: memoryview,
    *,
    size: int,
    target: int,
    connection_source: int | None,
    topics: TopicNames,
    sessions: FetchSessions,
) -> Message:
    """Return the request of ``size`` bytes in a frame whose first bytes are ``head``.

    Both count the four bytes of the size field. Raises MalformedMessage when it is no request.
    """
    reader = wire.Reader(view=head, position=4, size=size)
    api_key, api_version, correlation_id, client_id = read_header(reader)
    layout = LAYOUTS.get(api_key)
    values: dict[str, Any] = {}
    is_whole = is_readable = False
    if layout is not None and api_version <= layout.newest:
        try:
            skip_header_tags(reader, is_flexible=api_version >= layout.flexible_since)
            values, is_whole = wire.decode(_steps(api_key, api_version, "request"), reader)
            is_readable = True
        except (wire.MalformedMessage, wire.BytesEndEarly):
            # A header that is fine before a body that is not: the body alone stays unread.
            values = {}
    source = _source_of(values, client_id)
    offsets: Mapping[PartitionKey, int | None] | None = {}
    if api_key not in _WITHOUT_PARTITIONS:
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
        detail=detail_of(api_key, "request", values, topics, is_whole) if is_readable else None,
        opens_session=offsets if is_full_fetch else None,
    )


def correlation_id_of_response(head: memoryview) -> int:
    """Return the correlation id of the response in a frame with at least eight bytes at hand."""
    if len(head) < 8:
        raise wire.MalformedMessage("a response without a correlation id")
    return int(_CORRELATION_ID.unpack_from(head, 4)[0])


def read_response(
    head: memoryview, *, size: int, request: Message, topics: TopicNames, sessions: FetchSessions
) -> Message:
    """Return the response to ``request``; it has the request's source, target and partitions."""
    layout = LAYOUTS.get(request.api_key)
    detail, rest = None, None
    if layout is not None and request.api_version <= layout.newest:
        try:
            values, is_whole = _response_values(head, size, request, layout)
            detail = detail_of(request.api_key, "response", values, topics, is_whole)
            rest = None if is_whole else _rest_of(values, size - len(head))
        except (wire.MalformedMessage, wire.BytesEndEarly):
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
        rest=rest,
    )


@cache
def _steps(api_key: int, api_version: int, direction: Direction) -> tuple[wire.Step, ...]:
    layout = LAYOUTS[api_key]
    fields = layout.request if direction == "request" else layout.response
    return wire.compiled(fields, api_version, flexible=api_version >= layout.flexible_since)


def response_values(frame: memoryview, message: Message) -> dict[str, Any]:
    """Return the fields of a whole response of a known API, in the form of `wire.decode`."""
    return _response_values(frame, len(frame), message, LAYOUTS[message.api_key])[0]


def _response_values(
    head: memoryview, size: int, message: Message, layout: Layout
) -> tuple[dict[str, Any], bool]:
    reader = wire.Reader(view=head, position=8, size=size)
    skip_header_tags(reader, is_flexible=message.api_version >= layout.flexible_since)
    return wire.decode(_steps(message.api_key, message.api_version, "response"), reader)


def _rest_of(values: Mapping[str, Any], rest_bytes: int) -> RestOfRecords | None:
    """Return what reads on in the records in which a message's head ends, None if in no records."""
    partitions = [entry for _, entry in partitions_of(values.get("topics", []))]
    records = partitions[-1].get("records") if partitions else None
    return RestOfRecords(records, rest_bytes) if records is not None else None


def read_header(reader: wire.Reader) -> tuple[int, int, int, str | None]:
    """Return API key, version, correlation id and client id of a request, before its tags."""
    try:
        api_key, api_version, correlation_id = _REQUEST_HEADER.unpack(reader.take(8))
        if not (0 <= api_key <= _HIGHEST_API_KEY and 0 <= api_version <= _HIGHEST_API_KEY):
            raise wire.MalformedMessage(f"API key {api_key} version {api_version}")
        if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
            return api_key, api_version, correlation_id, None  # the one header without a client id
        return api_key, api_version, correlation_id, wire.read_string(reader, compact=False)
    except wire.BytesEndEarly as error:
        raise wire.MalformedMessage("a request that ends in its header") from error


def skip_header_tags(reader: wire.Reader, *, is_flexible: bool) -> None:
    """Go past the tagged fields of a flexible header."""
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
    named = _CLIENT_ID_OF_NODE.fullmatch(client_id or "")
    return int(named[1] or named[2]) if named else None


def _covered(
    api_key: int, values: Mapping[str, Any], sessions: FetchSessions
) -> Mapping[PartitionKey, int | None] | None:
    named = partitions_of(values.get("topics", []))
    if api_key == ApiKey.FETCH:
        return sessions.requested(
            session_id=values.get("session_id", 0),
            session_epoch=values.get("session_epoch", -1),
            named={key: entry.get("fetch_offset", -1) for key, entry in named},
            forgotten=[key for key, _ in partitions_of(values.get("forgotten_topics", []))],
        )
    for group in (*values.get("markers", []), *values.get("directories", [])):
        named += partitions_of(group.get("topics", []))
    ungrouped = values.get("ungrouped_partitions", [])
    return {
        **{key: None for key, _ in named},
        **{(entry["topic"], entry["partition"]): None for entry in ungrouped if len(entry) > 1},
    }


def _learn_topic_ids(values: Mapping[str, Any], topics: TopicNames) -> None:
    for topic in values.get("topics", ()):
        if topic.get("topic") and topic.get("topic_id"):
            topics.add(topic["topic_id"], topic["topic"])
