"""One record batch of magic 2 (Kafka's DefaultRecordBatch, 0.11 and later)."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from kchaos.checkers.formats.batches import (
    BATCH_HEADER,
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LARGEST_OFFSET,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MOST_RECORDS,
    SMALLEST_OFFSET,
    TRANSACTIONAL_FLAG,
)
from kchaos.checkers.formats.fields import MalformedError
from kchaos.checkers.segments.batch import Batch, Record, payload_digest
from kchaos.checkers.segments.compression import UndecodableError, decompress
from kchaos.checkers.segments.records import coordinator_epoch, decode_records

_LEADER_EPOCH_AT = 12
_CRC_COVERED_FROM = 21
_HEADER_BYTES = BATCH_HEADER.size
# Looked up once, since a large segment may have a batch for each record.
_unpack_header = BATCH_HEADER.unpack_from
_new_tuple = tuple.__new__
_SPARE = 0xFFC0
_NO_PRODUCER = (-1, -1, -1)
_PRODUCER_MARK = "producer {}, {}, {}"


class CorruptEntryError(ValueError):
    """Nothing in an entry can be trusted, since its checksum is wrong or its header impossible."""


class _Header(NamedTuple):
    """The header's fields in the order of its bytes, named as Kafka names them."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


_CODEC_COUNT = len(CODECS)
_CODEC_NAMES = (*CODECS, *(f"unknown-{number}" for number in range(_CODEC_COUNT, CODEC_MASK + 1)))


def ordinary_batch(view: memoryview, position: int, end: int, file: str) -> Batch | None:
    """Return the batch at `position`, not decoded, if nothing about it needs a closer look.

    An ordinary batch is a whole one of magic 2 before `end`, exclusive, whose checksum and header
    are right and which has no flags; it may be compressed, and have a producer. For anything else
    None is returned, which says nothing of it. `read_record_batch` returns the same batch in twice
    the time, and a large segment may have a batch for each record.
    """
    if end - position < _HEADER_BYTES:
        return None
    (
        base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
        first_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
    ) = _unpack_header(view, position)  # fmt: skip
    size_bytes = LOG_OVERHEAD_BYTES + length
    last_offset = base_offset + last_offset_delta
    if (
        magic != 2
        or not _HEADER_BYTES <= size_bytes <= end - position
        or not 0 <= attributes < _CODEC_COUNT
        or not 0 <= base_offset <= last_offset <= LARGEST_OFFSET
        or not 0 <= record_count <= last_offset_delta + 1
        or record_count > MOST_RECORDS
        or crc32c(view[position + _CRC_COVERED_FROM : position + size_bytes]) != crc
    ):
        return None
    marks = ""
    if producer_id != -1 or producer_epoch != -1 or base_sequence != -1:
        marks = _PRODUCER_MARK.format(producer_id, producer_epoch, base_sequence)
    # A NamedTuple's own constructor takes twice as long.
    return _new_tuple(
        Batch,
        (
            base_offset, last_offset, leader_epoch, magic, CODECS[attributes], crc, record_count,
            False, False, producer_id, producer_epoch, base_sequence, max_timestamp, position,
            size_bytes, None, None, -1, file, first_timestamp, marks,
        ),
    )  # fmt: skip


def read_record_batch(
    view: memoryview, position: int, size_bytes: int, *, decode: bool, file: str
) -> tuple[Batch, str]:
    """Return the batch at `position`, and what is wrong with it ("" if nothing is).

    `size_bytes` is the whole entry's, which the caller has found to lie inside `view`. Control
    batches are decoded even without `decode`, for their type.

    Raises `CorruptEntryError` if the CRC or an offset cannot be right: then nothing is true.
    """
    header = _header(view, position)
    own_crc = crc32c(view[position + _CRC_COVERED_FROM : position + size_bytes])
    if own_crc != header.crc:
        raise CorruptEntryError(
            f"its CRC-32C is {header.crc:#010x} and that of its bytes {own_crc:#010x}"
        )
    attributes, base_offset = header.attributes, header.base_offset
    last_offset = base_offset + header.last_offset_delta
    _refuse_impossible(last_offset)
    is_control = bool(attributes & CONTROL_FLAG)
    content = _Content(None, "", _header_problem(header))
    if (decode or is_control) and not content.problem:
        content = _content(view[position : position + size_bytes], header, is_control)
    control = content.control
    # Positions in place of names: a call with this many names takes three times as long.
    batch = Batch(
        base_offset,
        last_offset,
        header.partition_leader_epoch,
        header.magic,
        _CODEC_NAMES[attributes & CODEC_MASK],
        header.crc,
        header.record_count,
        is_control,
        bool(attributes & TRANSACTIONAL_FLAG),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        position,
        size_bytes,
        content.payload if decode else None,
        control.control_type if control else None,
        coordinator_epoch(control) if control else -1,
        file,
        header.base_timestamp,
        content.marks or _marks(header, ()),
    )
    return batch, content.problem


class _Content(NamedTuple):
    """What the records of a batch come to."""

    payload: str | None
    marks: str
    problem: str
    control: Record | None = None


_known: dict[bytes, _Content] = {}
_MOST_KNOWN = 200_000


def _content(entry: memoryview, header: _Header, is_control: bool) -> _Content:
    """Return what the records of a batch come to, which is the same on each replica.

    There its bytes differ by nothing but the leader epoch.
    """
    name = hashlib.blake2b(entry[_CRC_COVERED_FROM:], digest_size=16)
    name.update(entry[:_LEADER_EPOCH_AT])
    content = _known.get(name.digest())
    if content is None:
        try:
            records = _records(entry[_HEADER_BYTES:], header)
        except (UndecodableError, MalformedError) as error:
            return _Content(None, "", str(error))
        control = records[0] if is_control and records else None
        content = _Content(payload_digest(records), _marks(header, records), "", control)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name.digest()] = content
    return content


def batch_records(view: memoryview, batch: Batch) -> tuple[Record, ...]:
    """Return the records of a magic 2 `batch` that was read from `view`.

    Raises `UndecodableError` or `MalformedError` for records that cannot be decoded.
    """
    section = view[batch.position + _HEADER_BYTES : batch.position + batch.size_bytes]
    return _records(section, _header(view, batch.position))


def _header(view: memoryview, position: int) -> _Header:
    return _Header._make(_unpack_header(view, position))


def _records(section: memoryview, header: _Header) -> tuple[Record, ...]:
    # Compaction keeps the header of a batch that it emptied; there is nothing to decompress then.
    if header.record_count == 0 and not section:
        return ()
    attributes = header.attributes
    codec, is_stamped = _CODEC_NAMES[attributes & CODEC_MASK], attributes & LOG_APPEND_TIME_FLAG
    return decode_records(
        bytes(section) if codec == "none" else decompress(codec, section, magic=2),
        record_count=header.record_count,
        base_offset=header.base_offset,
        last_offset=header.base_offset + header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        log_append_time=header.max_timestamp if is_stamped else None,
        is_control=bool(attributes & CONTROL_FLAG),
    )


def _refuse_impossible(last_offset: int) -> None:
    if not SMALLEST_OFFSET <= last_offset <= LARGEST_OFFSET:
        raise CorruptEntryError(f"its last offset would be {last_offset}")


def _marks(header: _Header, records: Sequence[Record]) -> str:
    attributes = header.attributes
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    marks = []
    is_plain = 0 <= attributes <= CODEC_MASK and producer == _NO_PRODUCER
    if is_plain and not records:
        return ""
    if not is_plain:
        flags = {
            "transactional": attributes & TRANSACTIONAL_FLAG,
            "control": attributes & CONTROL_FLAG,
            "log append time": attributes & LOG_APPEND_TIME_FLAG,
            f"attributes {attributes & _SPARE:#x}": attributes & _SPARE,
            _PRODUCER_MARK.format(*producer): producer != _NO_PRODUCER,
        }
        marks = [name for name, is_set in flags.items() if is_set]
    if any(record.headers for record in records):
        marks.append("headers")
    if any(record.attributes for record in records):
        marks.append("attributes of records")
    if any(record.timestamp != header.max_timestamp for record in records):
        marks.append("records of several times")
    return ", ".join(marks)


def _header_problem(header: _Header) -> str:
    codec_number, record_count = header.attributes & CODEC_MASK, header.record_count
    offsets = header.last_offset_delta + 1
    if codec_number >= _CODEC_COUNT:
        return f"codec {codec_number} is unknown"
    if header.base_offset < 0:
        return f"its base offset {header.base_offset} is negative"
    if offsets < 1:
        return f"its last offset delta {header.last_offset_delta} is negative"
    if not 0 <= record_count <= offsets:
        return f"it announces {record_count} records for {offsets} offsets"
    if record_count > MOST_RECORDS:
        return f"it announces {record_count} records; at most {MOST_RECORDS} of a batch are read"
    return ""
