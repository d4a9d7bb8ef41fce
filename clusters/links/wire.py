"""Reads Kafka messages from bytes by layout tables, without I/O.

A layout says which fields a message has in which versions. `compiled` turns it into steps
for one version; `decode` runs them over the bytes that are there. Bytes may end before the
message does (a large response is decoded from its head only); then what was read so far is
returned and marked as incomplete.

Source: Kafka's protocol guide and ``clients/src/main/resources/common/message`` in 2.8.2 and 3.9,
the ``Schema`` constants of the request classes in 0.10.2 and 1.1 for the versions before those.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.formats.fields import MalformedError, read_unsigned_varint

PRIMITIVES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "uuid": "16s",
}
"""Types of fixed size, each with its letter for `struct`."""
NEWEST = 32767


class BytesEndEarly(Exception):
    """The bytes at hand end before the message does."""


class RestIsSkipped(Exception):
    """The layout says that nothing after this place is read."""


class MalformedMessage(Exception):
    """The bytes cannot be the message that their header announces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a layout: its type, and the versions (both inclusive) that carry it.

    ``type`` is a primitive's name, ``string`` (null reads as None), ``records``, or ``rest`` (the
    message goes on, but is not read from here). ``struct`` has the fields of a nested structure
    instead. ``tag`` is set for a tagged field (KIP-482).
    """

    name: str
    type: str = ""
    struct: tuple[Field, ...] = ()
    array: bool = False
    since: int = 0
    until: int = NEWEST
    tag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A record set inside a message: its whole size, and as much of it as was at hand."""

    size_bytes: int
    head: memoryview


@dataclass(slots=True)
class Reader:
    """A position in the bytes of one message. ``size`` is what the whole message should have."""

    view: memoryview
    position: int
    size: int

    def take(self, count: int) -> memoryview:
        """Take the next ``count`` bytes, without copying them."""
        start = self.position
        if count < 0 or start + count > self.size:
            raise MalformedMessage(f"{count} bytes wanted at {start} of {self.size}")
        if start + count > len(self.view):
            raise BytesEndEarly
        self.position = start + count
        return self.view[start : start + count]

    def values(self, format_: struct.Struct) -> tuple[Any, ...]:
        """Read consecutive fields of fixed size."""
        start = self.position
        end = start + format_.size
        if end > len(self.view) or end > self.size:
            self.take(format_.size)  # It raises what is wrong.
        self.position = end
        return format_.unpack_from(self.view, start)

    def unsigned_varint(self) -> int:
        """Read an unsigned varint."""
        start = self.position
        try:
            value, end = read_unsigned_varint(self.view, start, most_bits=31)
        except IndexError:
            value, end = 0, len(self.view) + 1
        except MalformedError as error:
            raise MalformedMessage(f"{error} at {start}") from None
        self.take(end - start)
        return value

    def length(self, *, compact: bool, format_: struct.Struct) -> int:
        """Read a length prefix; -1 stands for null."""
        count = self.unsigned_varint() - 1 if compact else int(self.values(format_)[0])
        if count < -1 or count > self.size - self.position:
            raise MalformedMessage(f"length {count} at {self.position} of {self.size}")
        return count


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_Values = dict[str, Any]
Step = Callable[[Reader, _Values], None]
"""Reads the next bytes into a message's values."""


def _fixed_step(fields: list[Field]) -> Step:
    # Fields of fixed size that follow each other are read by one call: idle fetches are what the
    # relay decodes most, and they are made of such runs.
    names = [field.name for field in fields]
    format_ = struct.Struct(">" + "".join(PRIMITIVES[field.type] for field in fields))

    def step(reader: Reader, values: _Values) -> None:
        values.update(zip(names, reader.values(format_), strict=True))

    return step


def _string_step(name: str, *, compact: bool) -> Step:
    def step(reader: Reader, values: _Values) -> None:
        values[name] = read_string(reader, compact=compact)

    return step


def read_string(reader: Reader, *, compact: bool) -> str | None:
    """Read a nullable string, with a varint length if ``compact``, else two bytes of length."""
    count = reader.length(compact=compact, format_=_INT16)
    if count < 0:
        return None
    try:
        return str(reader.take(count), "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a string that is not UTF-8: {error}") from error


def _rest_step(reader: Reader, values: _Values) -> None:
    raise RestIsSkipped


def _records_step(name: str, *, compact: bool) -> Step:
    def step(reader: Reader, values: _Values) -> None:
        count = max(0, reader.length(compact=compact, format_=_INT32))
        start = reader.position
        head = reader.view[start : start + count]
        values[name] = Records(size_bytes=count, head=head)
        reader.take(count)

    return step


def _struct_array_step(name: str, steps: tuple[Step, ...], *, compact: bool) -> Step:
    def step(reader: Reader, values: _Values) -> None:
        elements: list[_Values] = []
        values[name] = elements
        for _ in range(reader.length(compact=compact, format_=_INT32)):
            element: _Values = {}
            elements.append(element)
            for inner in steps:
                inner(reader, element)

    return step


def _primitive_array_step(name: str, type_: str, *, compact: bool) -> Step:
    element = struct.Struct(f">{PRIMITIVES[type_]}")

    def step(reader: Reader, values: _Values) -> None:
        count = max(0, reader.length(compact=compact, format_=_INT32))
        data = reader.take(count * element.size)
        values[name] = [value for (value,) in element.iter_unpack(data)]

    return step


def _tags_step(fields: list[Field], version: int) -> Step:
    known = {f.tag: _value_step(f, version, flexible=True) for f in fields}

    def step(reader: Reader, values: _Values) -> None:
        for _ in range(reader.unsigned_varint()):
            tag = reader.unsigned_varint()
            end = reader.unsigned_varint() + reader.position
            if tag in known:
                known[tag](reader, values)
            reader.take(end - reader.position)

    return step


def _struct_step(name: str, steps: tuple[Step, ...]) -> Step:
    def step(reader: Reader, values: _Values) -> None:
        values[name] = {}
        for inner in steps:
            inner(reader, values[name])

    return step


def _value_step(field: Field, version: int, *, flexible: bool) -> Step:
    """Return the step that reads one field."""
    if field.struct:
        inner = compiled(field.struct, version, flexible=flexible)
        if field.array:
            return _struct_array_step(field.name, inner, compact=flexible)
        return _struct_step(field.name, inner)
    if field.array:
        return _primitive_array_step(field.name, field.type, compact=flexible)
    if field.type in PRIMITIVES:
        return _fixed_step([field])
    if field.type == "rest":
        return _rest_step
    if field.type == "records":
        return _records_step(field.name, compact=flexible)
    return _string_step(field.name, compact=flexible)


def compiled(fields: tuple[Field, ...], version: int, *, flexible: bool) -> tuple[Step, ...]:
    """Return the steps that read these fields in one version of a message, for `decode`."""
    present = [field for field in fields if field.since <= version <= field.until]
    steps: list[Step] = []
    run: list[Field] = []
    for field in [field for field in present if field.tag is None]:
        if field.type in PRIMITIVES and not field.array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run))
            run = []
        steps.append(_value_step(field, version, flexible=flexible))
    if run:
        steps.append(_fixed_step(run))
    if flexible:
        steps.append(_tags_step([field for field in present if field.tag is not None], version))
    return tuple(steps)


def decode(steps: tuple[Step, ...], reader: Reader) -> tuple[dict[str, Any], bool]:
    """Return the message's fields by name, and whether the message was read to its end.

    A structure becomes a dict, an array a list, a uuid its 16 bytes, a record set `Records`.
    A last element that was cut off holds the fields that were read. Raises `MalformedMessage` when
    the bytes cannot be this message.
    """
    values: dict[str, Any] = {}
    try:
        for step in steps:
            step(reader, values)
    except RestIsSkipped:
        return values, True
    except BytesEndEarly:
        return values, False
    return values, True
