"""One record batch of magic 2 (Kafka's DefaultRecordBatch, 0.11 and later)."""

from collections.abc import Sequence

from crc32c import crc32c

from kchaos.checkers.formats.batches import (
    BATCH_HEADER,
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LARGEST_OFFSET,
    LOG_APPEND_TIME_FLAG,
    MOST_RECORDS,
    SMALLEST_OFFSET,
    TRANSACTIONAL_FLAG,
)
from kchaos.checkers.formats.fields import MalformedError
from kchaos.checkers.segments.batch import Batch, Record, payload_digest
from kchaos.checkers.segments.compression import UndecodableError, decompress
from kchaos.checkers.segments.records import coordinator_epoch, decode_records

_CRC_COVERED_FROM = 21
_SPARE = 0xFFC0
_NO_PRODUCER = (-1, -1, -1)


class CorruptEntryError(ValueError):
    """Nothing in an entry can be trusted, since its checksum is wrong or its header impossible."""


def read_record_batch(
    view: memoryview, position: int, size_bytes: int, *, decode: bool, file: str
) -> tuple[Batch, str]:
    """Return the batch at `position`, and what is wrong with it ("" if nothing is).

    `size_bytes` is the whole entry's, which the caller has found to lie inside `view`. Control
    batches are decoded even without `decode`, for their type.

    Raises `CorruptEntryError` if the CRC or an offset cannot be right: then nothing is true.
    """
    fields = BATCH_HEADER.unpack_from(view, position)
    base_offset, _, leader_epoch, magic, crc, attributes, last_offset_delta = fields[:7]
    base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence = fields[7:12]
    record_count = fields[12]
    own_crc = crc32c(view[position + _CRC_COVERED_FROM : position + size_bytes])
    if own_crc != crc:
        raise CorruptEntryError(f"its CRC-32C is {crc:#010x} and that of its bytes {own_crc:#010x}")
    _refuse_impossible(base_offset + last_offset_delta)
    codec_number = attributes & CODEC_MASK
    is_control = bool(attributes & CONTROL_FLAG)
    records: tuple[Record, ...] | None = None
    problem = _header_problem(codec_number, base_offset, last_offset_delta, record_count)
    if (decode or is_control) and not problem:
        try:
            records = _records(
                view[position + BATCH_HEADER.size : position + size_bytes],
                codec=CODECS[codec_number],
                record_count=record_count,
                base_offset=base_offset,
                last_offset=base_offset + last_offset_delta,
                base_timestamp=base_timestamp,
                log_append_time=max_timestamp if attributes & LOG_APPEND_TIME_FLAG else None,
                is_control=is_control,
            )
        except (UndecodableError, MalformedError) as error:
            problem = str(error)
    control = records[0] if is_control and records else None
    batch = Batch(
        base_offset=base_offset,
        last_offset=base_offset + last_offset_delta,
        leader_epoch=leader_epoch,
        magic=magic,
        codec=CODECS[codec_number] if codec_number < len(CODECS) else f"unknown-{codec_number}",
        crc=crc,
        record_count=record_count,
        is_control=is_control,
        is_transactional=bool(attributes & TRANSACTIONAL_FLAG),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp=max_timestamp,
        position=position,
        size_bytes=size_bytes,
        payload=payload_digest(records) if decode and records is not None else None,
        control_type=control.control_type if control else None,
        coordinator_epoch=coordinator_epoch(control) if control else -1,
        file=file,
        first_timestamp=base_timestamp,
        marks=_marks(fields, records or ()),
    )
    return batch, problem


def batch_records(view: memoryview, batch: Batch) -> tuple[Record, ...]:
    """Return the records of a magic 2 `batch` that was read from `view`.

    Raises `UndecodableError` or `MalformedError` for records that cannot be decoded.
    """
    fields = BATCH_HEADER.unpack_from(view, batch.position)
    return _records(
        view[batch.position + BATCH_HEADER.size : batch.position + batch.size_bytes],
        codec=batch.codec,
        record_count=batch.record_count,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        base_timestamp=fields[7],
        log_append_time=batch.max_timestamp if fields[5] & LOG_APPEND_TIME_FLAG else None,
        is_control=batch.is_control,
    )


def _records(
    section: memoryview,
    *,
    codec: str,
    record_count: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    log_append_time: int | None,
    is_control: bool,
) -> tuple[Record, ...]:
    # Compaction keeps the header of a batch that it emptied; there is nothing to decompress then.
    if record_count == 0 and not section:
        return ()
    plain = bytes(section) if codec == "none" else decompress(codec, section, magic=2)
    return decode_records(
        plain,
        record_count=record_count,
        base_offset=base_offset,
        last_offset=last_offset,
        base_timestamp=base_timestamp,
        log_append_time=log_append_time,
        is_control=is_control,
    )


def _refuse_impossible(last_offset: int) -> None:
    if not SMALLEST_OFFSET <= last_offset <= LARGEST_OFFSET:
        raise CorruptEntryError(f"its last offset would be {last_offset}")


def _marks(fields: tuple[int, ...], records: Sequence[Record]) -> str:
    attributes, max_timestamp, producer = fields[5], fields[8], fields[9:12]
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
            "producer {}, {}, {}".format(*producer): producer != _NO_PRODUCER,
        }
        marks = [name for name, is_set in flags.items() if is_set]
    if any(record.headers for record in records):
        marks.append("headers")
    if any(record.attributes for record in records):
        marks.append("attributes of records")
    if any(record.timestamp != max_timestamp for record in records):
        marks.append("records of several times")
    return ", ".join(marks)


def _header_problem(
    codec_number: int, base_offset: int, last_offset_delta: int, record_count: int
) -> str:
    if codec_number >= len(CODECS):
        return f"codec {codec_number} is unknown"
    if base_offset < 0:
        return f"its base offset {base_offset} is negative"
    if last_offset_delta < 0:
        return f"its last offset delta {last_offset_delta} is negative"
    if not 0 <= record_count <= last_offset_delta + 1:
        return f"it announces {record_count} records for {last_offset_delta + 1} offsets"
    if record_count > MOST_RECORDS:
        return f"it announces {record_count} records; at most {MOST_RECORDS} of a batch are read"
    return ""
