"""Decompression of what Kafka compresses, with the two framings that are Kafka's own habit.

Snappy comes in the stream framing of snappy-java (SnappyOutputStream), rarely raw. LZ4 frames in
magic 0 carry a wrong header checksum: Kafka's first LZ4 writer hashed the frame's magic number too
(KAFKA-3160), and brokers still write magic 0 that way.

What comes out of one batch is bounded: a few bytes can stand for gigabytes.
"""

import struct
from collections.abc import Callable

MOST_BYTES = 64 << 20
"""Most bytes that one batch may decompress to.

A broker takes batches of up to 1 MiB (message.max.bytes), and a producer fills a batch by its size
before compression.
"""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")

_LZ4_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_FLAG = 0x08
_LZ4_DICTIONARY_FLAG = 0x01

_FIRST_BUFFER_BYTES = 64 << 10
_USUAL_RATIO = 8
_GROWTH = 8
_BUFFER_IS_FULL = "failed to write whole buffer"

_XXH_PRIME_1 = 2654435761
_XXH_PRIME_2 = 2246822519
_XXH_PRIME_3 = 3266489917
_XXH_PRIME_4 = 668265263
_XXH_PRIME_5 = 374761393
_MASK_32 = 0xFFFFFFFF


class UndecodableError(ValueError):
    """Compressed bytes cannot be decompressed; the message says why."""


def decompress(codec: str, data: bytes | memoryview, *, magic: int) -> bytes:
    """Return the decompressed bytes of a batch's record section or of a wrapper's value.

    `codec` is a name of `checkers.formats.batches.CODECS`, `magic` the message format around it.

    Raises `UndecodableError` for bytes that the codec does not accept, and for more than
    `MOST_BYTES` of them.
    """
    # Imported here, since reading without decoding, the fast path, has no use for it.
    import cramjam

    plain = bytes(data)
    try:
        if codec == "gzip":
            return _bounded(cramjam.gzip.decompress_into, plain, codec)
        if codec == "snappy":
            return _snappy(plain)
        if codec == "lz4":
            frame = _mend_lz4_header(plain) if magic == 0 else plain
            return _bounded(cramjam.lz4.decompress_into, frame, codec)
        if codec == "zstd":
            return _bounded(cramjam.zstd.decompress_into, plain, codec)
    except cramjam.DecompressionError as error:
        raise UndecodableError(f"{codec}: {error}") from error
    raise UndecodableError(f"codec {codec!r} is unknown")


def _bounded(decompress_into: Callable[[bytes, bytearray], int], data: bytes, codec: str) -> bytes:
    """Decompress into a buffer that grows as long as it is too small, up to the bound."""
    import cramjam

    size = max(_FIRST_BUFFER_BYTES, _USUAL_RATIO * len(data))
    while True:
        buffer = bytearray(min(size, MOST_BYTES))
        try:
            return bytes(memoryview(buffer)[: decompress_into(data, buffer)])
        except cramjam.DecompressionError as error:
            if _BUFFER_IS_FULL not in str(error):
                raise
            if size >= MOST_BYTES:
                raise _too_much(codec) from None
        size *= _GROWTH


def _too_much(codec: str) -> UndecodableError:
    return UndecodableError(f"{codec}: it decompresses to more than {MOST_BYTES} bytes")


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, MOST_BYTES)
    blocks: list[bytes] = []
    left = MOST_BYTES
    position = 0
    while position < len(data):
        # Streams that were concatenated carry their header again between two blocks.
        if data.startswith(_XERIAL_MAGIC, position):
            position += _XERIAL_HEADER_BYTES
            continue
        if len(data) - position < _LENGTH.size:
            raise UndecodableError("snappy: the stream ends inside a block length")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length < 0 or length > len(data) - position:
            raise UndecodableError(f"snappy: block of {length} bytes does not fit the stream")
        blocks.append(_snappy_block(data[position : position + length], left))
        left -= len(blocks[-1])
        position += length
    return b"".join(blocks)


def _snappy_block(block: bytes, left: int) -> bytes:
    import cramjam

    # A block says first how long it is decompressed, and memory would be taken at its word.
    if cramjam.snappy.decompress_raw_len(block) > left:
        raise _too_much("snappy")
    return bytes(cramjam.snappy.decompress_raw(block))


def _mend_lz4_header(frame: bytes) -> bytes:
    if len(frame) < 7 or not frame.startswith(_LZ4_FRAME_MAGIC):
        return frame
    descriptor_bytes = 2
    descriptor_bytes += 8 if frame[4] & _LZ4_CONTENT_SIZE_FLAG else 0
    descriptor_bytes += 4 if frame[4] & _LZ4_DICTIONARY_FLAG else 0
    end = 4 + descriptor_bytes
    checksum = (xxh32_short(frame[4:end]) >> 8) & 0xFF
    return frame[:end] + bytes([checksum]) + frame[end + 1 :]


def xxh32_short(data: bytes) -> int:
    """Return XXH32 with seed 0 of at most 15 bytes, which is all that an LZ4 header needs."""
    if len(data) > 15:
        raise ValueError(f"xxh32_short takes at most 15 bytes, got {len(data)}")
    value = (_XXH_PRIME_5 + len(data)) & _MASK_32
    position = 0
    while position + 4 <= len(data):
        lane = int.from_bytes(data[position : position + 4], "little")
        value = (value + lane * _XXH_PRIME_3) & _MASK_32
        value = (_rotate_left(value, 17) * _XXH_PRIME_4) & _MASK_32
        position += 4
    for byte in data[position:]:
        value = (value + byte * _XXH_PRIME_5) & _MASK_32
        value = (_rotate_left(value, 11) * _XXH_PRIME_1) & _MASK_32
    value = ((value ^ (value >> 15)) * _XXH_PRIME_2) & _MASK_32
    value = ((value ^ (value >> 13)) * _XXH_PRIME_3) & _MASK_32
    return value ^ (value >> 16)


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK_32
