"""One entry of a message set of magic 0 or 1 (Kafka's LegacyRecord, up to 0.10.2).

An entry is a message, or a wrapper message whose value is a compressed message set.
"""

import itertools
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from kchaos.checkers.formats.batches import (
    CODEC_MASK,
    CODECS,
    LARGEST_OFFSET,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MESSAGE_HEADER,
    MINIMUM_LENGTH,
    MOST_RECORDS,
    SMALLEST_OFFSET,
)
from kchaos.checkers.formats.fields import MalformedError, take_nullable
from kchaos.checkers.segments.batch import Batch, Record, payload_digest
from kchaos.checkers.segments.compression import UndecodableError, decompress
from kchaos.checkers.segments.record_batch import CorruptEntryError

_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_COVERED_FROM = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    offset: int
    length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | memoryview | None


def read_message(
    view: memoryview, position: int, size_bytes: int, *, decode: bool, file: str
) -> tuple[Batch, str]:
    """Return the entry at `position` as a batch, and what is wrong with it ("" if nothing is).

    A wrapper is decompressed even without `decode`: only its last offset stands outside.

    Raises `CorruptEntryError` if the CRC does not match, for offsets that no log can have, and for
    a wrapper that cannot be decompressed: its first offset is then unknown.
    """
    message = _message(view, position, size_bytes)
    codec_number = message.attributes & CODEC_MASK
    # Zstandard came after magic 2 and is refused for older messages.
    codec = CODECS[codec_number] if codec_number < 4 else f"unknown-{codec_number}"
    problem = ""
    if codec_number:
        records, problem = _inner_records(message, codec)
    else:
        records = (_record(message, message.offset, message.timestamp),)
    for offset in (records[0].offset, message.offset):
        if not SMALLEST_OFFSET <= offset <= LARGEST_OFFSET:
            raise CorruptEntryError(f"it would have the offset {offset}")
    if message.offset < 0:
        problem = problem or f"its offset {message.offset} is negative"
    batch = Batch(
        base_offset=records[0].offset,
        last_offset=message.offset,
        leader_epoch=-1,
        magic=message.magic,
        codec=codec,
        crc=message.crc,
        record_count=len(records),
        is_control=False,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=message.timestamp,
        position=position,
        size_bytes=size_bytes,
        payload=payload_digest(records) if decode and not problem else None,
        file=file,
        first_timestamp=records[0].timestamp,
        marks=_marks(message, records),
    )
    return batch, problem


def _marks(message: _Message, records: Sequence[Record]) -> str:
    marks = ["log append time"] if message.attributes & LOG_APPEND_TIME_FLAG else []
    if any(record.timestamp != message.timestamp for record in records):
        marks.append("records of several times")
    return ", ".join(marks)


def message_records(view: memoryview, batch: Batch) -> tuple[Record, ...]:
    """Return the records of a magic 0 or 1 `batch` that was read from `view`.

    Raises `CorruptEntryError` for a wrapper that cannot be decompressed.
    """
    message = _message(view, batch.position, batch.size_bytes)
    if batch.codec == "none":
        return (_record(message, message.offset, message.timestamp),)
    return _inner_records(message, batch.codec)[0]


def _message(view: memoryview, position: int, size_bytes: int) -> _Message:
    offset, length, crc, magic, attributes = MESSAGE_HEADER.unpack_from(view, position)
    end = position + size_bytes
    own_crc = zlib.crc32(view[position + _CRC_COVERED_FROM : end])
    if own_crc != crc:
        raise CorruptEntryError(f"its CRC-32 is {crc:#010x} and that of its bytes {own_crc:#010x}")
    cursor = position + MESSAGE_HEADER.size
    timestamp = -1
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(view, cursor)
        cursor += _TIMESTAMP.size
    key, cursor = _nullable_bytes(view, cursor, end)
    value, cursor = _nullable_bytes(view, cursor, end)
    if cursor != end:
        raise CorruptEntryError(f"{end - cursor} bytes are left behind its value")
    return _Message(
        offset=offset,
        length=length,
        crc=crc,
        magic=magic,
        attributes=attributes,
        timestamp=timestamp,
        key=key,
        value=value,
    )


def _nullable_bytes(view: memoryview, cursor: int, end: int) -> tuple[bytes | None, int]:
    if cursor + _LENGTH.size > end:
        raise CorruptEntryError("it is too short for its key and value")
    (length,) = _LENGTH.unpack_from(view, cursor)
    try:
        return take_nullable(view[:end], cursor + _LENGTH.size, length)
    except MalformedError as error:
        raise CorruptEntryError(f"{error} it") from None


def _record(message: _Message, offset: int, timestamp: int) -> Record:
    value = None if message.value is None else bytes(message.value)
    return Record(offset=offset, timestamp=timestamp, key=message.key, value=value)


def _inner_records(wrapper: _Message, codec: str) -> tuple[tuple[Record, ...], str]:
    if wrapper.value is None:
        raise CorruptEntryError("it is a compressed wrapper without a value")
    try:
        plain = memoryview(decompress(codec, wrapper.value, magic=wrapper.magic))
    except UndecodableError as error:
        raise CorruptEntryError(f"it cannot be decompressed: {error}") from error
    messages = _inner_messages(plain, wrapper)
    # Magic 1 numbers the inner messages from 0 and puts the last one's absolute offset outside.
    base = wrapper.offset - messages[-1].offset if wrapper.magic else 0
    log_append_time = wrapper.magic and wrapper.attributes & LOG_APPEND_TIME_FLAG
    records = tuple(
        _record(
            message,
            base + message.offset,
            wrapper.timestamp if log_append_time else message.timestamp,
        )
        for message in messages
    )
    return records, _offsets_problem(wrapper, records)


def _inner_messages(plain: memoryview, wrapper: _Message) -> list[_Message]:
    messages: list[_Message] = []
    position = 0
    while position < len(plain):
        left = len(plain) - position
        length = _LENGTH.unpack_from(plain, position + 8)[0] if left >= LOG_OVERHEAD_BYTES else -1
        size_bytes = LOG_OVERHEAD_BYTES + length
        if length < MINIMUM_LENGTH[wrapper.magic] or size_bytes > left:
            raise CorruptEntryError(
                f"inner message {len(messages)} does not fit the {len(plain)} decompressed bytes"
            )
        try:
            message = _message(plain, position, size_bytes)
        except CorruptEntryError as error:
            raise CorruptEntryError(f"inner message {len(messages)}: {error}") from None
        if message.magic != wrapper.magic:
            raise CorruptEntryError(f"inner message {len(messages)} has magic {message.magic}")
        if message.attributes & CODEC_MASK:
            raise CorruptEntryError(f"inner message {len(messages)} is compressed again")
        if len(messages) == MOST_RECORDS:
            raise CorruptEntryError(f"it holds more than {MOST_RECORDS} messages")
        messages.append(message)
        position += size_bytes
    if not messages:
        raise CorruptEntryError("it is a compressed wrapper with nothing inside")
    return messages


def _offsets_problem(wrapper: _Message, records: tuple[Record, ...]) -> str:
    if records[-1].offset != wrapper.offset:
        return (
            f"its own offset {wrapper.offset} is not that of its last inner message,"
            f" {records[-1].offset}"
        )
    for earlier, later in itertools.pairwise(records):
        if later.offset <= earlier.offset:
            return f"its inner offsets go from {earlier.offset} to {later.offset}"
    if records[0].offset < 0:
        return f"its first inner offset {records[0].offset} is negative"
    return ""
