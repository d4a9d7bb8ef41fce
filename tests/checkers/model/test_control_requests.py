"""A broker handles control requests by one function, whichever scheduler has it do so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import control_handling
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.settle import stale_request
from kchaos.checkers.model.settle.predict import left_alone_after
from kchaos.studies.explore.actions import Action, Deliver, Elect, ReachBroker, Serve
from kchaos.studies.explore.bounds import Grain, Machine
from kchaos.studies.explore.machine import actions, initial_state, next_state
from tests.support.machine_steps import after
from tests.support.model_timelines import cluster, kill, left_alone, state

RELEASE = "2.8.2"
T = m.TopicPartition("t", 0)
TOLD = state(0, 1, (0, 1))
"""Broker 0 leads in leader epoch 1, in which broker 1 is to follow it."""
HELD = m.Hold(name="news", api="LeaderAndIsr", target=1)
LATE = m.StaleRequest(
    api="LeaderAndIsr",
    broker=1,
    target=1,
    version=0,
    generation=101,
    controller=2,
    controller_epoch=1,
    states=(("t", 0, 0, 1, (0, 1), 1, 0, (0, 1)),),
)
Left = tuple[int, bool]
"""Leader epoch in which broker 1 follows, and whether a request is yet to be handled."""


def left(world: m.World, *, is_queued: bool) -> Left:
    outbox = world.outbox(1, 1)
    waits = bool(world.to_handle(1)) if is_queued else outbox is not None and bool(outbox.requests)
    return world.known_replica(1, T).leader_epoch, waits


def settled(*before: m.Event, last: m.Event, is_queued: bool = False) -> Callable[[], Left]:
    begun = left_alone(
        [*cluster(RELEASE, controller=2, replicas=(0, 1)), state(0, 0, (0, 1)), *before]
    )
    return lambda: left(m.World(left_alone_after(begun, last, {})[0]), is_queued=is_queued)


def explored(grain: Grain, *before: Action, last: Action) -> Callable[[], Left]:
    machine = Machine(
        generations=dict.fromkeys((0, 1), generation_for(RELEASE)),
        records=1,
        leader_epoch=1,
        log_size=1,
        grain=grain,
    )
    begun = after(machine, *before, state=initial_state(machine))

    def go() -> Left:
        may = last in actions(machine, begun)
        now = next_state(machine, begun, last) if may else begun
        return left(m.World(now), is_queued=grain.has_queues)

    return go


def followed() -> Callable[[], Left]:
    begun = left_alone([*cluster(RELEASE, controller=2, replicas=(0, 1)), state(0, 0, (0, 1))])
    request = m.Received(number=(7, 1), controller_epoch=1, request=m.LeaderAndIsr(states=(TOLD,)))
    world = m.World(begun)
    world.put_received(1, (request,))
    waiting = world.state(begun)

    def go() -> Left:
        steps = internal_steps(waiting, Lookahead(Record(seen=(), decided=())), 0, 0)
        done: list[m.World] = [step for step in steps if not step.to_handle(1)]
        return left(done[0] if done else m.World(waiting), is_queued=True)

    return go


SCHEDULERS: dict[str, Callable[[], Callable[[], Left]]] = {
    "settle": lambda: settled(last=TOLD),
    "settle, released": lambda: settled(HELD, TOLD, last=m.ReleaseHold(name="news")),
    "settle, late": lambda: settled(last=LATE, is_queued=True),
    "explore": lambda: explored(
        Grain.ANSWERS, Elect(leader=1), last=Deliver(broker=1, leader_epoch=1)
    ),
    "explore, queues": lambda: explored(
        Grain.QUEUES,
        Elect(leader=1),
        ReachBroker(broker=1, controller_epoch=1),
        last=Serve(broker=1, controller_epoch=1),
    ),
    "follow": followed,
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("answer", "expected"), [(None, (0, True)), (((None, "STALE_CONTROLLER_EPOCH"),), (0, False))]
)
def test_each_scheduler_has_a_broker_handle_its_request_by_the_same_function(
    scheduler: str, answer: Any, expected: Left, monkeypatch: pytest.MonkeyPatch
):
    """What must wait stays, what is refused is gone, and by Kafka's rules both follow at once."""
    go = SCHEDULERS[scheduler]()
    assert go() == (1, False)
    monkeypatch.setattr(control_handling, "handle", lambda *_, **__: answer)
    assert go() == expected


def test_what_must_wait_at_first_is_handled_when_the_cluster_is_left_alone_again(
    monkeypatch: pytest.MonkeyPatch,
):
    begun = left_alone([*cluster(RELEASE, controller=2, replicas=(0, 1)), state(0, 0, (0, 1))])
    with monkeypatch.context() as patched:
        patched.setattr(control_handling, "handle", lambda *_, **__: None)
        waiting, _ = left_alone_after(begun, LATE, {})
    assert left(m.World(waiting), is_queued=True) == (0, True)
    heard: m.State = left_alone_after(waiting, HELD, {})[0]
    assert left(m.World(heard), is_queued=True) == (1, False)


def test_a_paused_broker_has_a_late_request_and_handles_it_when_it_goes_on():
    begun = left_alone([*cluster(RELEASE, controller=2, replicas=(0, 1)), state(0, 0, (0, 1))])
    paused, _ = left_alone_after(begun, m.PauseBroker(broker=1), {})
    waiting, _ = left_alone_after(paused, LATE, {})
    assert left(m.World(waiting), is_queued=True) == (0, True)
    heard, _ = left_alone_after(waiting, m.ResumeBroker(broker=1), {})
    assert left(m.World(heard), is_queued=True) == (1, False)


def test_late_requests_are_handled_in_their_order_each_to_its_last_part(
    monkeypatch: pytest.MonkeyPatch,
):
    """Threads without a partition end, and the checkpoint is written, after each last part."""
    begun = left_alone([*cluster(RELEASE, controller=2, replicas=(0, 1)), m.PauseBroker(broker=1)])
    both = (LATE.states[0], ("u", *LATE.states[0][1:]))
    waiting, _ = left_alone_after(begun, replace(LATE, states=both), {})
    waiting, _ = left_alone_after(waiting, replace(LATE, api="StopReplica"), {})
    handled: list[tuple[str, bool]] = []

    def handle(
        _: m.World, __: int, received: m.Received, *, is_last: bool
    ) -> control_handling.Errors:
        handled.append((type(received.request).__name__, is_last))
        return ()

    monkeypatch.setattr(control_handling, "handle", handle)
    left_alone_after(waiting, m.ResumeBroker(broker=1), {})
    assert handled == [("LeaderAndIsr", False), ("LeaderAndIsr", True), ("StopReplica", True)]


@pytest.mark.parametrize("target", [1, 9])
def test_a_late_request_for_a_broker_that_is_not_there_is_lost(target: int):
    begun = left_alone([*cluster(RELEASE, controller=2, replicas=(0, 1)), *kill(1)])
    assert left_alone_after(begun, replace(LATE, target=target), {})[0] == begun


@pytest.mark.parametrize("api", get_args(m.ControlApi))
def test_a_broker_gets_a_part_for_each_partition_that_a_late_request_names(api: m.ControlApi):
    named = tuple((topic, *LATE.states[0][1:]) for topic in ("t", "u"))
    parts = stale_request.parts_of(replace(LATE, api=api, states=named, live=(0, 1)))
    told = {
        "LeaderAndIsr": [{("t", 0)}, {("u", 0)}],
        "StopReplica": [{("t", 0)}, {("u", 0)}],
        "UpdateMetadata": [{("t", 0), ("u", 0)}],
        "ControlledShutdown": [],
    }
    assert [names_of(part) for part in parts] == told[api]


def names_of(part: m.ControlRequest) -> set[tuple[str, int]]:
    match part:
        case m.LeaderAndIsr(states=states):
            return {(told.topic, told.partition) for told in states}
        case m.UpdateMetadata(told=partitions):
            return {(named.topic, named.partition) for named in partitions}
        case m.StopReplica(partition=named):
            return {(named.topic, named.partition)}
