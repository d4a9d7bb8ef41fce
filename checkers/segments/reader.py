"""Segment files, from bytes to values: batches in their order, and findings where bytes are wrong.

Nothing here raises for bad bytes, since a chaos run makes them on purpose.
"""

import struct
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from checkers.findings import Finding
from checkers.segments.batch import Batch, Record
from checkers.segments.message import MINIMUM_LENGTH, message_records, read_message
from checkers.segments.record_batch import (
    HEADER,
    CorruptEntryError,
    batch_records,
    read_record_batch,
)

_LOG_OVERHEAD_BYTES = 12
_MAGIC_AT = 16
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_MINIMUM_LENGTH = {**MINIMUM_LENGTH, 2: HEADER.size - _LOG_OVERHEAD_BYTES}
_SMALLEST_LENGTH = min(_MINIMUM_LENGTH.values())

# Behind an entry that does not fit the file, whole ones are looked for this far and this often. The
# reach is above the largest batch that brokers accept by default (message.max.bytes, 1 MiB).
_SEARCH_BYTES = 4 << 20
_SEARCH_CANDIDATES = 50_000
_ZERO_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContents:
    """What one segment file holds.

    Attributes:
        batches: Every entry whose checksum is right, in file order.
        findings: What is wrong, in file order; kinds "corrupt-batch", "torn-tail", "zero-tail".
        end_position: Byte position behind the last whole entry, where reading stopped, exclusive.
    """

    batches: tuple[Batch, ...]
    findings: tuple[Finding, ...]
    end_position: int


def read_segment(
    data: bytes | memoryview,
    *,
    base_offset: int,
    file: str,
    decode_records: bool = True,
    start_position: int = 0,
    end_position: int | None = None,
) -> SegmentContents:
    """Return the batches and findings of a segment's bytes, between two byte positions.

    `base_offset` is the segment's, the number in its name; when reading starts in the middle, the
    first offset that may come there. `start_position` must be an entry's start; `end_position` is
    exclusive, the end of `data` if None. `file` is named in every batch and finding. Without
    `decode_records` the batches have no payload digest, and reading is many times faster.

    Never raises for bad bytes. An entry with a wrong checksum or an unknown magic gives a finding
    and no batch, and reading goes on behind it as long as lengths make sense. A batch whose
    checksum is right while its records, counts or offsets disagree gives a finding and a batch.
    Where the next entry's start is lost, reading ends with a finding.

    **Verifies**: framing; checksums; that offsets increase from `base_offset`; with
    `decode_records` also that records can be decompressed and parsed, are as many as announced,
    and lie within the batch's offsets. Any byte changed under a checksum gives a finding.
    **Does not verify**: what no checksum covers: the leader epoch, and an offset that still
    increases (`checkers.segments.directory` compares both with the files beside it; replicas are
    compared elsewhere); sequence numbers; timestamps; index files.
    """
    batches: list[Batch] = []
    findings: list[Finding] = []
    reading = iter_batches(
        data,
        base_offset=base_offset,
        file=file,
        decode_records=decode_records,
        start_position=start_position,
        end_position=end_position,
    )
    while True:
        try:
            item = next(reading)
        except StopIteration as stop:
            return SegmentContents(
                batches=tuple(batches), findings=tuple(findings), end_position=stop.value
            )
        if isinstance(item, Batch):
            batches.append(item)
        else:
            findings.append(item)


def iter_batches(
    data: bytes | memoryview,
    *,
    base_offset: int,
    file: str,
    decode_records: bool = False,
    start_position: int = 0,
    end_position: int | None = None,
) -> Generator[Batch | Finding, None, int]:
    """Yield what `read_segment` returns, one by one; the generator's value is the end position.

    Memory stays bounded by one batch, so `data` may be a mapped file of any size. Records are not
    decoded unless asked for.
    """
    view = memoryview(data).cast("B")
    end = len(view) if end_position is None else min(end_position, len(view))
    position = start_position
    least_offset = base_offset
    trusted = True
    while position < end:
        size_bytes = _whole_entry_bytes(view, position, end)
        if not size_bytes:
            yield _end_of_framing(view, position, end, file, trusted, least_offset)
            break
        try:
            batch, problem = _read_entry(view, position, size_bytes, decode_records, file)
        except CorruptEntryError as error:
            trusted = False
            yield _corrupt_entry(view, position, size_bytes, file, str(error))
        else:
            trusted = True
            if batch.base_offset < least_offset:
                before = f"its base offset {batch.base_offset} is below {least_offset}"
                problem = f"{before}; {problem}" if problem else before
            least_offset = max(batch.last_offset, batch.base_offset) + 1
            yield batch
            if problem:
                yield _disagreeing_batch(batch, problem)
        position += size_bytes
    return position


def read_records(data: bytes | memoryview, batch: Batch) -> tuple[Record, ...]:
    """Return the records of `batch`, which was read from the same `data`.

    Raises a `ValueError` that says why if they cannot be decoded; `read_segment` with
    `decode_records` reports such a batch as a finding.
    """
    view = memoryview(data).cast("B")
    return batch_records(view, batch) if batch.magic == 2 else message_records(view, batch)


def _whole_entry_bytes(view: memoryview, position: int, end: int) -> int:
    """Return the size of the entry at `position`, or 0 if no whole one can be there."""
    left = end - position
    if left < _LOG_OVERHEAD_BYTES + _SMALLEST_LENGTH:
        return 0
    length = int(_LENGTH.unpack_from(view, position + 8)[0])
    minimum = _MINIMUM_LENGTH.get(view[position + _MAGIC_AT], _SMALLEST_LENGTH)
    if length < minimum or length > left - _LOG_OVERHEAD_BYTES:
        return 0
    return length + _LOG_OVERHEAD_BYTES


def _read_entry(
    view: memoryview, position: int, size_bytes: int, decode: bool, file: str
) -> tuple[Batch, str]:
    magic = view[position + _MAGIC_AT]
    if magic == 2:
        return read_record_batch(view, position, size_bytes, decode=decode, file=file)
    if magic < 2:
        return read_message(view, position, size_bytes, decode=decode, file=file)
    raise CorruptEntryError(f"its magic {magic} is unknown")


def _corrupt_entry(
    view: memoryview, position: int, size_bytes: int, file: str, why: str
) -> Finding:
    offset, _ = _OFFSET_AND_LENGTH.unpack_from(view, position)
    magic = view[position + _MAGIC_AT]
    return Finding(
        kind="corrupt-batch",
        message=f"{file}: the entry at byte {position} is corrupt: {why}",
        evidence={
            "file": file,
            "position": position,
            "size_bytes": size_bytes,
            "stated_offset": offset,
            "stated_magic": magic,
        },
    )


def _disagreeing_batch(batch: Batch, problem: str) -> Finding:
    return Finding(
        kind="corrupt-batch",
        first_offset=batch.base_offset,
        last_offset=batch.last_offset,
        message=f"{batch.file}: the batch at byte {batch.position} disagrees with itself or the"
        f" batch before it: {problem}",
        evidence={
            "file": batch.file,
            "position": batch.position,
            "size_bytes": batch.size_bytes,
            "leader_epoch": batch.leader_epoch,
            "magic": batch.magic,
        },
    )


def _end_of_framing(
    view: memoryview, position: int, end: int, file: str, trusted: bool, next_offset: int
) -> Finding:
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
    if left >= _LOG_OVERHEAD_BYTES:
        _, length = _OFFSET_AND_LENGTH.unpack_from(view, position)
        smallest = _SMALLEST_LENGTH
        if left > _MAGIC_AT:
            magic = view[position + _MAGIC_AT]
            if magic not in _MINIMUM_LENGTH:
                return f"its magic {magic} is unknown"
            smallest = _MINIMUM_LENGTH[magic]
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
    found = -1
    for _ in range(_SEARCH_CANDIDATES):
        found = window.find(upper_half, found + 1)
        if found < 0:
            break
        position = start + found
        size_bytes = _whole_entry_bytes(view, position, end)
        if not size_bytes:
            continue
        try:
            batch, _ = _read_entry(view, position, size_bytes, False, "")
        except CorruptEntryError:
            continue
        if batch.base_offset >= next_offset and not (wrapped and _is_inner(view, torn, position)):
            return position
    return -1


def _is_wrapper(view: memoryview, position: int, end: int) -> bool:
    left = end - position
    return left > _MAGIC_AT + 1 and view[position + _MAGIC_AT] < 2 and view[position + 17] & 7 != 0


def _is_inner(view: memoryview, wrapper: int, position: int) -> bool:
    """Return whether the entry at `position` is inside the wrapper, not behind its true end.

    Snappy and LZ4 store what they cannot shrink as it is, inner messages included. Only the
    wrapper's own checksum, over the bytes up to there, proves that it ended there.
    """
    (crc,) = _CRC.unpack_from(view, wrapper + 12)
    return bool(zlib.crc32(view[wrapper + _MAGIC_AT : position]) != crc)


def _all_zero(view: memoryview, position: int, end: int) -> bool:
    for start in range(position, end, _ZERO_CHUNK_BYTES):
        chunk = bytes(view[start : min(start + _ZERO_CHUNK_BYTES, end)])
        if chunk.count(0) != len(chunk):
            return False
    return True
