"""Ordinary batches, which are read at once, beside the closer look that reads every entry."""

import itertools
import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from kchaos.checkers.formats.batches import LARGEST_OFFSET, MOST_RECORDS, whole_entry_bytes
from kchaos.checkers.segments import reader
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.framing import read_entry
from kchaos.checkers.segments.reader import iter_batches, read_segment
from kchaos.checkers.segments.record_batch import CorruptEntryError, ordinary_batch
from tests.support.segment_encoder import Pair, batch

PAIRS: list[Pair] = [(b"a", b"1" * 40), (None, b"2"), (b"b", None)]
BEFORE, SECTION = b"before", b"thirteen more"
LARGEST_INT32, SMALLEST_INT64 = (1 << 31) - 1, -(1 << 63)

# The first value of each field is that of an ordinary batch; the others are at its limits.
VALUES = {
    "base_offset": (7, 0, -1, LARGEST_OFFSET - 2, LARGEST_OFFSET - 1, SMALLEST_INT64),
    "length": (49 + len(SECTION), 0, 48, 49, 50 + len(SECTION), LARGEST_INT32),
    "leader_epoch": (3, -1),
    "magic": (2, 0, 1, 3, -1),
    "crc_is_right": (True, False),
    "attributes": (0, 1, 4, 5, 7, 8, 0x10, 0x20, 0x30, 0x40, -1, -(1 << 15)),
    "last_offset_delta": (2, 0, -1, -2, MOST_RECORDS - 1, MOST_RECORDS, LARGEST_INT32),
    "producer_id": (-1, 0, 9),
    "producer_epoch": (-1, 0),
    "base_sequence": (-1, 0),
    "record_count": (3, 0, -1, 1, 4, MOST_RECORDS, MOST_RECORDS + 1),
    "cut": (0, 1, 2, len(SECTION) + 1, len(SECTION) + 2, 60),
}
USUAL = {name: values[0] for name, values in VALUES.items()}


def entry(fields: dict[str, int]) -> bytes:
    covered = struct.pack(
        ">hiqqqhii",
        *(fields["attributes"], fields["last_offset_delta"], 1000, 2000, fields["producer_id"]),
        *(fields["producer_epoch"], fields["base_sequence"], fields["record_count"]),
    )
    covered += SECTION + b"?"
    crc = crc32c(covered[: max(0, fields["length"] - 9)])
    front = struct.pack(
        ">qiibI",
        *(fields["base_offset"], fields["length"], fields["leader_epoch"], fields["magic"]),
        crc if fields["crc_is_right"] else crc ^ 1,
    )
    return front + covered


def headers_with_two_fields_at_a_limit() -> Iterator[dict[str, int]]:
    for first, second in itertools.combinations(VALUES, 2):
        for pair in itertools.product(VALUES[first], VALUES[second]):
            yield USUAL | {first: pair[0], second: pair[1]}


def by_a_closer_look(view: memoryview, position: int, end: int) -> Batch | None:
    size_bytes = whole_entry_bytes(view, position, end)
    if not size_bytes:
        return None
    try:
        batch, problem = read_entry(view, position, size_bytes, False, "0.log")
    except CorruptEntryError:
        return None
    # The marks of flags come before that of a producer.
    has_flags = batch.marks and not batch.marks.startswith("producer")
    return None if batch.magic < 2 or problem or has_flags else batch


def test_an_ordinary_batch_is_read_as_a_closer_look_reads_it_and_no_other_is_read():
    ordinary = 0
    for fields in headers_with_two_fields_at_a_limit():
        view = memoryview(BEFORE + entry(fields))
        end = len(view) - fields["cut"]
        at_once = ordinary_batch(view, len(BEFORE), end, "0.log")
        assert repr(at_once) == repr(by_a_closer_look(view, len(BEFORE), end)), fields
        assert at_once == ordinary_batch(view[:end], len(BEFORE), end, "0.log"), fields
        ordinary += at_once is not None
    assert ordinary > 100


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("producer_id", [-1, 9])
def test_an_ordinary_batch_needs_no_closer_look_unless_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, codec: str, producer_id: int
):
    data = batch(0, PAIRS, codec=codec, producer_id=producer_id)
    decoded = read_segment(data, base_offset=0, file="0.log").batches[0]
    monkeypatch.delattr(reader, "read_entry")
    (only,) = iter_batches(data, base_offset=0, file="0.log")
    marks = "" if producer_id < 0 else "producer 9, -1, -1"
    assert only == decoded._replace(payload=None, marks=marks)
    with pytest.raises(NameError):
        next(iter_batches(data, base_offset=0, file="0.log", decode_records=True))
