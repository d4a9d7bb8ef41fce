"""Entries and fields, literally: what ends them, and what is not at hand."""

import struct

import pytest

from kchaos.checkers.formats.batches import EntryPlace, entries
from kchaos.checkers.formats.fields import (
    MalformedError,
    read_unsigned_varint,
    read_varint,
    take_nullable,
)
from tests.support.run_builder import segment

BATCHES = segment([(0, 1, ["a", "b"]), (2, 3, ["c"])])
"""A batch of magic 2 at 0-1, and one at 2."""
FIRST_BYTES = 12 + struct.unpack_from(">i", BATCHES, 8)[0]


def message(offset: int, attributes: int) -> bytes:
    """The smallest message of magic 0: neither key nor value."""
    return struct.pack(">qiIbbii", offset, 14, 0, 0, attributes, -1, -1)


def test_whole_entries_are_given_with_their_places_offsets_and_leader_epochs():
    assert list(entries(memoryview(BATCHES), len(BATCHES))) == [
        EntryPlace(0, FIRST_BYTES, 2, 0, 1, 1, False),
        EntryPlace(FIRST_BYTES, len(BATCHES) - FIRST_BYTES, 2, 2, 2, 3, False),
    ]


def test_a_message_of_an_old_set_may_wrap_others():
    content = message(4, 0) + message(9, 1)
    assert list(entries(memoryview(content), len(content))) == [
        EntryPlace(0, 26, 0, 4, 4, None, False),
        EntryPlace(26, 26, 0, 9, 9, None, True),
    ]


@pytest.mark.parametrize(
    ("at_hand", "size_bytes", "counted"),
    [
        (len(BATCHES), len(BATCHES) - 1, 1),
        (FIRST_BYTES + 26, len(BATCHES), 1),
        (FIRST_BYTES + 27, len(BATCHES), 2),
        (25, len(BATCHES), 0),
    ],
    ids=["torn", "no last offset", "header at hand", "no header"],
)
def test_an_entry_counts_if_it_is_whole_and_its_header_at_hand(
    at_hand: int, size_bytes: int, counted: int
):
    assert len(list(entries(memoryview(BATCHES)[:at_hand], size_bytes))) == counted


@pytest.mark.parametrize(
    ("data", "value"), [(b"\0", 0), (b"\1", -1), (b"\xac\2", 150), (b"\xff" * 9 + b"\1", -(2**63))]
)
def test_a_zigzag_varint_is_read_to_its_end(data: bytes, value: int):
    assert read_varint(data + b"rest", 0) == (value, len(data))


def test_a_varint_that_does_not_end_is_malformed_and_one_that_is_cut_short_is_not_there():
    with pytest.raises(MalformedError, match="more than 64 bits"):
        read_varint(b"\x80" * 11, 0)
    with pytest.raises(MalformedError, match="more than 32 bits"):
        read_unsigned_varint(b"\x80" * 6, 0, most_bits=31)
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)


def test_a_nullable_field_is_null_empty_or_as_long_as_it_says():
    assert take_nullable(b"abc", 1, -1) == (None, 1)
    assert take_nullable(b"abc", 1, 0) == (b"", 1)
    assert take_nullable(b"abc", 1, 2) == (b"bc", 3)
    with pytest.raises(MalformedError, match="a field of 3 bytes does not fit"):
        take_nullable(b"abc", 1, 3)
