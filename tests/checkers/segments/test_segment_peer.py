"""The reader beside another implementation of the same formats, that of kafka-python."""

import struct
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from kchaos.checkers.segments.reader import read_records, read_segment
from tests.support.segment_encoder import batch, message, wrapper

VALUES = [b"v" * 50, None, b"", b"last"]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_that_the_peer_built_is_read_as_it_was_given(codec: int):
    builder = DefaultRecordBatchBuilder(2, codec, 1, 77, 3, 9, 1 << 20)
    for index, value in enumerate(VALUES):
        builder.append(index, 1000 + index, b"k%d" % index, value, [("h", b"x")])
    data = struct.pack(">q", 500) + bytes(builder.build())[8:]
    contents = read_segment(data, base_offset=500, file="500.log")
    assert contents.findings == ()
    (only,) = contents.batches
    assert (only.base_offset, only.last_offset, only.record_count) == (500, 503, 4)
    assert (only.producer_id, only.producer_epoch, only.base_sequence) == (77, 3, 9)
    assert (only.is_transactional, only.max_timestamp) == (True, 1003)
    records = read_records(data, only)
    assert [each.value for each in records] == VALUES
    assert [each.timestamp for each in records] == [1000, 1001, 1002, 1003]
    assert records[0].headers == (("h", b"x"),)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_the_peer_built_are_read_as_they_were_given(magic: int):
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for index, value in enumerate(VALUES):
        builder.append(index, 1000 + index, b"k", value)
    data = bytes(builder.build())
    contents = read_segment(data, base_offset=0, file="0.log")
    assert contents.findings == ()
    assert [read_records(data, each)[0].value for each in contents.batches] == VALUES
    assert [each.max_timestamp for each in contents.batches] == [
        1000 + index if magic else -1 for index in range(4)
    ]


@pytest.mark.parametrize(
    "entry",
    [
        batch(40, [(b"k", value) for value in VALUES], leader_epoch=6),
        batch(40, [(b"k", value) for value in VALUES], codec="gzip"),
        message(40, b"k", b"v", magic=0),
        message(40, b"k", b"v", magic=1),
        wrapper(40, [(b"k", value) for value in VALUES], codec="gzip", magic=0),
        wrapper(40, [(b"k", value) for value in VALUES], codec="gzip", magic=1),
    ],
)
def test_the_peer_reads_the_same_records_from_the_same_bytes(entry: bytes):
    contents = read_segment(entry, base_offset=40, file="40.log")
    assert contents.findings == ()
    ours = read_records(entry, contents.batches[0])
    theirs: list[Any] = list(MemoryRecords(entry).next_batch())
    assert [(each.offset, each.key, each.value) for each in ours] == [
        (each.offset, each.key, each.value) for each in theirs
    ]
