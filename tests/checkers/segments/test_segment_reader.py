"""Segments of every format, as they should be and as faults leave them."""

import struct

import pytest
from crc32c import crc32c

from kchaos.checkers.segments import record_batch
from kchaos.checkers.segments.batch import Batch, Record, join_payload_digests
from kchaos.checkers.segments.reader import (
    SegmentContents,
    iter_batches,
    read_records,
    read_segment,
)
from tests.support.segment_encoder import Pair, batch, message, record, wrapper, xerial

PAIRS: list[Pair] = [(b"a", b"1" * 40), (None, b"2"), (b"b", None), (b"", b""), (b"c", b"5" * 300)]


def read(data: bytes, base_offset: int = 0) -> SegmentContents:
    return read_segment(data, base_offset=base_offset, file="00.log")


def kinds(contents: SegmentContents) -> list[str]:
    return [finding.kind for finding in contents.findings]


def flipped(data: bytes, position: int, mask: int = 0x01) -> bytes:
    changed = bytearray(data)
    changed[position] ^= mask
    return bytes(changed)


def test_a_literal_batch_of_magic_2_is_read_field_by_field():
    data = bytes.fromhex(
        "0000000000000007"  # base offset 7
        "0000003a"  # 58 bytes follow
        "00000003"  # leader epoch 3
        "02"  # magic
        "7b4397be"  # CRC-32C
        "0010"  # transactional
        "00000000"  # last offset delta
        "00000162a1b2c3d4"  # base timestamp
        "00000162a1b2c3d4"  # max timestamp
        "00000000000007d0"  # producer id 2000
        "0005"  # producer epoch
        "0000000b"  # base sequence 11
        "00000001"  # one record
        "10000000026b027600"  # of 8 bytes: no deltas, key k, value v, no headers
    )
    contents = read(data, base_offset=7)
    assert contents.findings == ()
    assert contents.batches == (
        Batch(
            base_offset=7,
            last_offset=7,
            leader_epoch=3,
            magic=2,
            codec="none",
            crc=0x7B4397BE,
            record_count=1,
            is_control=False,
            is_transactional=True,
            producer_id=2000,
            producer_epoch=5,
            base_sequence=11,
            max_timestamp=0x162A1B2C3D4,
            position=0,
            size_bytes=70,
            payload=contents.batches[0].payload,
            file="00.log",
            first_timestamp=0x162A1B2C3D4,
            marks="transactional, producer 2000, 5, 11",
        ),
    )
    (only,) = read_records(data, contents.batches[0])
    assert (only.offset, only.key, only.value, only.timestamp) == (7, b"k", b"v", 0x162A1B2C3D4)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_of_magic_2_gives_its_records_back_in_every_codec(codec: str):
    data = batch(10, PAIRS, codec=codec, leader_epoch=4) + batch(15, PAIRS, codec=codec)
    contents = read(data, base_offset=10)
    assert contents.findings == ()
    assert contents.end_position == len(data)
    first, second = contents.batches
    assert (first.base_offset, first.last_offset, first.record_count) == (10, 14, 5)
    assert (first.codec, first.magic, first.leader_epoch, first.max_timestamp) == (
        codec,
        2,
        4,
        2000,
    )
    assert second.position == first.size_bytes
    assert [(each.key, each.value) for each in read_records(data, first)] == PAIRS
    assert [each.offset for each in read_records(data, second)] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_wrapper_is_one_batch_with_the_inner_offsets_of_its_magic(codec: str, magic: int):
    data = wrapper(100, PAIRS, codec=codec, magic=magic)
    contents = read(data, base_offset=100)
    assert contents.findings == ()
    (only,) = contents.batches
    assert (only.base_offset, only.last_offset, only.record_count) == (100, 104, 5)
    assert (only.leader_epoch, only.producer_id, only.base_sequence) == (-1, -1, -1)
    records = read_records(data, only)
    assert [(each.key, each.value) for each in records] == PAIRS
    assert [each.offset for each in records] == [100, 101, 102, 103, 104]
    assert {each.timestamp for each in records} == {1000 if magic else -1}


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_messages_are_a_batch_each(magic: int):
    data = b"".join(
        message(20 + index, key, value, magic=magic) for index, (key, value) in enumerate(PAIRS)
    )
    contents = read(data, base_offset=20)
    assert contents.findings == ()
    offsets = [(each.base_offset, each.last_offset) for each in contents.batches]
    assert offsets == [(20, 20), (21, 21), (22, 22), (23, 23), (24, 24)]
    assert [read_records(data, each)[0].value for each in contents.batches] == [
        value for _, value in PAIRS
    ]


def test_the_payload_digest_is_the_same_in_every_magic_and_codec():
    forms = [batch(7, PAIRS, codec=codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")]
    forms += [
        wrapper(7, PAIRS, codec=codec, magic=magic)
        for codec in ("gzip", "snappy", "lz4")
        for magic in (0, 1)
    ]
    payloads = {read(form).batches[0].payload for form in forms}
    assert len(payloads) == 1
    single = b"".join(message(7 + i, key, value, magic=1) for i, (key, value) in enumerate(PAIRS))
    parts = [(each.payload or "", each.record_count) for each in read(single).batches]
    assert payloads == {join_payload_digests(parts)}


@pytest.mark.parametrize(
    "other",
    [
        [(b"a", b"x"), (b"b", b"")],
        [(b"a", b"x"), (None, None)],
        [(b"a", b"x")],
        [(b"b", None), (b"a", b"x")],
        [(b"ax", b""), (b"b", None)],
    ],
)
def test_the_payload_digest_tells_null_from_empty_and_one_order_from_another(other: list[Pair]):
    pairs: list[Pair] = [(b"a", b"x"), (b"b", None)]
    assert read(batch(0, pairs)).batches[0].payload != read(batch(0, other)).batches[0].payload


def test_log_append_time_replaces_the_records_own_timestamps():
    new = batch(0, PAIRS, attributes=0x08)
    old = wrapper(0, PAIRS, codec="gzip", magic=1, attributes=0x08)
    assert {each.timestamp for each in read_records(new, read(new).batches[0])} == {2000}
    assert {each.timestamp for each in read_records(old, read(old).batches[0])} == {3000}


def test_headers_are_given_with_their_null_values():
    section = record(0, b"k", b"v", headers=[(b"one", b"1"), (b"two", None)])
    data = batch(0, [(b"k", b"v")], section=section)
    (only,) = read_records(data, read(data).batches[0])
    assert only.headers == (("one", b"1"), ("two", None))


@pytest.mark.parametrize(("number", "name"), [(0, "ABORT"), (1, "COMMIT"), (2, "LEADER_CHANGE")])
def test_a_control_batch_names_its_type_even_without_decoding(number: int, name: str):
    pair = (struct.pack(">hh", 0, number), struct.pack(">hi", 0, 42))
    data = batch(5, [pair], attributes=0x30, producer_id=9, producer_epoch=1)
    (only,) = iter_batches(data, base_offset=0, file="00.log")
    assert isinstance(only, Batch)
    assert (only.is_control, only.is_transactional, only.control_type) == (True, True, name)
    assert only.coordinator_epoch == (42 if number < 2 else -1)
    assert only.payload is None


def test_a_batch_that_compaction_thinned_or_emptied_is_clean():
    thinned = batch(0, [(b"a", b"1")], section=record(3, b"a", b"1"), last_offset_delta=9)
    emptied = batch(10, [], codec="lz4", last_offset_delta=4, section=b"")
    emptied_plain = batch(15, [], last_offset_delta=4)
    contents = read(thinned + emptied + emptied_plain)
    assert contents.findings == ()
    assert [each.last_offset for each in contents.batches] == [9, 14, 19]


def test_snappy_is_read_without_framing_and_with_a_header_in_the_middle():
    plain = record(0, b"k", b"v" * 100)
    two_streams = xerial(plain[:50], block_bytes=20) + xerial(plain[50:], block_bytes=20)
    whole = batch(0, [(b"k", b"v" * 100)], codec="snappy")
    for body in (two_streams, xerial(plain, block_bytes=1000)[20:]):
        covered = whole[21:61] + body
        header = struct.pack(">qiibI", 0, len(covered) + 9, 0, 2, crc32c(covered))
        contents = read(header + covered)
        assert contents.findings == ()
        assert contents.batches[0].payload == read(whole).batches[0].payload


@pytest.mark.parametrize("bit", [6, 15])
def test_a_bit_of_the_attributes_without_a_meaning_is_a_mark(bit: int):
    covered = bytearray(batch(0, PAIRS)[21:])
    covered[:2] = struct.pack(">H", 1 << bit)
    data = batch(0, PAIRS)[:17] + struct.pack(">I", crc32c(covered)) + covered
    contents = read(data)
    assert contents.findings == ()
    assert contents.batches[0].marks.startswith(f"attributes {1 << bit:#x}")


def test_a_batch_of_another_replica_is_decoded_once_and_a_batch_elsewhere_anew(
    monkeypatch: pytest.MonkeyPatch,
):
    decoded: list[int] = []
    of = record_batch._records

    def noting(section: memoryview, header: record_batch._Header) -> tuple[Record, ...]:
        decoded.append(header.base_offset)
        return of(section, header)

    monkeypatch.setattr(record_batch, "_records", noting)
    monkeypatch.setattr(record_batch, "_known", {})
    first = read(batch(7, PAIRS, leader_epoch=1)).batches[0]
    other = read(batch(7, PAIRS, leader_epoch=2)).batches[0]
    assert other == first._replace(leader_epoch=2)
    assert read(batch(8, PAIRS, leader_epoch=1)).batches[0].payload == first.payload
    assert decoded == [7, 8]


def test_without_decoding_the_same_batches_come_without_payload():
    data = batch(0, PAIRS, codec="zstd") + wrapper(5, PAIRS, codec="lz4", magic=0)
    shallow = read_segment(data, base_offset=0, file="00.log", decode_records=False)
    assert shallow.batches == tuple(
        each._replace(payload=None, marks="") for each in read(data).batches
    )
    assert shallow.findings == ()


def test_an_empty_segment_is_clean():
    assert read(b"") == SegmentContents(batches=(), findings=(), end_position=0)


@pytest.mark.parametrize("cut", [5, 12, 30, 70])
def test_a_torn_tail_is_a_finding_at_the_end_of_what_is_whole(cut: int):
    first, second = batch(1 << 40, PAIRS), batch((1 << 40) + 5, PAIRS)
    contents = read(first + second[:cut])
    assert kinds(contents) == ["torn-tail"]
    assert contents.findings[0].evidence == {
        "file": "00.log",
        "position": len(first),
        "left_bytes": cut,
    }
    assert contents.end_position == len(first)
    assert len(contents.batches) == 1


@pytest.mark.parametrize("zeros", [1, 11, 100, 3_000_000])
def test_a_zero_tail_is_a_finding_of_its_own(zeros: int):
    first = batch(0, PAIRS)
    contents = read(first + bytes(zeros))
    assert kinds(contents) == ["zero-tail"]
    assert contents.findings[0].evidence["position"] == contents.end_position == len(first)


def test_zeros_with_something_behind_them_are_not_a_zero_tail():
    assert kinds(read(batch(0, PAIRS) + bytes(100) + b"x")) == ["corrupt-batch"]


@pytest.mark.parametrize("entry", [batch(5, PAIRS), wrapper(5, PAIRS, codec="gzip", magic=1)])
def test_a_wrong_checksum_gives_a_finding_and_reading_goes_on(entry: bytes):
    before, after = batch(0, PAIRS), batch(10, PAIRS)
    contents = read(before + flipped(entry, len(entry) - 1) + after)
    assert [each.base_offset for each in contents.batches] == [0, 10]
    assert kinds(contents) == ["corrupt-batch"]
    assert contents.findings[0].evidence["position"] == len(before)
    assert contents.end_position == len(before + entry + after)


def test_an_unknown_magic_gives_a_finding_and_reading_goes_on():
    before, after = batch(0, PAIRS), batch(10, PAIRS)
    contents = read(before + flipped(batch(5, PAIRS), 16, 0x04) + after)
    assert [each.base_offset for each in contents.batches] == [0, 10]
    assert "magic 6 is unknown" in contents.findings[0].message


@pytest.mark.parametrize(
    "entry",
    [
        batch(5, PAIRS),
        message(5, b"k", b"v" * 90, magic=1),
        wrapper(5, PAIRS, codec="snappy", magic=0),
    ],
)
def test_a_length_that_grew_in_the_middle_is_not_taken_for_a_torn_tail(entry: bytes):
    before, after = batch(0, PAIRS), batch(10, PAIRS)
    contents = read(before + flipped(entry, 9, 0x40) + after)
    assert kinds(contents) == ["corrupt-batch"]
    assert contents.findings[0].evidence["later_entry_position"] == len(before + entry)
    assert contents.end_position == len(before)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_stored_raw_inside_a_torn_wrapper_are_not_taken_for_entries(magic: int):
    # An LZ4 frame with one block that is stored, as writers do when compression does not pay.
    inner = b"".join(message(offset, None, b"v" * 200, magic=magic) for offset in range(3))
    block = struct.pack("<I", 0x80000000 | len(inner)) + inner + bytes(4)
    frame = b"\x04\x22\x4d\x18\x60\x40\x82" + block
    whole = message(2, None, frame, magic=magic, attributes=3)
    assert [each.record_count for each in read(whole).batches] == [3]
    assert kinds(read(whole[:-100])) == ["torn-tail"]


def test_a_length_that_shrank_loses_the_frame_and_ends_reading():
    before, after = batch(0, PAIRS), batch(10, PAIRS)
    entry = bytearray(batch(5, PAIRS))
    entry[8:12] = struct.pack(">i", 60)
    contents = read(before + bytes(entry) + after)
    assert [each.base_offset for each in contents.batches] == [0]
    assert set(kinds(contents)) == {"corrupt-batch"}


@pytest.mark.parametrize("length", [-1, 0, 13, 48])
def test_a_length_below_the_smallest_possible_ends_reading(length: int):
    entry = bytearray(batch(0, PAIRS))
    entry[8:12] = struct.pack(">i", length)
    contents = read(bytes(entry) + batch(5, PAIRS))
    assert kinds(contents) == ["corrupt-batch"]
    assert contents.batches == ()
    assert contents.end_position == 0


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (batch(0, PAIRS, record_count=4), "left after the 4 records"),
        (batch(0, PAIRS, last_offset_delta=9, record_count=6), "ends inside record 5 of 6"),
        (batch(0, PAIRS, record_count=6), "announces 6 records for 5 offsets"),
        (batch(0, PAIRS, record_count=-1), "announces -1 records"),
        (batch(0, PAIRS, last_offset_delta=-1), "last offset delta -1 is negative"),
        (batch(0, PAIRS, last_offset_delta=3, record_count=4), "left after the 4 records"),
        (batch(0, PAIRS[:2], section=record(1, None, b"") + record(1, None, b"")), "above 1 and"),
        (batch(0, PAIRS[:1], section=record(1, None, b"")), "at most 0"),
        (batch(0, PAIRS[:1], section=b"\x02"), "cut short"),
        (batch(0, PAIRS[:1], section=b"\x06\x00\x00\x00"), "ends inside record 0"),
        (batch(0, PAIRS[:1], section=b"\x0a\x00\x00\x00\x01\x50"), "field of 40 bytes"),
        (batch(0, PAIRS[:1], section=b"\x0c\x00\x00\x00\x01\x01\x08"), "announces 4 headers"),
        (batch(0, PAIRS[:1], section=b"\x10\x00\x00\x00\x01\x01\x00\x00\x00"), "as long as"),
        (batch(0, PAIRS[:1], section=b"\xff" * 20), "more than 64 bits"),
        (batch(0, PAIRS, codec="none", attributes=1), "gzip"),
        (batch(0, PAIRS, codec="none", attributes=2), "snappy"),
        (batch(0, PAIRS, codec="none", attributes=3), "lz4"),
        (batch(0, PAIRS, codec="none", attributes=4), "zstd"),
        (batch(0, PAIRS, codec="none", attributes=5), "codec 5 is unknown"),
    ],
)
def test_records_that_disagree_with_their_header_give_a_finding_and_a_batch_without_payload(
    entry: bytes, why: str
):
    contents = read(entry + batch(100, PAIRS))
    assert kinds(contents) == ["corrupt-batch"]
    assert why in contents.findings[0].message
    assert [each.base_offset for each in contents.batches] == [0, 100]
    assert contents.batches[0].payload is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (message(0, None, b"plain", magic=1, attributes=1), "cannot be decompressed: gzip"),
        (message(0, None, b"plain", magic=0, attributes=4), "unknown-4"),
        (message(0, None, None, magic=1, attributes=1), "without a value"),
        (wrapper(0, [], codec="gzip", magic=1, offset=0), "nothing inside"),
    ],
)
def test_a_wrapper_that_cannot_be_opened_gives_a_finding_and_no_batch(entry: bytes, why: str):
    contents = read(entry + batch(100, PAIRS))
    assert kinds(contents) == ["corrupt-batch"]
    assert why in contents.findings[0].message
    assert [each.base_offset for each in contents.batches] == [100]


def test_the_wrong_lz4_checksum_of_magic_0_is_refused_in_magic_1():
    old = wrapper(0, PAIRS, codec="lz4", magic=0)
    stored = old[12 + 4 + 2 + 4 + 4 :]
    assert kinds(read(message(0, None, stored, magic=1, attributes=3))) == ["corrupt-batch"]


def test_a_wrapper_whose_offset_is_not_its_last_message_s_gives_a_finding():
    contents = read(wrapper(10, PAIRS, codec="gzip", magic=0, offset=12))
    assert kinds(contents) == ["corrupt-batch"]
    assert "12 is not that of its last inner message, 14" in contents.findings[0].message


def test_offsets_that_go_back_give_a_finding_at_the_batch_where_they_do():
    data = batch(0, PAIRS) + batch(4, PAIRS) + batch(9, PAIRS)
    contents = read(data)
    assert len(contents.batches) == 3
    (finding,) = contents.findings
    assert (finding.kind, finding.first_offset, finding.last_offset) == ("corrupt-batch", 4, 8)
    assert "its base offset 4 is below 5" in finding.message


def test_a_batch_below_the_segment_s_own_offset_gives_a_finding():
    assert kinds(read(batch(5, PAIRS), base_offset=6)) == ["corrupt-batch"]


def test_a_gap_between_batches_is_clean_since_compaction_makes_them():
    assert read(batch(0, PAIRS) + batch(50, PAIRS)).findings == ()
