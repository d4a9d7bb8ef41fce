"""Writes segment bytes for the tests, right ones and, on request, wrong ones."""

import struct
import zlib
from collections.abc import Sequence

import cramjam
from crc32c import crc32c

from kchaos.checkers.segments.compression import xxh32_short

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
Pair = tuple[bytes | None, bytes | None]


def varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    raw &= (1 << 64) - 1
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp_delta: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    attributes: int = 0,
) -> bytes:
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + nullable(key)
    body += nullable(value) + varint(len(headers))
    for name, content in headers:
        body += nullable(name) + nullable(content)
    return varint(len(body)) + body


def batch(
    base_offset: int,
    pairs: Sequence[Pair],
    *,
    codec: str = "none",
    leader_epoch: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
    record_count: int | None = None,
    section: bytes | None = None,
    timestamp: int = 1000,
) -> bytes:
    """Return a magic 2 batch; those before `timestamp` make it disagree with its records."""
    plain = b"".join(record(delta, key, value) for delta, (key, value) in enumerate(pairs))
    body = compress(codec, plain if section is None else section, magic=2)
    covered = struct.pack(
        ">hiqqqhii",
        CODEC_NUMBERS[codec] | attributes,
        len(pairs) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp + 1000,
        producer_id,
        producer_epoch,
        base_sequence,
        len(pairs) if record_count is None else record_count,
    )
    covered += body
    return struct.pack(
        ">qiibI", base_offset, len(covered) + 9, leader_epoch, 2, crc32c(covered)
    ) + (covered)


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    attributes: int = 0,
    timestamp: int = 1000,
) -> bytes:
    """Return one entry of magic 0 or 1."""
    covered = struct.pack(">bb", magic, attributes)
    covered += struct.pack(">q", timestamp) if magic else b""
    for part in (key, value):
        covered += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


def wrapper(
    base_offset: int,
    pairs: Sequence[Pair],
    *,
    codec: str,
    magic: int,
    attributes: int = 0,
    offset: int | None = None,
) -> bytes:
    """Return a compressed message set in its wrapper; inner offsets are relative in magic 1."""
    inner = b"".join(
        message(index if magic else base_offset + index, key, value, magic=magic)
        for index, (key, value) in enumerate(pairs)
    )
    return message(
        base_offset + len(pairs) - 1 if offset is None else offset,
        None,
        compress(codec, inner, magic=magic),
        magic=magic,
        attributes=CODEC_NUMBERS[codec] | attributes,
        timestamp=3000,
    )


def compress(codec: str, data: bytes, *, magic: int) -> bytes:
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "snappy":
        return xerial(data, block_bytes=64)
    if codec == "lz4":
        frame = bytes(cramjam.lz4.compress(data))
        return wrong_lz4_checksum(frame) if magic == 0 else frame
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data))
    return data


def xerial(data: bytes, *, block_bytes: int) -> bytes:
    """Return snappy-java's stream: a header, then blocks that each carry their length."""
    stream = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        stream += struct.pack(">i", len(block)) + block
    return stream


def wrong_lz4_checksum(frame: bytes) -> bytes:
    """Return the frame as magic 0 has it: the header checksum covers the magic number as well."""
    end = 4 + 2 + (8 if frame[4] & 0x08 else 0)
    return frame[:end] + bytes([(xxh32_short(frame[:end]) >> 8) & 0xFF]) + frame[end + 1 :]
