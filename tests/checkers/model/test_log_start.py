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
from kchaos.checkers.model.values.replica import Replica
from tests.support.model_timelines import start, state, write

T = TopicPartition("t", 0)
KILLED = StopBroker(broker=0, clean=False)


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_a_log_may_begin_where_it_did_before_however_often_its_broker_was_killed(
    kills: int,
) -> None:
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
