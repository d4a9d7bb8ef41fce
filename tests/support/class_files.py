"""The methods of a class, read from its file in a jar (JVM specification, chapter 4)."""

import re
import struct
import zipfile
from dataclasses import dataclass

_BRIDGE = 0x0040
_UTF8, _LONG, _DOUBLE = 1, 5, 6
_SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 18: 5}
_SIMPLE = {"I": "int", "J": "long", "Z": "boolean"}


@dataclass(frozen=True)
class Method:
    name: str
    parameters: str
    is_bridge: bool


def has_class(jar: zipfile.ZipFile, java_class: str) -> bool:
    """Whether a jar has a class."""
    return f"{java_class.replace('.', '/')}.class" in jar.NameToInfo


def methods_of(jar: zipfile.ZipFile, java_class: str) -> list[Method]:
    """The methods that a class declares; KeyError where the jar has no such class."""
    data = jar.read(java_class.replace(".", "/") + ".class")
    texts, at = _texts(data)
    interfaces = _u2(data, at + 6)
    _, at = _members(data, at + 8 + 2 * interfaces, texts)
    return _members(data, at, texts)[0]


def _texts(data: bytes) -> tuple[dict[int, str], int]:
    """The texts of the constant pool by index, and where the pool ends."""
    texts, at, index = {}, 10, 1
    while index < _u2(data, 8):
        tag = data[at]
        if tag == _UTF8:
            length = _u2(data, at + 1)
            texts[index] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += _SIZES[tag]
        index += 2 if tag in (_LONG, _DOUBLE) else 1
    return texts, at


def _members(data: bytes, at: int, texts: dict[int, str]) -> tuple[list[Method], int]:
    """Fields or methods that begin at a place, and where they end."""
    seen, count = [], _u2(data, at)
    at += 2
    for _ in range(count):
        access, name, descriptor, attributes = struct.unpack_from(">4H", data, at)
        at += 8
        for _ in range(attributes):
            at += 6 + struct.unpack_from(">I", data, at + 2)[0]
        seen.append(Method(texts[name], _parameters(texts[descriptor]), bool(access & _BRIDGE)))
    return seen, at


def _parameters(descriptor: str) -> str:
    """The parameters' types as a rule names them, where they are of these kinds."""
    inside = descriptor[1:].partition(")")[0]
    types = re.findall(r"L([^;]+);|([A-Z])", inside)
    return ",".join(each.replace("/", ".") or _SIMPLE.get(simple, simple) for each, simple in types)


def _u2(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")
