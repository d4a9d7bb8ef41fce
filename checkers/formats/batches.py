"""Boundaries of entries in a segment, or in a record set inside a message.

An entry is a record batch of magic 2 (Kafka's DefaultRecordBatch, 0.11 and later) or one message
of a message set of magic 0 or 1 (LegacyRecord, up to 0.10.2), which may wrap compressed ones.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

BATCH_FIELDS = (
    ("baseOffset", "q"),
    ("batchLength", "i"),
    ("partitionLeaderEpoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("lastOffsetDelta", "i"),
    ("baseTimestamp", "q"),
    ("maxTimestamp", "q"),
    ("producerId", "q"),
    ("producerEpoch", "h"),
    ("baseSequence", "i"),
    ("records count", "i"),
)
"""Name, in the words of Kafka's documentation, and `struct` letter of each field of magic 2."""
MESSAGE_FIELDS = (
    ("offset", "q"),
    ("messageSize", "i"),
    ("crc", "I"),
    ("magic", "b"),
    ("attributes", "b"),
)
"""The same for magic 0 and 1; magic 1 has an int64 timestamp behind them."""
BATCH_HEADER = struct.Struct(">" + "".join(kind for _, kind in BATCH_FIELDS))
MESSAGE_HEADER = struct.Struct(">" + "".join(kind for _, kind in MESSAGE_FIELDS))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the codecs, at the number that the attributes give them."""
CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
LOG_OVERHEAD_BYTES = 12
"""Size of the offset and the length in front of every entry."""
MAGIC_AT = 16
"""Where the magic is, counted from the beginning of an entry."""
MINIMUM_LENGTH = {0: 14, 1: 22, 2: BATCH_HEADER.size - LOG_OVERHEAD_BYTES}
"""Smallest length field of an entry, by magic: one message without key and value, or no record."""
SMALLEST_LENGTH = min(MINIMUM_LENGTH.values())

MOST_RECORDS = 1_000_000
"""Most records of one entry that are read, so that a few bytes cannot stand for any number."""
LARGEST_OFFSET = (1 << 63) - 2
"""The log end offset behind it must be an int64 too."""
SMALLEST_OFFSET = -(1 << 63)

_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xB")
_MESSAGE_ATTRIBUTES_AT = 17
_LEADER_EPOCH_AT = 12
_LAST_OFFSET_DELTA_AT = 23


class EntryPlace(NamedTuple):
    """One entry's place; `last_offset` is inclusive, `leader_epoch` is None before magic 2.

    `offset` is the one in front: the first record's (magic 2), or the last one's of a wrapper, of
    which nothing outside says where it begins.
    """

    position: int
    size_bytes: int
    magic: int
    offset: int
    last_offset: int
    leader_epoch: int | None
    is_wrapper: bool


def whole_entry_bytes(view: memoryview, position: int, end: int) -> int:
    """Return the size of the entry at `position`, or 0 if no whole one can be before `end`."""
    left = end - position
    if left < LOG_OVERHEAD_BYTES + SMALLEST_LENGTH:
        return 0
    length: int
    length, magic = _LENGTH_AND_MAGIC.unpack_from(view, position)
    minimum = MINIMUM_LENGTH.get(magic, SMALLEST_LENGTH)
    if length < minimum or length > left - LOG_OVERHEAD_BYTES:
        return 0
    return length + LOG_OVERHEAD_BYTES


def entries(head: memoryview, size_bytes: int) -> Iterator[EntryPlace]:
    """Give the whole entries, in order, as far as their headers are at hand.

    `size_bytes` is that of the whole file or record set, of which `head` may be the beginning
    only. Kafka cuts a fetched record set anywhere, so that its last entry may be a part of one.
    """
    position = 0
    while position + MESSAGE_HEADER.size <= len(head):
        size = whole_entry_bytes(head, position, size_bytes)
        if not size:
            return
        magic = head[position + MAGIC_AT]
        offset = last_offset = int(_OFFSET.unpack_from(head, position)[0])
        leader_epoch = None
        if magic >= 2:
            delta_at = position + _LAST_OFFSET_DELTA_AT
            if delta_at + _INT32.size > len(head):
                return
            last_offset += int(_INT32.unpack_from(head, delta_at)[0])
            leader_epoch = int(_INT32.unpack_from(head, position + _LEADER_EPOCH_AT)[0])
        is_wrapper = magic < 2 and bool(head[position + _MESSAGE_ATTRIBUTES_AT] & CODEC_MASK)
        yield EntryPlace(position, size, magic, offset, last_offset, leader_epoch, is_wrapper)
        position += size
