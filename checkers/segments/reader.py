"""Segment files, from bytes to values: batches in their order, and findings where bytes are wrong.

Nothing here raises for bad bytes, since a chaos run makes them on purpose.
"""

import struct
from collections.abc import Generator
from dataclasses import dataclass

from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.batches import MAGIC_AT, whole_entry_bytes
from kchaos.checkers.segments.batch import Batch, Record
from kchaos.checkers.segments.framing import end_of_framing, read_entry
from kchaos.checkers.segments.message import message_records
from kchaos.checkers.segments.record_batch import CorruptEntryError, batch_records, ordinary_batch

_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContents:
    """Content of one segment file.

    Attributes:
        batches: Every entry whose checksum is right, in file order.
        findings: What is wrong, in file order; kinds "corrupt-batch", "torn-tail", "zero-tail".
        end_position: Byte position behind the last whole entry, where reading stopped, exclusive.
    """

    batches: tuple[Batch, ...]
    findings: tuple[Finding, ...]
    end_position: int


def read_segment(
    data: bytes | memoryview, *, base_offset: int, file: str, decode_records: bool = True
) -> SegmentContents:
    """Return the batches and findings of a segment's bytes.

    `base_offset` is the number in the segment's name. `file` is named in every batch and finding.
    Without `decode_records` the batches have no payload digest, and reading is many times faster.

    Never raises for bad bytes. An entry with a wrong checksum or an unknown magic gives a finding
    and no batch, and reading goes on behind it as long as lengths make sense. A batch whose
    checksum is right while its records, counts or offsets disagree gives a finding and a batch.
    Where the next entry's start is lost, reading ends with a finding.

    **Verifies**: framing; checksums; that offsets increase from `base_offset`; with
    `decode_records` also that records can be decompressed and parsed, are as many as announced,
    and lie within the batch's offsets. Any byte changed under a checksum gives a finding.
    **Does not verify**: what no checksum covers: the leader epoch, and an offset that still
    increases (`checkers.segments.directory` compares both with the files beside it; replicas are
    compared elsewhere); sequence numbers; timestamps; index files.
    """
    batches: list[Batch] = []
    findings: list[Finding] = []
    reading = iter_batches(data, base_offset=base_offset, file=file, decode_records=decode_records)
    while True:
        try:
            item = next(reading)
        except StopIteration as stop:
            return SegmentContents(
                batches=tuple(batches), findings=tuple(findings), end_position=stop.value
            )
        if isinstance(item, Batch):
            batches.append(item)
        else:
            findings.append(item)


def iter_batches(
    data: bytes | memoryview, *, base_offset: int, file: str, decode_records: bool = False
) -> Generator[Batch | Finding, None, int]:
    """Yield what `read_segment` returns, one by one; the generator's value is the end position.

    Memory stays bounded by one batch, so `data` may be a mapped file of any size. Records are not
    decoded unless asked for.
    """
    view = memoryview(data).cast("B")
    end, position = len(view), 0
    least_offset = base_offset
    trusted = True
    while position < end:
        if not decode_records:
            ordinary = ordinary_batch(view, position, end, file)
            if ordinary is not None and ordinary.base_offset >= least_offset:
                yield ordinary
                trusted = True
                least_offset = ordinary.last_offset + 1
                position += ordinary.size_bytes
                continue
        size_bytes = whole_entry_bytes(view, position, end)
        if not size_bytes:
            yield end_of_framing(view, position, end, file, trusted, least_offset)
            break
        try:
            batch, problem = read_entry(view, position, size_bytes, decode_records, file)
        except CorruptEntryError as error:
            trusted = False
            yield _corrupt_entry(view, position, size_bytes, file, str(error))
            position += size_bytes
            continue
        trusted = True
        if batch.base_offset < least_offset:
            before = f"its base offset {batch.base_offset} is below {least_offset}"
            problem = f"{before}; {problem}" if problem else before
        least_offset = max(batch.last_offset, batch.base_offset) + 1
        yield batch
        if problem:
            yield _disagreeing_batch(batch, problem)
        position += batch.size_bytes
    return position


def read_records(data: bytes | memoryview, batch: Batch) -> tuple[Record, ...]:
    """Return the records of `batch`, which was read from the same `data`.

    Raises a `ValueError` that says why if they cannot be decoded; `read_segment` with
    `decode_records` reports such a batch as a finding.
    """
    view = memoryview(data).cast("B")
    return batch_records(view, batch) if batch.magic == 2 else message_records(view, batch)


def _corrupt_entry(
    view: memoryview, position: int, size_bytes: int, file: str, why: str
) -> Finding:
    (offset,) = _OFFSET.unpack_from(view, position)
    magic = view[position + MAGIC_AT]
    return Finding(
        kind="corrupt-batch",
        message=f"{file}: the entry at byte {position} is corrupt: {why}",
        evidence={
            "file": file,
            "position": position,
            "size_bytes": size_bytes,
            "stated_offset": offset,
            "stated_magic": magic,
        },
    )


def _disagreeing_batch(batch: Batch, problem: str) -> Finding:
    return Finding(
        kind="corrupt-batch",
        first_offset=batch.base_offset,
        last_offset=batch.last_offset,
        message=f"{batch.file}: the batch at byte {batch.position} disagrees with itself or the"
        f" batch before it: {problem}",
        evidence={
            "file": batch.file,
            "position": batch.position,
            "size_bytes": batch.size_bytes,
            "leader_epoch": batch.leader_epoch,
            "magic": batch.magic,
        },
    )
