"""Framing of entries in a segment's bytes, and what it means when one does not fit."""

import struct
import zlib
from typing import Any

from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.batches import (
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MINIMUM_LENGTH,
    SMALLEST_LENGTH,
    whole_entry_bytes,
)
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.message import read_message
from kchaos.checkers.segments.record_batch import CorruptEntryError, read_record_batch

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_CRC = struct.Struct(">I")

# Behind an entry that does not fit the file, whole ones are looked for this far and this often. The
# reach is above the largest batch that brokers accept by default (message.max.bytes, 1 MiB).
_SEARCH_BYTES = 4 << 20
_SEARCH_CANDIDATES = 50_000
_ZERO_CHUNK_BYTES = 1 << 20


def read_entry(
    view: memoryview, position: int, size_bytes: int, decode: bool, file: str
) -> tuple[Batch, str]:
    """Return the entry of `size_bytes` at `position` as a batch, and what is wrong with it, or "".

    Raises `CorruptEntryError` if nothing in it can be trusted.
    """
    magic = view[position + MAGIC_AT]
    if magic == 2:
        return read_record_batch(view, position, size_bytes, decode=decode, file=file)
    if magic < 2:
        return read_message(view, position, size_bytes, decode=decode, file=file)
    raise CorruptEntryError(f"its magic {magic} is unknown")


def end_of_framing(
    view: memoryview, position: int, end: int, file: str, trusted: bool, next_offset: int
) -> Finding:
    """Return what stands at `position`, where no whole entry does: a tail, or a lost frame.

    `end` is exclusive, `trusted` whether the entry before was right, `next_offset` the least
    offset that may come.
    """
    left = end - position
    evidence: dict[str, Any] = {"file": file, "position": position, "left_bytes": left}
    if _all_zero(view, position, end):
        return Finding(
            kind="zero-tail",
            message=f"{file}: the last {left} bytes, from byte {position}, are zero",
            evidence=evidence,
        )
    why = _framing_problem(view, position, left)
    if why or not trusted:
        why = why or "the entry before it is corrupt and this one does not fit the file"
    else:
        later = _later_entry(view, position, end, next_offset)
        if later < 0:
            return Finding(
                kind="torn-tail",
                message=f"{file}: the last {left} bytes, from byte {position}, are an unfinished"
                " batch",
                evidence=evidence,
            )
        evidence["later_entry_position"] = later
        why = f"it does not fit the file, yet whole entries follow it, from byte {later}"
    return Finding(
        kind="corrupt-batch",
        message=f"{file}: no entry can be read at byte {position}, and the {left} bytes from there"
        f" are not judged: {why}",
        evidence=evidence,
    )


def _framing_problem(view: memoryview, position: int, left: int) -> str:
    """Return why these bytes cannot even be the beginning of an entry, or ""."""
    if left >= LOG_OVERHEAD_BYTES:
        _, length = _OFFSET_AND_LENGTH.unpack_from(view, position)
        smallest = SMALLEST_LENGTH
        if left > MAGIC_AT:
            magic = view[position + MAGIC_AT]
            if magic not in MINIMUM_LENGTH:
                return f"its magic {magic} is unknown"
            smallest = MINIMUM_LENGTH[magic]
        if length < smallest:
            return f"its length {length} is below the smallest possible, {smallest}"
    return ""


def _later_entry(view: memoryview, torn: int, end: int, next_offset: int) -> int:
    """Return where a whole entry with a right checksum begins behind the one at `torn`, or -1.

    It tells a length field that was damaged in the middle of a file from a torn tail. Candidates
    are found by the upper half of their offset, which is that of `next_offset`.
    """
    start = torn + 1
    wrapped = _is_wrapper(view, torn, end)
    window = bytes(view[start : min(end, start + _SEARCH_BYTES)])
    upper_half = struct.pack(">q", next_offset)[:4] if next_offset >= 0 else bytes(4)
    index = -1
    for _ in range(_SEARCH_CANDIDATES):
        index = window.find(upper_half, index + 1)
        if index < 0:
            break
        position = start + index
        size_bytes = whole_entry_bytes(view, position, end)
        if not size_bytes:
            continue
        try:
            batch, _ = read_entry(view, position, size_bytes, False, "")
        except CorruptEntryError:
            continue
        if batch.base_offset >= next_offset and not (wrapped and _is_inner(view, torn, position)):
            return position
    return -1


def _is_wrapper(view: memoryview, position: int, end: int) -> bool:
    left = end - position
    return left > MAGIC_AT + 1 and view[position + MAGIC_AT] < 2 and view[position + 17] & 7 != 0


def _is_inner(view: memoryview, wrapper: int, position: int) -> bool:
    """Return whether the entry at `position` is inside the wrapper, not behind its true end.

    Snappy and LZ4 store what they cannot shrink as it is, inner messages included. Only the
    wrapper's own checksum, over the bytes up to there, proves that it ended there.
    """
    (crc,) = _CRC.unpack_from(view, wrapper + 12)
    return bool(zlib.crc32(view[wrapper + MAGIC_AT : position]) != crc)


def _all_zero(view: memoryview, position: int, end: int) -> bool:
    for start in range(position, end, _ZERO_CHUNK_BYTES):
        chunk = bytes(view[start : min(start + _ZERO_CHUNK_BYTES, end)])
        if chunk.count(0) != len(chunk):
            return False
    return True
