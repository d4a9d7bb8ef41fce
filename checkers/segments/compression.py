"""Decompression of what Kafka compresses, with the two framings that are Kafka's own habit.

Snappy comes in the stream framing of snappy-java (SnappyOutputStream), rarely raw. LZ4 frames in
magic 0 carry a wrong header checksum: Kafka's first LZ4 writer hashed the frame's magic number too
(KAFKA-3160), and brokers still write magic 0 that way.
"""

import struct

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")

_LZ4_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_FLAG = 0x08
_LZ4_DICTIONARY_FLAG = 0x01

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

    Raises `UndecodableError` for bytes that the codec does not accept.
    """
    # Imported here, since reading without decoding, the fast path, has no use for it.
    import cramjam

    try:
        if codec == "gzip":
            return bytes(cramjam.gzip.decompress(data))
        if codec == "snappy":
            return _snappy(bytes(data))
        if codec == "lz4":
            frame = bytes(data)
            return bytes(cramjam.lz4.decompress(_mend_lz4_header(frame) if magic == 0 else frame))
        if codec == "zstd":
            return bytes(cramjam.zstd.decompress(data))
    except cramjam.DecompressionError as error:
        raise UndecodableError(f"{codec}: {error}") from error
    raise UndecodableError(f"codec {codec!r} is unknown")


def _snappy(data: bytes) -> bytes:
    import cramjam

    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
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
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position : position + length])))
        position += length
    return b"".join(blocks)


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
