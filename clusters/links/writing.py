"""Writes Kafka messages by the layout tables by which `clusters.links.wire` reads them.

A request that is written here was never sent by a broker: the tests write what brokers did send,
and compare every byte.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from kchaos.checkers.formats.fields import unsigned_varint
from kchaos.clusters.links.wire import PRIMITIVES, Field

_NULL = -1


def encode(
    fields: Iterable[Field], version: int, values: Mapping[str, Any], *, flexible: bool
) -> bytes:
    """Encode one version of a message; the counterpart of `clusters.links.wire.decode`.

    ``values`` has what `decode` returns; names that this version does not carry are left out, and
    tagged fields are never written.

    Raises KeyError when a field of this version has no value.
    """
    parts = [
        _field(member, version, values[member.name], flexible=flexible)
        for member in fields
        if member.since <= version <= member.until and member.tag is None
    ]
    return b"".join(parts) + (b"\x00" if flexible else b"")


def text(value: str | None, *, compact: bool = False) -> bytes:
    """Encode a nullable string."""
    data = b"" if value is None else value.encode()
    length = _NULL if value is None else len(data)
    return (unsigned_varint(length + 1) if compact else struct.pack(">h", length)) + data


def _field(field: Field, version: int, value: Any, *, flexible: bool) -> bytes:
    if not field.array:
        return _single(field, value, flexible=flexible)
    elements = (
        encode(field.struct, version, item, flexible=flexible)
        if field.struct
        else _single(field, item, flexible=flexible)
        for item in value or ()
    )
    length = _NULL if value is None else len(value)
    count = unsigned_varint(length + 1) if flexible else struct.pack(">i", length)
    return count + b"".join(elements)


def _single(field: Field, value: Any, *, flexible: bool) -> bytes:
    if field.type == "string":
        return text(value, compact=flexible)
    if field.type == "records":
        length = unsigned_varint(len(value) + 1) if flexible else struct.pack(">i", len(value))
        return length + bytes(value)
    return struct.pack(f">{PRIMITIVES[field.type]}", value)
