"""Log start offset after a broker was killed, before anybody has seen it."""

from dataclasses import replace

import pytest

from kchaos.checkers.acts import StopBroker, TopicPartition
from kchaos.checkers.model.broker import log_start
from kchaos.checkers.model.broker.leader import become_leader
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import EMPTY
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.replica import Replica, Role
from tests.support.model_timelines import left_alone, start, state, write

T = TopicPartition("t", 0)
KILLED = StopBroker(broker=0, clean=False)


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_a_log_may_begin_where_it_did_before_however_often_its_broker_was_killed(kills: int):
    world = World(EMPTY)
    for event in start(0, "2.1.1"):
        happen(world, event, {})
    world.put(("assignment", T), (0,))
    world.put_replica(0, T, Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    happen(world, write("m", 0, count=3), {})
    led = world.known_replica(0, T)
    world.put_replica(0, T, replace(led, log=replace(led.log, log_start_offset=1)))
    for _ in range(kills):
        happen(world, KILLED, {})
        (stopped,) = replicas_of(world.state(EMPTY))
        assert stopped.log_start_offset == 1
        for event in start(0, "2.1.1"):
            happen(world, event, {})
        (started,) = replicas_of(world.state(EMPTY))
        assert started.log_start_offset == 0
        assert log_start.why_not(world, 0, T, 1) == ""
        assert log_start.why_not(world, 0, T, 2) != ""


@pytest.mark.parametrize(
    ("role", "deleted", "begins_at", "why"),
    [
        (Role.LEADER, 4, 4, ""),
        (Role.LEADER, 4, 5, "its log began at 0, and at 4 at most"),
        (Role.LEADER, None, 4, "its log began at 0, and at 0 at most"),
        (Role.FOLLOWER, 4, 4, "its log began at 0, and at 0 at most"),
    ],
)
def test_a_leader_begins_its_log_behind_what_it_deletes_from_the_remote_tier(
    role: Role, deleted: int | None, begins_at: int, why: str
):
    world = World(left_alone(start(0, "3.9.1")))
    log = Log(log_end_offset=8)
    world.put_replica(0, T, Replica(log=log, role=role, leader=0, high_watermark=8))
    world.put(("remotely deleted", T), deleted)

    assert log_start.why_not(world, 0, T, begins_at) == why
