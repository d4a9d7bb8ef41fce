"""The bytes of a batch's header, field by field, with what they mean."""

import datetime
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kchaos.checkers.formats.batches import (
    BATCH_FIELDS,
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    MESSAGE_FIELDS,
    TRANSACTIONAL_FLAG,
)
from kchaos.checkers.segments.batch import Batch

_FLAGS = (
    (LOG_APPEND_TIME_FLAG, "LogAppendTime"),
    (TRANSACTIONAL_FLAG, "transactional"),
    (CONTROL_FLAG, "control"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderField:
    """One field of a header.

    Attributes:
        name: As Kafka's message format documentation calls it.
        at: Byte position in the file; -1 for a field that is no bytes, as in a prediction.
        raw: Its bytes in hexadecimal, a blank between two; "" for one that is no bytes.
        value: What they say, in words where a number alone says little.
        differs: Whether the same field of another header beside it says something else.
    """

    name: str
    at: int
    raw: str
    value: str
    differs: bool = False


def header_fields(file: Path, batch: Batch) -> tuple[HeaderField, ...]:
    """Return a batch's header fields in a segment file: 61 bytes for magic 2, fewer before.

    Empty when the file is shorter than the header. The layouts are those of Kafka's
    DefaultRecordBatch (magic 2) and LegacyRecord (magic 0 and 1).
    """
    if not file.is_file():
        return ()
    layout = list(BATCH_FIELDS if batch.magic >= 2 else MESSAGE_FIELDS)
    if batch.magic == 1:
        layout.append(("timestamp", "q"))
    with file.open("rb") as handle:
        handle.seek(batch.position)
        raw = handle.read(struct.calcsize(">" + "".join(kind for _, kind in layout)))
    fields = []
    at = 0
    for name, kind in layout:
        size_bytes = struct.calcsize(">" + kind)
        if at + size_bytes > len(raw):
            return ()
        part = raw[at : at + size_bytes]
        number = int(struct.unpack(">" + kind, part)[0])
        value = _in_words(name, number)
        position = batch.position + at
        fields.append(HeaderField(name=name, at=position, raw=part.hex(" "), value=value))
        at += size_bytes
    return tuple(fields)


def mark_differences(headers: Sequence[tuple[HeaderField, ...]]) -> list[tuple[HeaderField, ...]]:
    """Return the headers with each field marked that is not the same in all of them."""
    seen: dict[str, set[str]] = {}
    for header in headers:
        for field in header:
            seen.setdefault(field.name, set()).add(field.value)
    return [
        tuple(replace(field, differs=len(seen[field.name]) > 1) for field in header)
        for header in headers
    ]


def _in_words(name: str, number: int) -> str:
    if name == "crc":
        return f"{number:#010x}"
    if name == "attributes":
        codec_number = number & CODEC_MASK
        codec = CODECS[codec_number] if codec_number < len(CODECS) else f"codec {codec_number}"
        flags = [word for bit, word in _FLAGS if number & bit]
        return ", ".join([f"{number:#06x}", f"codec {codec}", *flags])
    if name.lower().endswith("timestamp"):
        return _moment(number)
    return str(number)


def _moment(milliseconds: int) -> str:
    if milliseconds < 0:
        return f"{milliseconds} (none)"
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        moment = epoch + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} (no date)"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}Z"
