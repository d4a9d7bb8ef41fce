"""The log of one replica and its epoch cache, without a cluster."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model.releases.rules import kafka_7415, kip_101
from kchaos.checkers.segments.batch import Record, payload_digest
from tests.support.work import calls_of


def two_batches():
    return m.Log().append(batch(0, 11)).append(batch(11, 15, epoch=2))


def batch(base_offset, count, *, epoch=1, magic=2, codec="none"):
    return m.batches_of(
        [f"record {index}" for index in range(count)],
        base_offset=base_offset,
        leader_epoch=epoch,
        magic=magic,
        codec=codec,
    )


def test_a_truncation_inside_a_batch_removes_it_but_the_log_ends_at_the_target():
    log = two_batches().truncate_to(21)
    assert [each.last_offset for each in log.batches] == [10]
    assert log.log_end_offset == 21
    log = log.append(batch(21, 10, epoch=3))
    assert [each.base_offset for each in log.batches] == [0, 21]


def test_a_restart_ends_the_log_at_its_last_batch():
    log = two_batches().truncate_to(21).reload()
    assert log.log_end_offset == 11


def test_a_truncation_to_the_end_or_beyond_does_nothing():
    log = two_batches()
    assert log.truncate_to(26) is log
    assert log.truncate_to(30) is log


def test_a_read_returns_whole_batches_so_the_first_may_begin_earlier():
    assert [each.base_offset for each in two_batches().read(16)] == [11]
    assert two_batches().read(26) == ()
    with pytest.raises(m.OffsetOutOfRange, match="offset 27 is not within 0 to 26"):
        two_batches().read(27)


def test_a_batch_that_begins_before_the_end_is_refused():
    log = two_batches()
    with pytest.raises(m.UnexpectedAppendOffset, match="first offset 11 is less than"):
        log.append(batch(11, 20))


def test_a_compressed_wrapper_of_magic_1_is_compared_by_its_last_offset():
    log = two_batches().append(batch(20, 10, magic=1, codec="gzip"))
    assert log.log_end_offset == 30


def test_magic_1_uncompressed_is_one_entry_a_record():
    entries = batch(5, 3, magic=1)
    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in entries] == [
        (5, 5, -1),
        (6, 6, -1),
        (7, 7, -1),
    ]
    assert len(batch(5, 3, magic=1, codec="lz4")) == 1


def test_the_payload_is_the_segment_readers_digest():
    (only,) = m.batches_of(["a", "b"], base_offset=3, leader_epoch=0, magic=2, codec="none")
    records = [
        Record(offset=3 + n, timestamp=7, key=None, value=v) for n, v in enumerate([b"a", b"b"])
    ]
    assert only.payload == payload_digest(records)


ENTRIES = (m.EpochEntry(1, 0), m.EpochEntry(3, 21))


@pytest.mark.parametrize(
    ("requested", "old", "new"),
    [
        (-1, m.UNDEFINED, m.UNDEFINED),
        (0, m.UNDEFINED, m.EpochEnd(0, 0)),
        (1, m.EpochEnd(1, 21), m.EpochEnd(1, 21)),
        (2, m.EpochEnd(1, 21), m.EpochEnd(1, 21)),
        (3, m.EpochEnd(3, 31), m.EpochEnd(3, 31)),
        (4, m.UNDEFINED, m.UNDEFINED),
    ],
)
def test_only_the_answer_below_the_first_epoch_changed_with_KAFKA_7415(requested, old, new):
    assert kip_101.answer_epoch(ENTRIES, requested, 31) == old
    assert kafka_7415.answer_epoch(ENTRIES, requested, 31) == new


@pytest.mark.parametrize(
    ("epoch", "offset", "old", "new"),
    [
        (3, 25, ENTRIES, ENTRIES),
        (4, 31, (*ENTRIES, m.EpochEntry(4, 31)), (*ENTRIES, m.EpochEntry(4, 31))),
        (4, 21, (*ENTRIES, m.EpochEntry(4, 21)), (m.EpochEntry(1, 0), m.EpochEntry(4, 21))),
        (2, 30, ENTRIES, (m.EpochEntry(1, 0), m.EpochEntry(2, 30))),
        (4, 10, ENTRIES, (m.EpochEntry(1, 0), m.EpochEntry(4, 10))),
    ],
)
def test_KAFKA_7415_replaces_entries_that_contradict_the_newest(epoch, offset, old, new):
    assert kip_101.assign_epoch(ENTRIES, epoch, offset) == old
    assert kafka_7415.assign_epoch(ENTRIES, epoch, offset) == new


def test_truncating_the_cache_keeps_what_starts_before_the_end():
    assert m.truncate_from_end(ENTRIES, 21) == (m.EpochEntry(1, 0),)
    assert m.truncate_from_end(ENTRIES, 22) == ENTRIES
    assert m.truncate_from_end((), 5) == ()


def test_truncating_the_cache_from_the_start_rewrites_the_entry_that_covers_it():
    assert m.truncate_from_start(ENTRIES, 10) == (m.EpochEntry(1, 10), m.EpochEntry(3, 21))
    assert m.truncate_from_start(ENTRIES, 30) == (m.EpochEntry(3, 30),)
    assert m.truncate_from_start((), 5) == ()


def test_logs_are_unlike_in_the_batches_that_only_one_of_them_has_from_where_both_begin():
    same, other = two_batches(), m.Log().append(batch(0, 11)).append(batch(11, 15, epoch=3))
    assert m.unlike(same, two_batches()) == set()
    assert {(each.base_offset, each.leader_epoch) for each in m.unlike(same, other)} == {
        (11, 2),
        (11, 3),
    }
    shorter = m.Log(batches=m.Shared(same.batches[1:]), log_start_offset=11, log_end_offset=26)
    assert m.unlike(same, shorter) == set()
    assert [each.base_offset for each in m.unlike(same, replace(shorter, log_start_offset=5))] == [
        0
    ]


def test_what_was_promised_is_missing_unless_a_log_has_it_or_has_deleted_it():
    log = two_batches()
    first, second = ((each.base_offset, each.payload) for each in log.batches)
    assert m.missing(log, [first, second]) == set()
    assert m.missing(log, [(0, "other"), second]) == {(0, "other")}
    assert m.missing(replace(log, log_start_offset=11), [(0, "other"), (11, "another")]) == {
        (11, "another")
    }


def added(total: int, item: int) -> int:
    return total + item


def test_sequences_with_the_same_items_are_equal_whichever_way_they_came_to_be():
    grown = m.Shared((1, 2)).with_items((3,))
    cut = grown.with_items((4, 5)).first(3)
    other = m.Shared((1, 2, 3))

    assert grown == cut == other
    assert hash(grown) == hash(cut) == hash(other)
    assert grown != m.Shared((1, 2, 4))
    assert grown != grown.first(2)
    assert grown != (1, 2, 3)


def test_a_sequence_never_changes_when_others_grow_out_of_it():
    begun = m.Shared((1, 2))
    one, other, one_again = (begun.with_items((item,)) for item in (3, 4, 3))
    from_nothing = [m.Shared[int]().with_items((item,)) for item in (1, 2)]

    assert [*begun] == [1, 2]
    assert ([*one], [*other]) == ([1, 2, 3], [1, 2, 4])
    assert one == one_again
    assert [[*each] for each in from_nothing] == [[1], [2]]


def test_items_and_slices_are_those_of_a_tuple():
    items, longer = (10, 20, 30, 40), m.Shared((10, 20, 30, 40, 50))
    shared = longer.first(4)

    for start, stop, step in ((None, None, None), (-1, None, None), (1, 3, None), (None, None, -2)):
        assert shared[start:stop:step] == items[start:stop:step]
    assert (shared[0], shared[-1], len(shared)) == (10, 40, 4)
    assert [shared.place(offset, abs) for offset in (5, 20, 45, 55)] == [0, 1, 4, 4]


def test_a_fold_of_a_longer_sequence_takes_only_the_steps_that_are_new():
    shared = m.Shared(range(100))

    assert shared.fold("sum", 0, added) == sum(range(100))
    longer = shared.with_items((7,))
    assert calls_of(lambda: longer.fold("sum", 0, added)) < 5
    assert longer.fold("sum", 0, added) == sum(range(100)) + 7
    assert shared.first(3).fold("sum", 0, added) == 3
    assert shared.with_items((9,)).fold("sum", 0, added) == sum(range(100)) + 9
