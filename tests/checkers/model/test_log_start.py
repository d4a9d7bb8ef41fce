"""Log start offset after a broker was killed, before anybody has seen it."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model.broker import log_start
from kchaos.checkers.model.broker.leader import become_leader
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.views import replicas_of
from tests.support.model_timelines import left_alone, start, state, write

T = m.TopicPartition("t", 0)
KILLED = m.StopBroker(broker=0, clean=False)


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_a_log_may_begin_where_it_did_before_however_often_its_broker_was_killed(kills: int):
    world = m.World(m.EMPTY)
    for event in start(0, "2.1.1"):
        happen(world, event, {})
    world.put(("assignment", T), (0,))
    world.put_replica(0, T, m.Replica())
    become_leader(world, 0, T, state(0, 1, (0,)))
    happen(world, write("m", 0, count=3), {})
    led = world.known_replica(0, T)
    world.put_replica(0, T, replace(led, log=replace(led.log, log_start_offset=1)))
    for _ in range(kills):
        happen(world, KILLED, {})
        (stopped,) = replicas_of(world.state(m.EMPTY))
        assert stopped.log_start_offset == 1
        for event in start(0, "2.1.1"):
            happen(world, event, {})
        (started,) = replicas_of(world.state(m.EMPTY))
        assert started.log_start_offset == 0
        assert log_start.why_not(world, 0, T, 1) == ""
        assert log_start.why_not(world, 0, T, 2) != ""


@pytest.mark.parametrize(
    ("role", "deleted", "begins_at", "why"),
    [
        (m.Role.LEADER, 4, 4, ""),
        (m.Role.LEADER, 4, 5, "its log began at 0, and at 4 at most"),
        (m.Role.LEADER, None, 4, "its log began at 0, and at 0 at most"),
        (m.Role.FOLLOWER, 4, 4, "its log began at 0, and at 0 at most"),
    ],
)
def test_a_leader_begins_its_log_behind_what_it_deletes_from_the_remote_tier(
    role: m.Role, deleted: int | None, begins_at: int, why: str
):
    world = m.World(left_alone(start(0, "3.9.1")))
    log = m.Log(log_end_offset=8)
    world.put_replica(0, T, m.Replica(log=log, role=role, leader=0, high_watermark=8))
    world.put(("remotely deleted", T), deleted)

    assert log_start.why_not(world, 0, T, begins_at) == why
