"""Answers to OffsetForLeaderEpoch that a link puts in the place of the leader's own."""

import struct
from dataclasses import replace
from typing import Any

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.details import TopicNames, detail_of
from kchaos.clusters.links.layouts import LAYOUTS
from kchaos.clusters.links.messages import Message, response_values
from kchaos.clusters.links.writing import encode

_UNDEFINED = -1
_LAYOUT = LAYOUTS[ApiKey.OFFSET_FOR_LEADER_EPOCH]


def can_be_forged(message: Message) -> bool:
    """Return whether this is a complete OffsetForLeaderEpoch response."""
    return (
        message.direction == "response"
        and message.api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH
        and message.detail is not None
        and message.detail.get("is_whole", True)
    )


def forged(message: Message, frame: memoryview, error_code: int) -> tuple[Message, memoryview]:
    """Return the response with this error for each of its partitions, and its frame.

    A leader that cannot answer says epoch -1 and end offset -1 beside the error
    (kafka.server.ReplicaManager.lastOffsetForLeaderEpoch, 1.1.1, 2.0.1 and 2.8.2).
    """
    values = response_values(frame, message)
    for topic in values["topics"]:
        for partition in topic["partitions"]:
            # Version 0 has no epoch to write.
            told = {"error_code": error_code, "leader_epoch": _UNDEFINED, "end_offset": _UNDEFINED}
            partition.update({name: told[name] for name in told if name in partition})
    detail = detail_of(message.api_key, "response", values, TopicNames(), is_whole=True)
    return replace(message, detail=detail), memoryview(answer_bytes(message, values))


def answer_bytes(message: Message, values: dict[str, Any]) -> bytes:
    """Return an OffsetForLeaderEpoch response with these `decode` values, in a frame."""
    is_flexible = message.api_version >= _LAYOUT.flexible_since
    header = struct.pack(">i", message.correlation_id) + (b"\x00" if is_flexible else b"")
    body = encode(_LAYOUT.response, message.api_version, values, flexible=is_flexible)
    return struct.pack(">i", len(header) + len(body)) + header + body
