"""Records of a Fetch response of which a link has the beginning, read while the rest passes."""

import pytest

from kchaos.clusters.links.rest_of_records import RestOfRecords
from kchaos.clusters.links.wire import Records
from tests.support.segment_encoder import batch

FIRST = batch(3, [(None, bytes(300))])
SECOND = batch(4, [(None, b"a"), (None, b"b")], leader_epoch=1)
THIRD = batch(6, [(None, b"c")], leader_epoch=1)
ALL = FIRST + SECOND + THIRD
TAGS = b"\x00\x00\x00"
DETAIL = {
    "session_id": 7,
    "is_whole": False,
    "partitions": [
        {"topic": "t", "partition": 0, "batch_count": 1, "last_offset": 3, "last_leader_epoch": 0}
    ],
}


def reader(at_hand: int, behind: bytes = TAGS, records: bytes = ALL) -> RestOfRecords:
    rest_bytes = len(records) - at_hand + len(behind)
    return RestOfRecords(
        Records(size_bytes=len(records), head=memoryview(records[:at_hand])), rest_bytes
    )


@pytest.mark.parametrize("at_hand", [100, len(FIRST), len(FIRST) + 5, len(FIRST + SECOND) + 26])
@pytest.mark.parametrize("step", [1, 7, 26, 27, 4096])
def test_batches_behind_the_beginning_are_read_however_they_arrive(at_hand: int, step: int):
    rest, left = reader(at_hand), (ALL + TAGS)[at_hand:]

    for at in range(0, len(left), step):
        assert not rest.is_read
        rest.more(memoryview(left[at : at + step]))

    assert rest.is_read
    entry = rest.completed(DETAIL)["partitions"][0]
    second, third = [4, 5, 1], [6, 6, 1]
    assert entry["rest"] == ([third] if at_hand > len(FIRST + SECOND) else [second, third])
    assert (entry["last_offset"], entry["last_leader_epoch"]) == (6, 1)


def test_a_completed_answer_is_whole_and_keeps_all_else():
    rest = reader(100)
    rest.more(memoryview((ALL + TAGS)[100:]))

    whole = rest.completed(DETAIL)

    assert (whole["session_id"], "is_whole" in whole) == (7, False)
    assert whole["partitions"][0]["batch_count"] == 3


def test_an_answer_that_goes_on_with_another_partition_is_not_read():
    behind = bytes(40)
    rest = reader(100, behind)
    rest.more(memoryview((ALL + behind)[100:]))
    assert not rest.is_read


def test_a_batch_that_is_cut_off_at_the_end_is_none():
    records = ALL[:-1]
    rest = reader(100, records=records)
    rest.more(memoryview((records + TAGS)[100:]))
    assert rest.is_read
    assert rest.completed(DETAIL)["partitions"][0]["rest"] == [[4, 5, 1]]
