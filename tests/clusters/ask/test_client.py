"""Answers of a broker as a client reads them."""

from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from kchaos.checkers.formats.batches import CODECS
from kchaos.clusters.ask import client
from kchaos.clusters.ask.client import ConsumerRecord, codec_sent, records_of, why_not_compressed


def batch_of(magic: int, codec: str, *values: bytes) -> bytes:
    builder = MemoryRecordsBuilder(magic, CODECS.index(codec), 1 << 20)
    for value in values:
        assert builder.append(0, None, value) is not None
    builder.close()
    return bytes(builder.buffer())


def values(batches: bytes, offset: int) -> list[bytes | None]:
    return [record.value for record in records_of(batches, offset)]


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_what_a_batch_holds_before_the_asked_offset_is_left_out(magic: int, codec: str):
    batch = batch_of(magic, codec, b"a", b"b", b"c")
    assert values(batch, 0) == [b"a", b"b", b"c"]
    assert values(batch, 1) == [b"b", b"c"]


def test_a_batch_that_the_answer_cuts_short_is_not_read():
    whole, torn = batch_of(2, "none", b"a"), batch_of(2, "none", b"b")[:-1]
    assert values(whole + torn, 0) == [b"a"]
    assert values(b"", 0) == []


def test_a_null_value_is_not_an_empty_one():
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    builder.append(0, b"k", None)
    builder.append(0, None, b"")
    builder.close()
    assert list(records_of(bytes(builder.buffer()), 0)) == [
        ConsumerRecord(offset=0, key=b"k", value=None),
        ConsumerRecord(offset=1, key=None, value=b""),
    ]


def test_a_codec_that_nobody_here_can_write_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, library in (("snappy", "python-snappy"), ("lz4", "lz4"), ("zstd", "zstandard")):
        monkeypatch.setitem(client._PACKAGES, name, (lambda: False, library))
        said = why_not_compressed(name, 2)
        assert said == f"nothing here compresses with {name}: pip install {library}"
        monkeypatch.setitem(client._PACKAGES, name, (lambda: True, library))
        assert why_not_compressed(name, 2) == ""

    assert why_not_compressed("zstd", 1) == "message format 1 has no zstd"
    assert why_not_compressed("none", 1) == why_not_compressed("gzip", 1) == ""
    assert "codec 'brotli' is unknown; there are none, gzip" in why_not_compressed("brotli", 2)


@pytest.mark.parametrize(("records", "codec"), [(1, "none"), (2, "none"), (40, "gzip")])
def test_a_batch_that_would_grow_is_sent_as_it_is_and_that_is_known(records: int, codec: str):
    values = [b"p1-%d" % index for index in range(records)]
    fields: dict[str, Any] = {"codec": "gzip", "timestamp_ms": 1}
    assert codec_sent(values, (), magic=2, **fields) == codec
    # Before format 2 a set of messages is compressed whatever comes of it.
    assert codec_sent(values, (), magic=1, **fields) == "gzip"
