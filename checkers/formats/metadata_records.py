"""Records of a KRaft cluster's metadata log: their bytes, by Kafka's own definitions.

A record's value is an unsigned varint for the frame's version (1), one for the kind of record
(`apiKey`), one for its version, then the fields of that version in a flexible encoding. Each
release carries the definitions in the jar of its metadata module, as JSON with comments.

Sources: MetadataRecordSerde and AbstractApiMessageSerde for the frame; MessageGenerator's README
(generator/ of Kafka) for versions, nullable and tagged fields; KIP-482 for the flexible encoding.
"""

import base64
import json
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from kchaos.checkers.formats.fields import CompactReader, MalformedError, unsigned_varint

_FRAME = 1
_FOLDER_IN_JAR = "common/metadata/"
_NO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
_NEWEST = 32767
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
}
_NO_DEFINITION = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_PLAIN = frozenset({*_NUMBERS, "bool", "float64", "string", "bytes", "uuid"})


class MetadataRecordError(Exception):
    """A record or a definition has not the documented form; the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRecord:
    """One record.

    Attributes:
        name: As Kafka's definition has it, such as "PartitionChangeRecord".
        fields: Each field of this version by its name, tagged ones that were not written with
            their default. A uuid is a text as Kafka prints it, `bytes` are bytes, a structure is a
            mapping.
    """

    name: str
    version: int
    fields: Mapping[str, Any]


def voters_record(value: bytes) -> dict[int, str]:
    """Return the directory id of each voter by its node id, as a VotersRecord has them (KIP-853).

    Raises:
        MalformedError: It is no such record; so are `IndexError` and `struct.error`.
    """
    reader = CompactReader(value)
    reader.number(">h")
    voters = {}
    for _ in range(reader.varint() - 1):
        voter = reader.number(">i")
        voters[voter] = reader.uuid()
        for _ in range(reader.varint() - 1):
            reader.octets(), reader.octets(), reader.number(">H"), reader.tags()
        reader.number(">h"), reader.number(">h"), reader.tags(), reader.tags()
    return voters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versions:
    """A range of versions, both ends inclusive."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    kind: str
    is_array: bool
    versions: _Versions
    nullable: _Versions
    tagged: _Versions
    tag: int | None
    default: Any
    fields: tuple["_Field", ...]

    def tag_in(self, version: int) -> int | None:
        """Return the field's tag in that version, or None if it is not tagged."""
        return self.tag if version in self.tagged else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    name: str
    api_key: int
    versions: _Versions
    fields: tuple[_Field, ...]


class RecordDefinitions:
    """Fields of each kind of record, in one release."""

    def __init__(self, definitions: Iterable[_Definition]) -> None:
        self._by_name = {definition.name: definition for definition in definitions}

    @classmethod
    def from_texts(cls, texts: Mapping[str, bytes]) -> "RecordDefinitions":
        """Return the definitions in these files, by file name.

        Raises MetadataRecordError, which names the file, for what is no definition of a record,
        for two of one kind, and where there is none.
        """
        definitions: dict[int, _Definition] = {}
        for file, text in sorted(texts.items()):
            try:
                definition = _definition(json.loads(_COMMENT.sub(r"\1", text.decode())))
            except (*_NO_DEFINITION, MetadataRecordError) as error:
                raise MetadataRecordError(f"{file} defines no record: {error!r}") from error
            if definition.api_key in definitions:
                raise MetadataRecordError(
                    f"{file} defines a record of kind {definition.api_key}, as does "
                    f"{definitions[definition.api_key].name}"
                )
            definitions[definition.api_key] = definition
        if not definitions:
            raise MetadataRecordError("there is no definition of any metadata record")
        return cls(definitions.values())

    @cached_property
    def _by_api_key(self) -> dict[int, _Definition]:
        return {definition.api_key: definition for definition in self._by_name.values()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds of records, in the order of their numbers."""
        return tuple(self._by_api_key[key].name for key in sorted(self._by_api_key))

    def decode(self, value: bytes) -> MetadataRecord:
        """Decode a record's value.

        Raises MetadataRecordError for a kind or version without definition, and for bytes that
        break off, are not of the defined form, or go on behind the end.
        """
        reader = CompactReader(value)
        try:
            frame, api_key, version = reader.varint(), reader.varint(), reader.varint()
            if frame != _FRAME:
                raise MetadataRecordError(f"a record has frame version {frame}, not {_FRAME}")
            definition = self._by_api_key.get(api_key)
            if definition is None:
                raise MetadataRecordError(f"no definition has kind {api_key} of metadata record")
            _require_version(definition, version)
            fields = _read_struct(reader, definition.fields, version)
        except (struct.error, IndexError, UnicodeDecodeError, MalformedError) as error:
            raise MetadataRecordError(f"a record breaks off or is damaged: {error!r}") from error
        if reader.left:
            raise MetadataRecordError(f"a record has {reader.left} bytes after its end")
        return MetadataRecord(name=definition.name, version=version, fields=fields)

    def encode(self, record: MetadataRecord) -> bytes:
        """Encode a record; a field that is not given has its default.

        Raises MetadataRecordError for a record, version or field without definition, and for a
        value that its field cannot hold.
        """
        definition = self._by_name.get(record.name)
        if definition is None:
            raise MetadataRecordError(f"no definition has a record called {record.name}")
        _require_version(definition, record.version)
        try:
            body = _written_struct(definition.fields, record.version, record.fields)
        except (struct.error, ValueError, TypeError, AttributeError) as error:
            raise MetadataRecordError(f"{record.name} cannot hold that: {error!r}") from error
        head = (_FRAME, definition.api_key, record.version)
        return b"".join(unsigned_varint(number) for number in head) + body


def definitions_in_jar(jar: Path | IO[bytes]) -> dict[str, bytes]:
    """Return the record definitions of a `kafka-metadata` jar: content by bare file name.

    Raises MetadataRecordError for a file that is no such jar.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            return {
                name.removeprefix(_FOLDER_IN_JAR): archive.read(name)
                for name in archive.namelist()
                if name.startswith(_FOLDER_IN_JAR) and name.endswith(".json")
            }
    except (OSError, zipfile.BadZipFile) as error:
        raise MetadataRecordError(f"{jar} cannot be read: {error}") from error


def _definition(content: dict[str, Any]) -> _Definition:
    if content["type"] != "metadata":
        raise MetadataRecordError(f"its type is {content['type']!r}, not 'metadata'")
    versions = _versions(content["validVersions"])
    flexible = _versions(content["flexibleVersions"])
    if versions.first not in flexible:
        raise MetadataRecordError("not all its versions are flexible")
    return _Definition(
        name=content["name"],
        api_key=int(content["apiKey"]),
        versions=versions,
        fields=tuple(_field(field) for field in content["fields"]),
    )


def _field(content: dict[str, Any]) -> _Field:
    kind = content["type"]
    is_array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    fields = tuple(_field(field) for field in content.get("fields", ()))
    nullable = _versions(content.get("nullableVersions", "none"))
    if kind not in _PLAIN and (not fields or (not is_array and nullable.first <= nullable.last)):
        raise MetadataRecordError(f"field {content['name']} has type {content['type']!r}")
    tag = content.get("tag")
    return _Field(
        name=content["name"],
        kind=kind,
        is_array=is_array,
        versions=_versions(content["versions"]),
        nullable=nullable,
        tagged=_versions(content.get("taggedVersions", "none")),
        tag=None if tag is None else int(tag),
        default=_default(kind, is_array, content.get("default")),
        fields=fields,
    )


def _versions(text: str) -> _Versions:
    if text == "none":
        return _Versions(first=0, last=-1)
    first, dash, last = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return _Versions(first=int(first), last=_NEWEST)
    return _Versions(first=int(first), last=int(last if dash else first))


def _default(kind: str, is_array: bool, given: Any) -> Any:
    if given in ("null", None) and (is_array or given == "null"):
        return None if given == "null" else ()
    text = "" if given is None else str(given)
    if kind in _NUMBERS:
        return int(text or "0", 0)
    match kind:
        case "bool":
            return text.lower() == "true"
        case "float64":
            return float(text or "0")
        case "uuid":
            return text or _NO_UUID
        case "bytes":
            return text.encode()
        case _:
            return text


def _require_version(definition: _Definition, version: int) -> None:
    if version not in definition.versions:
        raise MetadataRecordError(
            f"{definition.name} has version {version}; its definition knows "
            f"{definition.versions.first} to {definition.versions.last}"
        )


def _read_struct(reader: CompactReader, fields: tuple[_Field, ...], version: int) -> dict[str, Any]:
    known = [field for field in fields if version in field.versions]
    values: dict[str, Any] = {}
    for field in known:
        values[field.name] = (
            _read(reader, field, version) if field.tag_in(version) is None else field.default
        )
    tagged = {field.tag_in(version): field for field in known}
    for tag, content in reader.tags().items():
        if tag in tagged:
            inner = CompactReader(content)
            values[tagged[tag].name] = _read(inner, tagged[tag], version)
            if inner.left:
                raise MetadataRecordError(
                    f"{tagged[tag].name} has {inner.left} bytes after its end"
                )
    return values


def _read(reader: CompactReader, field: _Field, version: int) -> Any:
    if not field.is_array:
        return _read_element(reader, field, version)
    length = reader.varint() - 1
    if length < 0:
        return _null(field, version)
    if length > reader.left:
        raise IndexError(f"{length} elements are announced, and {reader.left} bytes are there")
    return tuple(_read_element(reader, field, version) for _ in range(length))


def _read_element(reader: CompactReader, field: _Field, version: int) -> Any:
    if field.kind in _NUMBERS:
        return reader.number(_NUMBERS[field.kind])
    match field.kind:
        case "bool":
            return reader.number(">b") != 0
        case "float64":
            return reader.real()
        case "uuid":
            return reader.uuid()
        case "string" | "bytes":
            octets = reader.octets()
            if octets is None:
                return _null(field, version)
            return octets.decode() if field.kind == "string" else octets
        case _:
            return _read_struct(reader, field.fields, version)


def _null(field: _Field, version: int) -> None:
    if version not in field.nullable:
        raise MetadataRecordError(f"{field.name} is null, which version {version} does not allow")


def _written_struct(fields: tuple[_Field, ...], version: int, values: Mapping[str, Any]) -> bytes:
    known = [field for field in fields if version in field.versions]
    strange = set(values) - {field.name for field in known}
    if strange:
        raise MetadataRecordError(f"version {version} has no field {sorted(strange)[0]}")
    body = b""
    tags: dict[int, bytes] = {}
    for field in known:
        value = values.get(field.name, field.default)
        value = tuple(value) if isinstance(value, list) else value
        tag = field.tag_in(version)
        if tag is None:
            body += _written(field, version, value)
        elif value != field.default:
            tags[tag] = _written(field, version, value)
    body += unsigned_varint(len(tags))
    for tag, content in sorted(tags.items()):
        body += unsigned_varint(tag) + unsigned_varint(len(content)) + content
    return body


def _written(field: _Field, version: int, value: Any) -> bytes:
    if value is None:
        _null(field, version)
        return unsigned_varint(0)
    if not field.is_array:
        return _written_element(field, version, value)
    return unsigned_varint(len(value) + 1) + b"".join(
        _written_element(field, version, element) for element in value
    )


def _written_element(field: _Field, version: int, value: Any) -> bytes:
    if field.kind in _NUMBERS:
        return struct.pack(_NUMBERS[field.kind], value)
    match field.kind:
        case "bool":
            return b"\1" if value else b"\0"
        case "float64":
            return struct.pack(">d", value)
        case "uuid":
            return base64.urlsafe_b64decode(value + "==")
        case "string" | "bytes":
            octets = value.encode() if field.kind == "string" else bytes(value)
            return unsigned_varint(len(octets) + 1) + octets
        case _:
            return _written_struct(field.fields, version, value)
