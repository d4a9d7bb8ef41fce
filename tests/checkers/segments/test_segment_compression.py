"""Compressed batches in Kafka's two own framings."""

import cramjam
import pytest

from kchaos.checkers.segments.compression import UndecodableError, decompress, xxh32_short
from tests.support.segment_encoder import wrong_lz4_checksum


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)]
)
def test_short_xxh32_gives_the_published_values(data: bytes, expected: int):
    assert xxh32_short(data) == expected


def test_xxh32_refuses_what_it_was_not_written_for():
    with pytest.raises(ValueError, match="at most 15 bytes"):
        xxh32_short(bytes(16))


def test_a_wrong_lz4_header_checksum_is_mended_for_magic_0_only():
    right = bytes(cramjam.lz4.compress(b"payload" * 30))
    wrong = wrong_lz4_checksum(right)
    assert wrong != right
    assert decompress("lz4", wrong, magic=0) == b"payload" * 30
    assert decompress("lz4", right, magic=0) == b"payload" * 30
    with pytest.raises(UndecodableError, match="lz4"):
        decompress("lz4", wrong, magic=1)


def test_gzip_of_many_members_is_read_to_the_end():
    members = bytes(cramjam.gzip.compress(b"one")) + bytes(cramjam.gzip.compress(b"two"))
    assert decompress("gzip", members, magic=2) == b"onetwo"


@pytest.mark.parametrize(
    "stream",
    [
        b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00",
        b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x09\x01",
        b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff\x01",
        b"",
    ],
)
def test_a_broken_snappy_stream_is_refused(stream: bytes):
    with pytest.raises(UndecodableError, match="snappy"):
        decompress("snappy", stream, magic=2)


def test_an_unknown_codec_is_refused():
    with pytest.raises(UndecodableError, match="brotli"):
        decompress("brotli", b"x", magic=2)
