"""Records of a magic 2 batch, from the bytes behind its header (Kafka's DefaultRecord)."""

import struct

from kchaos.checkers.formats.fields import MalformedError, read_varint, take_nullable
from kchaos.checkers.segments.batch import CONTROL_TYPES, Record

_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")


def decode_records(
    section: bytes,
    *,
    record_count: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    log_append_time: int | None,
    is_control: bool,
) -> tuple[Record, ...]:
    """Return the records of a decompressed record section.

    `log_append_time` in milliseconds replaces every record's own timestamp if the batch has that
    timestamp type. Offsets must increase and lie between `base_offset` and `last_offset`, both
    inclusive; compaction may have removed some, so they need not be consecutive.

    Raises `MalformedError` if the section does not hold exactly `record_count` such records.
    """
    records = []
    position = 0
    previous_offset = base_offset - 1
    try:
        for index in range(record_count):
            length, position = read_varint(section, position)
            end = position + length
            if length < 0 or end > len(section):
                raise MalformedError(f"record {index} of {record_count} is cut short")
            record, position = _record(
                section, position, base_offset, base_timestamp, log_append_time, is_control
            )
            if position != end:
                raise MalformedError(f"record {index} is not as long as it says")
            if not previous_offset < record.offset <= last_offset:
                raise MalformedError(
                    f"record {index} has offset {record.offset}; it must be above"
                    f" {previous_offset} and at most {last_offset}"
                )
            previous_offset = record.offset
            records.append(record)
    except IndexError:
        raise MalformedError(
            f"the record section ends inside record {len(records)} of {record_count}"
        ) from None
    if position != len(section):
        raise MalformedError(
            f"{len(section) - position} bytes are left after the {record_count} records"
        )
    return tuple(records)


def _record(
    section: bytes,
    position: int,
    base_offset: int,
    base_timestamp: int,
    log_append_time: int | None,
    is_control: bool,
) -> tuple[Record, int]:
    attributes = section[position]
    position += 1
    timestamp_delta, position = read_varint(section, position)
    offset_delta, position = read_varint(section, position)
    key, position = _nullable_bytes(section, position)
    value, position = _nullable_bytes(section, position)
    header_count, position = read_varint(section, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if header_count:
        headers, position = _headers(section, position, header_count)
    return (
        Record(
            offset=base_offset + offset_delta,
            timestamp=(
                base_timestamp + timestamp_delta if log_append_time is None else log_append_time
            ),
            key=key,
            value=value,
            headers=headers,
            control_type=control_type(key) if is_control else None,
            attributes=attributes,
        ),
        position,
    )


def _nullable_bytes(section: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(section, position)
    return take_nullable(section, position, length)


def _headers(
    section: bytes, position: int, header_count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= header_count <= len(section) - position:
        raise MalformedError(f"a record announces {header_count} headers")
    headers = []
    for _ in range(header_count):
        name, position = _nullable_bytes(section, position)
        if name is None:
            raise MalformedError("a header has no name")
        value, position = _nullable_bytes(section, position)
        headers.append((name.decode("utf-8", "backslashreplace"), value))
    return tuple(headers), position


def control_type(key: bytes | None) -> str:
    """Return the name of a control record's type by its key, "UNKNOWN" if it has none."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return "UNKNOWN"
    return CONTROL_TYPES.get(_CONTROL_KEY.unpack_from(key)[1], "UNKNOWN")


def coordinator_epoch(record: Record) -> int:
    """Return the coordinator epoch that an ABORT or COMMIT record carries, -1 for any other."""
    if record.control_type not in ("ABORT", "COMMIT") or record.value is None:
        return -1
    if len(record.value) < _END_TRANSACTION_VALUE.size:
        return -1
    return int(_END_TRANSACTION_VALUE.unpack_from(record.value)[1])
