"""Segments taken apart into entries, edited, and put together again with right checksums."""

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import cramjam
from crc32c import crc32c

from kchaos.checkers.formats.batches import BATCH_FIELDS, BATCH_HEADER, MAGIC_AT, entries
from tests.mutants.run_copy import NotApplicableError, RunCopy
from tests.support import segment_encoder

_FIELD_NAMES = [name for name, _ in BATCH_FIELDS]
_CRC_FROM = 21


def split(content: bytes) -> list[bytes]:
    """The entries of a segment, each as its bytes."""
    view = memoryview(content)
    return [
        content[entry.position : entry.position + entry.size_bytes]
        for entry in entries(view, len(content))
    ]


def magic_of(entry: bytes) -> int:
    """The message format of an entry."""
    return entry[MAGIC_AT]


def resealed(entry: bytes) -> bytes:
    """The entry with length and checksum that fit its bytes."""
    body = bytearray(entry)
    struct.pack_into(">i", body, 8, len(body) - 12)
    if magic_of(entry) == 2:
        struct.pack_into(">I", body, 17, crc32c(bytes(body[_CRC_FROM:])))
    else:
        struct.pack_into(">I", body, 12, zlib.crc32(bytes(body[MAGIC_AT:])))
    return bytes(body)


def with_field(entry: bytes, name: str, change: Callable[[int], int]) -> bytes:
    """A batch of magic 2 with one header field changed, and a right checksum."""
    if magic_of(entry) != 2:
        raise NotApplicableError("the entry is no batch of magic 2")
    fields = list(BATCH_HEADER.unpack_from(entry))
    index = _FIELD_NAMES.index(name)
    fields[index] = change(fields[index])
    return resealed(BATCH_HEADER.pack(*fields) + entry[BATCH_HEADER.size :])


def field_of(entry: bytes, name: str) -> int:
    """One header field of a batch of magic 2."""
    collected: int = BATCH_HEADER.unpack_from(entry)[_FIELD_NAMES.index(name)]
    return collected


def record(
    value: bytes | None,
    delta: int,
    *,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
    attributes: int = 0,
) -> bytes:
    """One record of magic 2, with a timestamp delta of 0."""
    named = [(name.encode(), content) for name, content in headers]
    return segment_encoder.record(delta, key, value, headers=named, attributes=attributes)


def with_records(entry: bytes, records: Sequence[bytes]) -> bytes:
    """An uncompressed batch of magic 2 with other records, numbered from 0 on."""
    changed = with_field(entry, "records count", lambda _: len(records))
    changed = with_field(changed, "lastOffsetDelta", lambda _: len(records) - 1)
    changed = with_field(changed, "attributes", lambda flags: flags & ~7)
    return resealed(changed[: BATCH_HEADER.size] + b"".join(records))


def change(name: str, to: Callable[[int], int]) -> Callable[[bytes], bytes]:
    """An edit that changes a header field of a batch of magic 2."""
    return lambda entry: with_field(entry, name, to)


def flip(bit: int) -> Callable[[bytes], bytes]:
    """An edit that changes one bit of a batch's attributes."""
    return change("attributes", lambda flags: flags ^ bit)


def rewrite(**fields: Any) -> Callable[[bytes], bytes]:
    """An edit that gives each record of a batch these fields, which are those of `record`."""

    def edit(entry: bytes) -> bytes:
        described: list[dict[str, Any]] = [
            {"value": value, "delta": index} | fields
            for index, value in enumerate(values_of(entry))
        ]
        return with_records(entry, [record(**each) for each in described])

    return edit


def values_of(entry: bytes) -> list[bytes]:
    """The values of an uncompressed batch of magic 2."""
    from kchaos.checkers.segments.reader import read_records, read_segment

    if magic_of(entry) != 2:
        raise NotApplicableError("the entry is no batch of magic 2")
    (batch,) = read_segment(entry, base_offset=0, file="").batches
    return [read_record.value or b"" for read_record in read_records(entry, batch)]


def compressed(entry: bytes) -> bytes:
    """The same records, compressed with gzip."""
    section = bytes(cramjam.gzip.compress(entry[BATCH_HEADER.size :]))
    flagged = with_field(entry, "attributes", lambda flags: flags & ~7 | 1)
    return resealed(flagged[: BATCH_HEADER.size] + section)


def with_changed_payload(entry: bytes) -> bytes:
    """One letter of the last value changed, whatever the magic, and a right checksum."""
    at = -2 if magic_of(entry) == 2 else -1
    body = bytearray(entry)
    body[at] ^= 1
    return resealed(bytes(body))


def edit_segment(run: RunCopy, name: str, edit: Callable[[list[bytes]], list[bytes]]) -> str:
    """Put other entries into a segment."""
    parts = split(run.content(name))
    if not parts:
        raise NotApplicableError(f"{name} is empty")
    return run.write(name, b"".join(edit(parts)))


def segment_of(run: RunCopy, directory: str) -> str:
    """The last segment of a replica that holds something."""
    names = [name for name in run.names(f"{directory}/*.log") if run.content(name)]
    if not names:
        raise NotApplicableError(f"{directory} holds no segment with content")
    return names[-1]


def edit_entry(
    run: RunCopy, name: str, edit: Callable[[bytes], bytes], *, index: int | None = None
) -> str:
    """Change one entry of a segment, a drawn one without an index."""
    parts = split(run.content(name))
    at = run.pick(range(len(parts)), "entry") if index is None else index
    parts[at] = edit(parts[at])
    run.write(name, b"".join(parts))
    return f"{name}, entry {at}"


def on_all_replicas(run: RunCopy, edit: Callable[[bytes], bytes]) -> str:
    """Change the entry at one drawn base offset wherever any snapshot holds the same bytes."""
    name = segment_of(run, run.in_sync_directory())
    chosen = run.pick(split(run.content(name)), "entry")
    changed = edit(chosen)
    partition = name.split("/")[3]
    for other in run.names(f"snapshots/*/broker-*/{partition}/*.log"):
        content = b"".join(
            changed if each == chosen else each for each in split(run.content(other))
        )
        run.write(other, content)
    return f"{partition}, offset {struct.unpack_from('>q', chosen)[0]}"
