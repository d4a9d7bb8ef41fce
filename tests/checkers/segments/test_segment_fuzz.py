"""Damage of every sort: reading never raises, and no damage under a checksum goes unseen."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kchaos.checkers.segments import reader
from kchaos.checkers.segments.reader import read_segment
from tests.support.examples import examples
from tests.support.segment_encoder import Pair, batch, message, wrapper

pytestmark = pytest.mark.slow

PAIRS: list[Pair] = [(b"a", b"1" * 40), (None, b"2"), (b"b", None)]
ENTRIES = [
    batch(0, PAIRS),
    batch(3, PAIRS[:1], producer_id=9, producer_epoch=0, base_sequence=4),
    batch(4, PAIRS, codec="zstd"),
    batch(7, PAIRS[:1], attributes=0x10, producer_id=9),
    message(8, b"k", b"v", magic=1),
    wrapper(9, PAIRS, codec="gzip", magic=0),
    batch(12, [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 42))], attributes=0x30),
    batch(13, PAIRS, record_count=4),
    batch(16, PAIRS, attributes=0x08),
]

Builder = Callable[[int, list[Pair]], bytes]

fields = st.none() | st.binary(max_size=60)
pair_lists = st.lists(st.tuples(fields, fields), min_size=1, max_size=4)


def _messages(magic: int) -> Builder:
    def build(base_offset: int, pairs: list[Pair]) -> bytes:
        key, value = pairs[0]
        return message(base_offset, key, value, magic=magic)

    return build


def _wrapper(codec: str, magic: int) -> Builder:
    return lambda base_offset, pairs: wrapper(base_offset, pairs, codec=codec, magic=magic)


def _batch(codec: str) -> Builder:
    return lambda base_offset, pairs: batch(base_offset, pairs, codec=codec, leader_epoch=3)


builders: st.SearchStrategy[Builder] = st.sampled_from(
    [_messages(0), _messages(1)]
    + [_wrapper(codec, magic) for codec in ("gzip", "snappy", "lz4") for magic in (0, 1)]
    + [_batch(codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")]
)


@st.composite
def segments(draw: st.DrawFn) -> list[bytes]:
    """Return the entries of a right segment that begins at offset 0."""
    entries = []
    offset = 0
    for build, pairs in draw(st.lists(st.tuples(builders, pair_lists), min_size=1, max_size=5)):
        entries.append(build(offset, pairs))
        offset += len(pairs)
    return entries


@given(segments())
@settings(deadline=None)
def test_a_right_segment_has_no_finding(entries: list[bytes]):
    data = b"".join(entries)
    contents = read_segment(data, base_offset=0, file="0.log")
    assert contents.findings == ()
    assert [each.size_bytes for each in contents.batches] == [len(entry) for entry in entries]
    assert all(each.payload for each in contents.batches)
    assert contents.end_position == len(data)


@given(segments(), st.data(), st.integers(min_value=1, max_value=255), st.booleans())
@settings(deadline=None, max_examples=examples(500))
def test_a_changed_byte_under_a_checksum_gives_a_finding_at_its_entry(
    entries: list[bytes], data: st.DataObject, mask: int, decode: bool
):
    index = data.draw(st.integers(min_value=0, max_value=len(entries) - 1))
    entry = bytearray(entries[index])
    # In magic 2 the checksum's field begins at 17 and it covers what follows; before, at 12.
    first = 17 if entry[16] == 2 else 12
    entry[data.draw(st.integers(min_value=first, max_value=len(entry) - 1))] ^= mask
    damaged = [*entries[:index], bytes(entry), *entries[index + 1 :]]
    contents = read_segment(b"".join(damaged), base_offset=0, file="0.log", decode_records=decode)
    position = sum(len(each) for each in entries[:index])
    assert contents.findings[0].kind == "corrupt-batch"
    assert contents.findings[0].evidence["position"] == position
    assert len([each for each in contents.batches if each.position < position]) == index


@given(segments(), st.data(), st.integers(min_value=1, max_value=255))
@settings(deadline=None, max_examples=examples(300))
def test_a_changed_byte_anywhere_never_raises_and_leaves_what_is_before_it(
    entries: list[bytes], data: st.DataObject, mask: int
):
    whole = bytearray(b"".join(entries))
    clean = read_segment(bytes(whole), base_offset=0, file="0.log")
    at = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    whole[at] ^= mask
    contents = read_segment(bytes(whole), base_offset=0, file="0.log")
    before = [each for each in clean.batches if each.position + each.size_bytes <= at]
    assert list(contents.batches[: len(before)]) == before
    assert contents.end_position <= len(whole)


@given(segments(), st.data())
@settings(deadline=None, max_examples=examples(300))
def test_a_truncated_segment_keeps_its_whole_batches_and_tells_of_its_tail(
    entries: list[bytes], data: st.DataObject
):
    whole = b"".join(entries)
    length = data.draw(st.integers(min_value=0, max_value=len(whole)))
    clean = read_segment(whole, base_offset=0, file="0.log")
    contents = read_segment(whole[:length], base_offset=0, file="0.log")
    kept = [each for each in clean.batches if each.position + each.size_bytes <= length]
    assert list(contents.batches) == kept
    left = length - sum(each.size_bytes for each in kept)
    tail = whole[length - left : length]
    expected = [] if not left else ["torn-tail" if any(tail) else "zero-tail"]
    assert [each.kind for each in contents.findings] == expected


@given(st.lists(st.tuples(segments(), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(300))
def test_splices_of_segments_never_raise(pieces: list[tuple[list[bytes], float, float]]):
    spliced = b""
    for entries, start, end in pieces:
        piece = b"".join(entries)
        spliced += piece[int(len(piece) * start) : int(len(piece) * end)]
    contents = read_segment(spliced, base_offset=0, file="0.log")
    positions = [each.position for each in contents.batches]
    assert positions == sorted(set(positions))
    assert contents.end_position <= len(spliced)
    assert contents.findings or contents.end_position == len(spliced)


@given(st.binary(max_size=400), st.booleans())
@settings(deadline=None, max_examples=examples(300))
def test_random_bytes_never_raise(data: bytes, decode: bool):
    contents = read_segment(data, base_offset=0, file="0.log", decode_records=decode)
    assert contents.findings or contents.end_position == len(data)


@given(
    st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=6),
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=2),
    st.floats(0, 1) | st.just(1.0),
    st.integers(0, 5),
)
@settings(deadline=None, max_examples=examples(500))
def test_damaged_segments_give_the_same_as_without_reading_ordinary_batches_at_once(
    entries: list[bytes], damage: list[tuple[float, int]], kept: float, base_offset: int
):
    whole = bytearray(b"".join(entries))
    for place, mask in damage:
        whole[int(place * (len(whole) - 1))] ^= mask
    data = bytes(whole[: int(kept * len(whole))])
    at_once = read_segment(data, base_offset=base_offset, file="0.log", decode_records=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "ordinary_batch", lambda *_: None)
        closely = read_segment(data, base_offset=base_offset, file="0.log", decode_records=False)
    assert repr(at_once) == repr(closely)
