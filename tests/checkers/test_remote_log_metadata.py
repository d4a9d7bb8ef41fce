"""Records of `__remote_log_metadata`, as brokers of 3.9.1 wrote them."""

import pytest

from kchaos.checkers.formats.remote_log_metadata import (
    RemoteLogMetadataError,
    RemoteSegmentRecord,
    parse_remote_segment,
)
from kchaos.checkers.segments.tier import remote_segments

STARTED = bytes.fromhex(
    "0100000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "00000003000000000000000500000000000001a200fe457a000001a200fe46f40300000001000000000000000300000"
    "00002000000000000000500000000fc000000"
)
FINISHED = bytes.fromhex(
    "0101000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "000001a200fe47c6000100"
)


def test_a_copy_that_begins_says_offsets_and_epochs_of_its_segment():
    assert parse_remote_segment(STARTED) == RemoteSegmentRecord(
        segment_id="cy5l6LDoSgGMV93ECA6Fkw",
        topic_id="zj02F248SJuIp7M9eTZjQA",
        topic="t",
        partition=0,
        broker=0,
        time_ms=1795312994036,
        state="COPY_SEGMENT_STARTED",
        start_offset=3,
        end_offset=5,
        leader_epochs=((1, 3), (2, 5)),
        size_bytes=252,
        max_timestamp_ms=1795312993658,
    )


def test_a_copy_that_ends_gives_the_segment_its_newest_state():
    records = [parse_remote_segment(each) for each in (STARTED, FINISHED)]
    (segment,) = remote_segments(record for record in records if record is not None)
    assert (segment.state, segment.start_offset) == ("COPY_SEGMENT_FINISHED", 3)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (STARTED[:-1], "breaks off"),
        (STARTED[:9], "breaks off"),
        (STARTED + b"\0", "1 bytes after its end"),
        (b"\x02" + STARTED[1:], "frame version 2"),
        (STARTED[:2] + b"\x01" + STARTED[3:], "has version 1"),
        (FINISHED[:-2] + b"\x09\x00", "damaged"),
    ],
)
def test_another_shape_is_refused(value, why):
    with pytest.raises(RemoteLogMetadataError, match=why):
        parse_remote_segment(value)


def test_a_record_about_a_whole_partition_is_about_no_segment():
    assert parse_remote_segment(b"\x01\x02\x00rest") is None
