"""Conditions that stored runs and other tests hold loosely: each test ends one semantic mutant.

The mutants were found by `tests.semantic_mutants`.
"""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.evidence.partition import OBSERVED
from kchaos.checkers.formats.remote_log_metadata import RemoteSegmentRecord
from kchaos.checkers.histories.anomalies import Anomaly
from kchaos.checkers.model.broker.follower import become_follower
from kchaos.checkers.model.releases.composition import versions_of
from kchaos.checkers.model.releases.rules.kafka_10554 import fetch_at_once_with_epoch
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.rules.as_sent import as_sent
from kchaos.checkers.rules.client_anomalies import _skips_only
from kchaos.checkers.rules.compacted import held
from kchaos.checkers.rules.foreign import foreign_batches
from kchaos.checkers.segments.compression import xxh32_short
from kchaos.checkers.segments.framing import read_entry
from kchaos.checkers.segments.message import message_records, read_message
from kchaos.checkers.segments.record_batch import CorruptEntryError
from kchaos.checkers.segments.tier import remote_segments
from tests.support.model_timelines import start, state
from tests.support.rule_evidence import acknowledged, batch, evidence, replica
from tests.support.segment_encoder import message, wrapper

T = m.TopicPartition("t", 0)


def running(release: str) -> m.World:
    world = m.World(m.EMPTY)
    for broker in (0, 1, 2):
        for event in start(broker, release):
            happen(world, event, {})
    return world


@pytest.mark.parametrize(("one_way", "back"), [(True, True), (False, False)])
def test_a_cut_of_one_way_lets_the_other_way_pass(*, one_way: bool, back: bool):
    world = running("2.8.2")
    happen(world, m.CutLink(source=0, target=1, one_way=one_way), {})
    assert (world.passes(0, 1), world.passes(1, 0)) == (False, back)


def test_what_kchaos_read_it_did_not_write():
    read = acknowledged("read", 2, "mine", function="read", acks=1)
    log = replica(0, batch(0, 0, "a"), batch(2, 0, "mine"))
    ours = acknowledged("ours", 0, "a")
    (finding,) = foreign_batches(evidence(log, operations=(ours, read)), OBSERVED)
    assert (finding.first_offset, finding.last_offset) == (2, 2)


def test_a_poll_that_passed_over_one_record_more_than_the_aborted_ones_is_an_anomaly():
    skip = Anomaly(name="poll-skip", key="t-0", message="", evidence={"skipped": [1, 2]})
    assert not _skips_only(skip, {("t-0", 1)})
    assert _skips_only(skip, {("t-0", 1), ("t-0", 2)})


@pytest.mark.parametrize(
    ("time", "is_unlike"), [(799_500, False), (100_000, True), (7_000_000, True)]
)
def test_a_write_without_a_time_in_its_history_was_sent_while_it_went_on(
    time: int, *, is_unlike: bool
):
    timed = replace(batch(0, 3, "a"), first_timestamp=time, max_timestamp=time)
    written = acknowledged("w", 0, "a")
    found = as_sent(evidence(replica(0, timed), operations=(written,)), OBSERVED)
    assert bool([*found]) is is_unlike


def test_a_read_that_ends_inside_a_batch_holds_it_up_to_there():
    read = acknowledged("read", 1, "b", "c", function="read", acks=1)
    whole = batch(0, 0, "a", "b", "c", "d")
    assert [*held([whole], read)] == [(1, 2)]


def test_a_batch_of_magic_3_is_no_message():
    entry = bytearray(message(0, None, b"a", magic=1))
    entry[16] = 3
    with pytest.raises(CorruptEntryError, match="its magic 3 is unknown"):
        read_entry(memoryview(bytes(entry)), 0, len(entry), decode=True, file="f")


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_old_messages_are_read_with_and_without_a_wrapper(magic: int):
    plain = message(4, b"k", b"v", magic=magic)
    packed = wrapper(4, [(b"k", b"v"), (None, b"w")], codec="gzip", magic=magic)
    for content, values in ((plain, [b"v"]), (packed, [b"v", b"w"])):
        view = memoryview(content)
        entry, problem = read_message(view, 0, len(content), decode=True, file="f")
        assert problem == ""
        assert [record.value for record in message_records(view, entry)] == values


def test_an_update_that_names_one_offset_alone_changes_the_state_alone():
    begun = RemoteSegmentRecord(
        segment_id="s",
        topic_id="i",
        topic="t",
        partition=0,
        broker=1,
        time_ms=1,
        state="COPY_SEGMENT_STARTED",
        start_offset=0,
        end_offset=4,
    )
    done = replace(begun, state="COPY_SEGMENT_FINISHED")
    for update in (replace(done, start_offset=None), replace(done, end_offset=None)):
        (segment,) = remote_segments([begun, update])
        assert (segment.start_offset, segment.end_offset) == (0, 4)
        assert segment.state == "COPY_SEGMENT_FINISHED"


def test_the_hash_of_four_bytes_takes_them_at_once():
    assert hex(xxh32_short(b"abcd")) == "0xa3643705"
    assert hex(xxh32_short(b"abc")) == "0x32d153ff"


def test_a_replica_that_follows_nobody_begins_to_follow_who_led_before():
    world = running("1.1.1")
    world.put(("assignment", T), (0, 1))
    stopped = m.Replica(role=m.Role.NONE, leader=1, leader_epoch=3)
    world.put_replica(0, T, stopped)
    become_follower(world, 0, T, state(1, 3, (1,)))
    assert world.known_replica(0, T).role is m.Role.FOLLOWER


@pytest.mark.parametrize(("protocol", "magic"), [("2.8", 1), ("3.0-IV0", 1), ("3.0-IV1", 2)])
def test_the_message_format_is_ignored_from_protocol_3_0_iv1_on(protocol: str, magic: int):
    assert versions_of("3.0.2", protocol, "0.10.2").magic == magic


def test_a_follower_without_any_epoch_truncates_before_it_fetches():
    without = fetch_at_once_with_epoch(m.Replica())
    with_epoch = fetch_at_once_with_epoch(m.Replica(entries=(m.EpochEntry(0, 0),)))
    assert without != with_epoch


def test_a_thread_waits_on_for_a_partition_when_another_leaves_it():
    reset = m.OffsetReset(partition=T, leader_epoch=1, timestamp=-1)
    thread = m.FetcherThread(reset=reset)
    assert thread.with_fetch(T, None).reset is None
    assert thread.with_fetch(m.TopicPartition("t", 1), None).reset == reset
