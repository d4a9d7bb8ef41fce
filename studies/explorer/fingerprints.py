"""Numbers of 60 bits that stand for a component with its value, the same in every process.

A state's fingerprint is the xor of those of its components. Two different states have the same one
with a chance of 2**-60: among ten million states, of 4 in 100,000 that there is any such pair. 60
bits and not 64 because that is two digits of a Python int, which then takes 32 bytes and not 48.
Python's own `hash` would not do: it maps -1 and -2 to the same number, and strings differently in
each process.
"""

import dataclasses
import enum
import hashlib
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import cast

from kchaos.studies.explorer.errors import RuleError
from kchaos.studies.explorer.system import Component, Value

BITS = 60


def fingerprint(component: Component, value: Value) -> int:
    """Return the fingerprint of a component that has this value; 0 to 2**60 - 1.

    Values that are equal have the same fingerprint.

    Raises:
        RuleError: The component or the value is, or holds, something of another kind than
            `System` names.
    """
    digest = hashlib.blake2b(_encode((component, value)), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 64 - BITS


def _encode(value: Value) -> bytes:
    """Return bytes that are the same for equal values only: length first, so that none runs on."""
    if value is None:
        return b"N"
    if isinstance(value, int):  # bool and IntEnum are equal to their ints.
        return _framed(b"i", str(int(value)).encode())
    if isinstance(value, str):
        return _framed(b"s", str.encode(value, "utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _framed(b"b", value)
    if isinstance(value, tuple):
        return _framed(b"t", b"".join(map(_encode, value)))
    if isinstance(value, Sequence) and isinstance(value, Hashable):
        return _framed(b"q", b"".join(map(_encode, value)))
    if isinstance(value, frozenset):
        return _framed(b"f", b"".join(sorted(map(_encode, value))))
    if isinstance(value, enum.Enum) or dataclasses.is_dataclass(value):
        return _encode_once(cast(Hashable, value))
    raise _none_for(value)


@cache
def _encode_once(value: Value) -> bytes:
    """Return the bytes of an enum member or a dataclass, which others have in them again."""
    if isinstance(value, enum.Enum):
        return _framed(b"e", _encode(_name(value)) + _encode(value.name))
    if isinstance(value, type):
        raise _none_for(value)
    return _framed(b"d", _encode(_name(value)) + b"".join(map(_encode, _fields(value))))


def _fields(value: Value) -> Iterator[Value]:
    return (getattr(value, each.name) for each in dataclasses.fields(value) if each.compare)


def _none_for(value: Value) -> RuleError:
    return RuleError(
        f"{value!r} is a {type(value).__qualname__}, which has no fingerprint: components and "
        "values are made of None, bool, int, str, bytes, enum members, immutable sequences, "
        "frozensets and frozen dataclasses"
    )


def _framed(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(4, "little") + content


def _name(value: Value) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
