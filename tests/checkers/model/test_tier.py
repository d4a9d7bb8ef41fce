"""Tiered logs in the model: what is copied, what is local, what a follower builds upon."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import tier
from kchaos.checkers.model.broker.leader import become_leader, read
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from kchaos.checkers.model.settle.apply_event import happen
from tests.support.model_timelines import start, state

T = m.TopicPartition("t", 0)
NOTHING_TO_COME = Lookahead(Record(seen=(), decided=()))
OLD, NEW = "3.6.2", "3.9.1"


def batches(*records: tuple[int, int, str]) -> tuple[m.PredictedBatch, ...]:
    """One batch for each (offset, leader epoch, value)."""
    return tuple(
        batch
        for offset, epoch, value in records
        for batch in m.batches_of(
            (value,), base_offset=offset, leader_epoch=epoch, magic=2, codec="none"
        )
    )


def entries(*pairs: tuple[int, int]) -> tuple[m.EpochEntry, ...]:
    return tuple(m.EpochEntry(*pair) for pair in pairs)


A_LOG = batches((0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"))
B_LOG = batches((0, 0, "m0"), (1, 1, "m4"), (2, 1, "m5"))
B_EPOCHS = entries((0, 0), (1, 1))
SHIPPED_BY_A = m.RemoteSegment(
    segment_id="a",
    start_offset=0,
    end_offset=2,
    leader_epochs=entries((0, 0)),
    chain=entries((0, 0)),
    batches=A_LOG,
    is_finished=True,
)
SHIPPED_BY_B = m.RemoteSegment(
    segment_id="b",
    start_offset=0,
    end_offset=1,
    leader_epochs=B_EPOCHS,
    chain=B_EPOCHS,
    batches=B_LOG[:2],
    is_finished=True,
)


def led_by_b(release: str, *remote: m.RemoteSegment) -> m.World:
    """Broker 0 leads in epoch 1 with three records, of which the first is of epoch 0."""
    world = m.World(m.EMPTY)
    for broker in (0, 1):
        for event in start(broker, release):
            happen(world, event, {})
    world.put(("assignment", T), (0, 1))
    world.put(("topics",), (T,))
    log = m.Log(batches=m.Shared(B_LOG), log_end_offset=3)
    world.put_replica(0, T, m.Replica(log=log, entries=B_EPOCHS, high_watermark=3))
    become_leader(world, 0, T, state(0, 1, (0,)))
    world.put(("remote", T), remote)
    return world


def copied(start_offset: int, end_offset: int, *epochs: tuple[int, int]) -> m.RemoteCopy:
    return m.RemoteCopy(
        partition=T,
        segment_id="new",
        broker=0,
        is_finished=False,
        start_offset=start_offset,
        end_offset=end_offset,
        leader_epochs=epochs,
    )


def seen(world: m.World, what: m.RemoteCopy | m.TierRead) -> None:
    take(world, what, NOTHING_TO_COME, generations={}, decided=0)


def asks(offset: int) -> m.PartitionRequest:
    return m.PartitionRequest(
        leader_epoch=1, carries_leader_epoch=True, fetch_offset=offset, requested_epoch=-1
    )


@pytest.mark.parametrize("release", [OLD, NEW])
def test_what_a_leader_copied_itself_is_copied_in_every_release(release):
    generation = generation_for(release)
    assert generation.highest_remote_offset(B_EPOCHS, 3, (SHIPPED_BY_A, SHIPPED_BY_B)) == 1
    assert generation.highest_remote_offset(B_EPOCHS, 3, ()) == -1


def test_a_new_leader_ships_its_own_lineage_since_kafka_15241():
    world = led_by_b(NEW, SHIPPED_BY_A)
    seen(world, copied(0, 1, (0, 0), (1, 1)))
    begun = tier.remote(world, T)[-1]
    assert (begun.chain, begun.batches, begun.is_finished) == (B_EPOCHS, B_LOG[:2], False)
    seen(world, replace(copied(0, 1, (0, 0), (1, 1)), is_finished=True))
    assert tier.remote(world, T)[-1].is_finished


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (copied(0, 1, (0, 0)), "its leader epochs there are"),
        (copied(0, 4, (0, 0), (1, 1)), "its high watermark is 3|high watermark is 3"),
        (replace(copied(0, 1, (0, 0), (1, 1)), broker=1), "does not lead it"),
        (copied(2, 2, (1, 2)), "it would copy what has offset 1 next"),
    ],
)
def test_a_copy_that_its_leader_cannot_make_excludes_the_state(copy, why):
    with pytest.raises(Excluded, match=why):
        seen(led_by_b(NEW, SHIPPED_BY_A), copy)


def test_a_follower_is_sent_to_the_tier_below_what_is_local_and_gets_records_from_there_on():
    world = led_by_b(NEW, SHIPPED_BY_B)
    assert read(world, 0, T, asks(0)).batches == B_LOG
    tier.lose_local(world, 0, T, 2)
    assert read(world, 0, T, asks(1)).error == m.MOVED_TO_TIER
    assert read(world, 0, T, asks(2)).batches == B_LOG[2:]


def follower(world: m.World) -> None:
    """Broker 1 follows without any data."""
    world.put_replica(1, T, m.Replica(role=m.Role.FOLLOWER, leader=0, leader_epoch=1))
    fetch = m.FetchState(fetch_offset=0, state=m.FetcherState.FETCHING, leader_epoch=1)
    world.put_thread(1, 0, m.FetcherThread().with_fetch(T, fetch))


@pytest.mark.parametrize(("release", "begins"), [(OLD, 0), (NEW, 2)])
def test_only_since_kafka_15695_a_rebuilt_follower_knows_where_its_local_log_begins(
    release, begins
):
    world = led_by_b(release, SHIPPED_BY_A, SHIPPED_BY_B)
    tier.lose_local(world, 0, T, 2)
    follower(world)
    (segment,) = tier.rebuilds(world, 0, T)
    assert segment == SHIPPED_BY_B
    assert tier.rebuild(world, 1, 0, T, segment)
    rebuilt = world.known_replica(1, T)
    assert (rebuilt.entries, rebuilt.high_watermark) == (B_EPOCHS, 2)
    assert (rebuilt.log.batches[:], rebuilt.log.log_end_offset) == (B_LOG[:2], 2)
    assert tier.local_start(rebuilt) == begins


def test_a_follower_cannot_rebuild_where_only_a_dead_lineage_was_copied():
    world = led_by_b(OLD, SHIPPED_BY_A)
    assert tier.lose_local(world, 0, T, 2)
    follower(world)
    assert list(tier.rebuilds(world, 0, T)) == []
    assert tier.cannot_rebuild(world, 1, 0, T, 1)
    assert not tier.cannot_rebuild(world, 1, 0, T, 2)


def reads(world: m.World, manner: str, local_start_offset: int) -> list[tuple[int, str]]:
    event = m.TierRead(
        operation="r",
        broker=0,
        topic="t",
        partition=0,
        manner=manner,
        first_offset=0,
        end_offset=3,
        local_start_offset=local_start_offset,
    )
    seen(world, event)
    (note,) = world.notes[-1:]
    assert note.lineage == B_LOG
    values = {each.payload: each.base_offset for each in (*A_LOG, *B_LOG)}
    named = {each.payload: name for each, name in zip(B_LOG, ("m0", "m4", "m5"), strict=True)}
    named |= {each.payload: name for each, name in zip(A_LOG, ("m0", "m1", "m2"), strict=True)}
    return [(values[batch.payload], named[batch.payload]) for batch in note.got]


def test_a_reader_in_sequence_gets_a_dead_lineage_and_one_who_seeks_gets_nothing():
    world = led_by_b(OLD, SHIPPED_BY_A)
    assert reads(world, "in sequence", 2) == [(0, "m0"), (1, "m1"), (2, "m2")]
    world = led_by_b(OLD, SHIPPED_BY_A)
    assert reads(world, "descending", 2) == [(0, "m0"), (2, "m5")]


def test_a_leader_cannot_say_that_its_local_log_begins_where_nothing_was_copied():
    with pytest.raises(Excluded, match="its local log began between 0 and 0, not at 2"):
        reads(led_by_b(NEW), "in sequence", 2)


def rebuilt_follower(release: str, high_watermark: int = 3) -> m.World:
    """Broker 1 has built upon B's segment, and fetched what comes after it."""
    world = led_by_b(release, SHIPPED_BY_A, SHIPPED_BY_B)
    tier.lose_local(world, 0, T, 2)
    follower(world)
    assert tier.rebuild(world, 1, 0, T, SHIPPED_BY_B)
    replica = world.known_replica(1, T)
    log = replace(replica.log, batches=m.Shared(B_LOG), log_end_offset=3)
    world.put_replica(1, T, replace(replica, log=log, high_watermark=high_watermark))
    return world


def from_follower(local_start_offset: int, source: str = "follower") -> m.TierRead:
    return m.TierRead(
        operation="f",
        broker=1,
        topic="t",
        partition=0,
        manner="descending",
        first_offset=0,
        end_offset=3,
        local_start_offset=local_start_offset,
        source=source,
    )


def test_who_is_asked_as_a_leader_must_lead_and_as_a_follower_must_follow():
    with pytest.raises(Excluded, match="broker 1 is follower") as refused:
        seen(rebuilt_follower(NEW), from_follower(2, "leader"))
    assert refused.value.is_pending


def test_a_follower_cannot_serve_what_its_high_watermark_has_not_passed():
    with pytest.raises(Excluded, match="broker 1's high watermark is 2") as refused:
        seen(rebuilt_follower(NEW, high_watermark=2), from_follower(2))
    assert refused.value.is_pending


def rebuilt_leader() -> m.World:
    """Broker 0's local log begins at 1 since a rebuild; it believes at 0 (KAFKA-15695)."""
    world = led_by_b(OLD, SHIPPED_BY_B)
    replica = world.known_replica(0, T)
    log = replace(replica.log, local_start_offset=1)
    world.put_replica(0, T, replace(replica, log=log, believed_local_start=0))
    return world


def test_what_a_rebuilt_leader_believes_of_its_local_log_ends_when_it_deletes_from_it():
    world = rebuilt_leader()
    assert reads(world, "in sequence", 2) == [(0, "m0"), (1, "m4"), (2, "m5")]
    assert world.known_replica(0, T).believed_local_start is None


def test_a_rebuilt_leader_that_has_deleted_nothing_says_what_it_believes():
    assert reads(rebuilt_leader(), "in sequence", 0) == [(1, "m4"), (2, "m5")]
    with pytest.raises(Excluded, match="not at 1; it was believed to begin from 0 to 0"):
        reads(rebuilt_leader(), "in sequence", 1)


def test_of_two_segments_at_one_offset_and_epoch_only_the_last_copied_is_found():
    a_epochs = entries((0, 0))
    assert tier.holder(a_epochs, 0, (SHIPPED_BY_A, SHIPPED_BY_B)) == SHIPPED_BY_B
    assert tier.holder(a_epochs, 1, (SHIPPED_BY_A, SHIPPED_BY_B)) is None
    assert tier.holder(a_epochs, 1, (SHIPPED_BY_B, SHIPPED_BY_A)) == SHIPPED_BY_A
    assert tier.holder(B_EPOCHS, 1, (SHIPPED_BY_A, SHIPPED_BY_B)) == SHIPPED_BY_B


def test_a_longer_copy_takes_the_place_of_what_it_covers():
    shorter = replace(
        SHIPPED_BY_A, segment_id="late", start_offset=1, leader_epochs=entries((0, 1))
    )
    whole = replace(SHIPPED_BY_A, segment_id="whole")
    assert tier.holder(entries((0, 0)), 2, (shorter, whole)) == whole


def test_a_leader_need_not_know_what_the_leader_after_it_has_copied():
    """Who was paused meanwhile copies the same segment once more (copiedOffsetOption)."""
    before = replace(SHIPPED_BY_B, end_offset=0, leader_epochs=entries((0, 0)), copied_in=1)
    later = replace(SHIPPED_BY_B, segment_id="later", start_offset=1, copied_in=2)
    seen(led_by_b(NEW, before, later), copied(1, 1, (1, 1)))
    seen(led_by_b(NEW, before, later), copied(2, 2, (1, 2)))
    # What was copied in its own epoch it copied itself.
    with pytest.raises(Excluded, match="it would copy what has offset 2 next"):
        seen(led_by_b(NEW, before, replace(later, copied_in=1)), copied(1, 1, (1, 1)))
