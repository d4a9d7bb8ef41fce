"""Content of a segment as values: batches, records, and the digest that compares payloads."""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

CONTROL_TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
"""Names of the control record types (Kafka's ControlRecordType in 3.9)."""

_MODULUS = (1 << 61) - 1
_RADIX = 0x1A2B3C4D5E6F708
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch.

    Attributes:
        offset: Absolute offset.
        timestamp: Milliseconds since the epoch; -1 where the format has none (magic 0).
        key: The key, or None for a null key.
        value: The value, or None for a null value (a tombstone).
        headers: Name and value of each header, in order; empty before magic 2.
        attributes: The record's own, of which no bit has a meaning; 0 before magic 2.
        control_type: "ABORT", "COMMIT", … in a control batch, else None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    control_type: str | None = None
    attributes: int = 0


class Batch(NamedTuple):
    """One entry of a segment: a record batch (magic 2) or a message (magic 0 and 1).

    A tuple, since a large segment has a batch for each record, and making a frozen dataclass
    takes a third of reading it.

    A message set of magic 0 or 1 has no batch around it. Uncompressed, each message is an entry of
    its own and so a Batch of its own, even when one produce request wrote many; compressed, the
    wrapper message with all that is inside it is one Batch.

    Attributes:
        base_offset: Offset of the first record, inclusive. For magic 2 the header's, which
            compaction keeps although the first record may be gone.
        last_offset: Offset of the last record, inclusive.
        leader_epoch: The partition leader epoch; -1 for magic 0 and 1. No CRC covers it.
        magic: The message format: 0, 1 or 2.
        codec: A name in `checkers.formats.batches.CODECS`.
        crc: The checksum as it is stored: CRC-32C for magic 2, CRC-32 before.
        record_count: How many records the header announces (magic 2), or are there (0 and 1).
        is_control: Whether it holds a transaction marker or another control record.
        is_transactional: Whether it was written inside a transaction.
        producer_id: The idempotent producer's id, or -1.
        producer_epoch: The idempotent producer's epoch, or -1.
        base_sequence: The first record's sequence number, or -1.
        max_timestamp: Milliseconds since the epoch; -1 for magic 0.
        position: Byte position of the entry in its file.
        size_bytes: Size of the whole entry on disk, its offset and length fields included.
        payload: `payload_digest` of the records; None when they were not decoded.
        control_type: "ABORT", "COMMIT", … for a control batch, else None.
        coordinator_epoch: The transaction coordinator's epoch in an ABORT or COMMIT, else -1.
        file: Name of the segment file, as it was given to the reader.
        first_timestamp: Milliseconds since the epoch; -1 for magic 0.
        marks: What a produce of kchaos's own never has, in words: a producer id, a flag,
            headers, attributes, records of several times; "" if nothing, or if only its records
            would tell and were not decoded.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    codec: str
    crc: int
    record_count: int
    is_control: bool
    is_transactional: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    position: int
    size_bytes: int
    payload: str | None
    control_type: str | None = None
    coordinator_epoch: int = -1
    file: str = ""
    first_timestamp: int = -1
    marks: str = ""


def payload_digest(records: Iterable[Record]) -> str:
    """Return a stable digest, 16 hex digits, of the records' keys and values in their order.

    It does not depend on magic, codec, offsets, timestamps or headers: a batch that was
    down-converted to an older message format keeps its digest. Digests of neighbours can be joined
    (`join_payload_digests`), since an older format may store the same records as many entries.

    Each record's key and value, preceded by their lengths (-1 for null), are hashed (BLAKE2b, 64
    bits), and the hashes are the digits of one number modulo 2**61 - 1.

    **Verifies**: the same digest and the same number of records mean the same keys and values in
    the same order, up to a chance collision of about 1 in 2**61.
    **Does not verify**: headers and timestamps (older formats lack them), offsets, and how records
    are grouped into batches.
    """
    digest = 0
    for record in records:
        digest = (digest * _RADIX + _record_hash(record)) % _MODULUS
    return f"{digest:016x}"


def join_payload_digests(parts: Iterable[tuple[str, int]]) -> str:
    """Return the digest of neighbouring batches' records together.

    Each part is a batch's payload digest and its number of records, in offset order. So five
    messages of magic 1 compare equal to the one batch of magic 2 that holds the same records.
    """
    digest = 0
    for payload, record_count in parts:
        digest = (digest * pow(_RADIX, record_count, _MODULUS) + int(payload, 16)) % _MODULUS
    return f"{digest:016x}"


def _record_hash(record: Record) -> int:
    parts: list[bytes] = []
    for part in (record.key, record.value):
        parts += (_NULL,) if part is None else (_LENGTH.pack(len(part)), part)
    hashed = hashlib.blake2b(b"".join(parts), digest_size=8).digest()
    # Never 0, so that a record always counts.
    return int.from_bytes(hashed, "big") % (_MODULUS - 1) + 1
