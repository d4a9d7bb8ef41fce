"""KAFKA-9198: a Fetch that waits over a topic's deletion makes a LeaderAndIsr fail."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import control_handling
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.settle.apply_event import happen
from tests.support.model_timelines import start, state

T, OTHER = m.TopicPartition("t", 0), m.TopicPartition("t", 1)
ASKED = m.PartitionRequest(
    leader_epoch=2, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1
)
WAITING = m.Exchange(api=FETCH, asked=((T, ASKED),), stage=m.Stage.WAITING)
FAILS = "UNKNOWN_LEADER_EPOCH"


def fetched_from_0(release: str, fetch: m.Exchange) -> m.World:
    """Broker 0 has no replica any more, and a Fetch of broker 1, which is alive."""
    known = generation_for(release)
    world = m.World(m.EMPTY)
    for broker in (0, 1):
        for event in start(broker, release):
            happen(world, event, {0: known, 1: known})
    before = world.broker(0)
    assert before is not None
    world.put_broker(0, replace(before, live=frozenset({0, 1}), checkpoints=True))
    world.put_exchanges(1, 0, (fetch,))
    return world


def told(world: m.World, *partitions: m.TopicPartition, leader: int = 1) -> set[str]:
    """Let broker 0 handle a LeaderAndIsr of epoch 0, part by part; returns what it answers."""
    parts = [
        m.Received(
            number=(7, 1),
            controller_epoch=1,
            request=m.LeaderAndIsr(
                states=(replace(state(leader, 0, (0, 1)), partition=partition.partition),),
                is_new=True,
            ),
        )
        for partition in partitions
    ]
    world.put_received(0, tuple(parts))
    said = set()
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        errors = control_handling.handle(world, 0, part, is_last=is_last)
        assert errors is not None
        parts[index] = replace(part, errors=errors)
        world.put_received(0, tuple(parts))
        said |= {error for _, error in errors}
    return said


def fetched(world: m.World) -> Sequence[m.TopicPartition]:
    thread = world.thread(0, 1)
    return () if thread is None else [partition for partition, _ in thread.partitions]


@pytest.mark.parametrize("release", ["2.1.0", "2.1.1", "2.2.2", "2.3.1"])
def test_a_fetch_of_a_later_epoch_that_waits_makes_the_request_fail(release: str):
    world = fetched_from_0(release, WAITING)

    assert told(world, T) == {FAILS}

    replica = world.known_replica(0, T)
    assert (replica.role, replica.leader, replica.leader_epoch) == (m.Role.FOLLOWER, 1, 0)
    assert fetched(world) == ()


OTHERS = {
    "no epochs yet": ("2.0.1", WAITING),
    "since the fix": ("2.4.0", WAITING),
    "later": ("2.8.2", WAITING),
    "arrived": ("2.3.1", replace(WAITING, stage=m.Stage.ARRIVED)),
    "answered": ("2.3.1", replace(WAITING, stage=m.Stage.ANSWERED)),
    "refused": ("2.3.1", replace(WAITING, refused=frozenset({T}))),
    "another partition": ("2.3.1", replace(WAITING, asked=((OTHER, ASKED),))),
    "the new epoch": ("2.3.1", replace(WAITING, asked=((T, replace(ASKED, leader_epoch=0)),))),
    "a session forgets it": (
        "2.3.1",
        replace(WAITING, asked=((T, replace(ASKED, is_incremental=True)),)),
    ),
}


@pytest.mark.parametrize(("release", "fetch"), OTHERS.values(), ids=OTHERS)
def test_any_other_fetch_does_not(release: str, fetch: m.Exchange):
    world = fetched_from_0(release, fetch)
    assert told(world, T) == {""}
    assert fetched(world) == [T]


def test_a_broker_that_leads_does_not_look_at_what_waits():
    world = fetched_from_0("2.3.1", WAITING)
    assert told(world, T, leader=0) == {""}
    assert world.known_replica(0, T).role is m.Role.LEADER


@pytest.mark.parametrize("partitions", [(T, OTHER), (OTHER, T)], ids=["first", "last"])
def test_the_request_fails_as_a_whole(partitions: tuple[m.TopicPartition, ...]):
    world = fetched_from_0("2.3.1", WAITING)
    assert told(world, *partitions) == {FAILS}
    assert {world.known_replica(0, each).role for each in partitions} == {m.Role.FOLLOWER}
    assert fetched(world) == ()
