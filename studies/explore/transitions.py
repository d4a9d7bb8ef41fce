"""Transitions of the machine: one for each action, of the same steps by which runs are judged.

What the controller sends waits in its outboxes until a broker handles it. Each function returns
whether the action can happen; what it reads first decides that most often.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import Exchange, LeaderAndIsr, Stage
from kchaos.studies.explore import controller, crashes, lag, queues
from kchaos.studies.explore.actions import (
    Action,
    Answer,
    AnswerGivenUp,
    Arrive,
    Ask,
    AskToStop,
    CompleteReassignment,
    Deliver,
    Elect,
    EndSession,
    Expand,
    GiveUp,
    Handle,
    HearOwnEpoch,
    Kill,
    Learn,
    LetStop,
    Look,
    MoveController,
    MoveHighWatermark,
    PassLag,
    ReachBroker,
    ReachController,
    Reassign,
    Receive,
    Register,
    Remove,
    Resign,
    SeeBrokers,
    Serve,
    Shrink,
    Start,
    Stop,
    Write,
    WriteCheckpoint,
    WriteIsr,
)
from kchaos.studies.explore.bounds import CONTROLLER_EPOCH, PARTITION, RECORDS, Machine
from kchaos.studies.explore.controller import decide, known_state
from kchaos.studies.explore.isr_changes import isr_with, isr_without


def act(world: World, machine: Machine, action: Action) -> bool:
    """Let an action happen; return False, after changes of no meaning, where it cannot."""
    kind = type(action)
    return (_DOING.get(kind) or machine.extension.effects[kind])(world, machine, action)


def _write(world: World, machine: Machine, action: Write) -> bool:
    leader_id = action.leader
    replica = world.replica(leader_id, PARTITION)
    if replica is None or replica.role is not Role.LEADER:
        return False
    if replica.log.log_end_offset >= machine.log_size:
        return False
    number: int = world.get(RECORDS)
    if number >= machine.records or world.running(leader_id) is None:
        return False
    name = f"record-{number}"
    request = Produce(
        operation=name,
        broker=leader_id,
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        records=(name,),
        acks=1,
    )
    leader.produce(world, request, settles=not machine.grain.splits_reads)
    world.put(RECORDS, number + 1)
    return True


def _move_high_watermark(world: World, _: Machine, action: MoveHighWatermark) -> bool:
    if not world.get(("appended", action.leader, PARTITION)):
        return False
    leader.settle_append(world, action.leader, PARTITION)
    return True


def _deliver(world: World, machine: Machine, action: Deliver) -> bool:
    outbox = world.outbox(CONTROLLER_EPOCH, action.broker)
    assert outbox is not None
    requests = outbox.requests if machine.skips_epochs else outbox.requests[:1]
    for index, request in enumerate(requests):
        assert isinstance(request, LeaderAndIsr)
        if request.states[0].leader_epoch == action.leader_epoch:
            left = replace(outbox, requests=outbox.requests[index:])
            world.put(("outbox", CONTROLLER_EPOCH, action.broker), left)
            return _deliver_first(world, CONTROLLER_EPOCH, action.broker)
    return False


def _receive(world: World, _: Machine, action: Receive) -> bool:
    """Deliver the first request in a controller's queue; refuse an older controller's."""
    return _deliver_first(world, action.controller_epoch, action.broker)


def _deliver_first(world: World, epoch: int, broker: int) -> bool:
    """Let a broker handle the first request of an outbox, and its controller have the answer."""
    outbox = world.outbox(epoch, broker)
    if outbox is None or not outbox.requests or world.running(broker) is None:
        return False
    if not outboxes.deliver(world, epoch, broker):
        return False
    outboxes.answered(world, epoch, broker)
    return True


def _shrink(world: World, machine: Machine, action: Shrink) -> bool:
    """Drop a follower without a counted fetch for `replica.lag.time.max.ms`."""
    if known_state(world).leader != action.leader:
        return False
    isr = isr_without(world, PARTITION, action.follower)
    if isr is None or not lag.has_lagged(world, machine, action.leader, action.follower):
        return False
    if machine.extension.keeps(world, action.leader, action.follower):
        return False
    return _write_isr(world, machine, isr)


def _expand(world: World, machine: Machine, action: Expand) -> bool:
    if known_state(world).leader != action.leader:
        return False
    isr = isr_with(world, PARTITION, action.follower)
    return isr is not None and _write_isr(world, machine, isr)


def _write_isr(world: World, machine: Machine, isr: tuple[int, ...]) -> bool:
    """Write the ISR; with KIP-497 the controller does, and the leader is still to learn of it.

    Where requests are in flight, so is that to the controller; one is at a time.
    """
    state = known_state(world)
    generation = outboxes.generation_of(world, state.leader)
    if world.get(("isr change", state.leader, PARTITION)) is not None:
        return False
    if not generation.asks_controller_for_isr:
        decide(world, state.leader, state.leader_epoch, isr)
        leader.learn_isr(world, state.leader, PARTITION)
        return True
    if machine.grain.has_requests:
        request = ("isr request", state.leader, PARTITION)
        if world.get(request) is not None:
            return False
        world.put(request, (state.leader_epoch, tuple(sorted(isr))))
    else:
        decide(world, state.leader, state.leader_epoch, isr)
    replica = world.known_replica(state.leader, PARTITION)
    maximal = tuple(sorted({*replica.isr, *isr}))
    world.put_replica(state.leader, PARTITION, replace(replica, maximal_isr=maximal))
    return True


def _learn(world: World, _: Machine, action: Learn) -> bool:
    if world.get(("isr change", action.leader, PARTITION)) is None:
        return False
    if world.running(action.leader) is None or world.replica(action.leader, PARTITION) is None:
        return False
    leader.learn_isr(world, action.leader, PARTITION)
    return True


def _ask(world: World, machine: Machine, action: Ask) -> bool:
    follower_id, leader_id = action.follower, action.leader
    thread = world.thread(follower_id, leader_id)
    if thread is None or thread.is_dead:
        return False
    if exchange.awaited(world, follower_id, leader_id) is not None:
        return False
    if exchange.go_on_without_asking(world, follower_id, leader_id):
        return True
    sent = exchange.ask(world, follower_id, leader_id)
    if sent is None:
        return False
    if machine.grain.has_requests:
        return True
    _answered(world, machine, follower_id, leader_id, sent)
    return True


def _look(world: World, machine: Machine, action: Look) -> bool:
    request = exchange.awaited(world, action.follower, action.leader)
    there = Stage.ARRIVED if machine.grain.has_queues else Stage.SENT
    if request is None or request.stage is not there or world.running(action.leader) is None:
        return False
    looked = exchange.look(world, action.follower, action.leader, request)
    lag.note_look(world, machine, action.follower, action.leader, looked)
    return True


def _answer(world: World, machine: Machine, action: Answer) -> bool:
    request = exchange.awaited(world, action.follower, action.leader)
    wanted = Stage.READ if machine.grain.splits_reads else Stage.SENT
    if request is None:
        return False
    if request.stage is not wanted and (
        request.stage is not Stage.SENT or world.running(action.leader) is not None
    ):
        return False
    _answered(world, machine, action.follower, action.leader, request)
    return True


def _answered(
    world: World, machine: Machine, follower_id: int, leader_id: int, request: Exchange
) -> None:
    """Let the leader answer; one whose process has ended never does.

    A Fetch that finds nothing is answered at once: that it waits first differs from two such
    fetches only in how often the follower asks.
    """
    if world.running(leader_id) is None:
        exchange.end(world, follower_id, leader_id, request)
        return
    if request.stage is Stage.SENT:
        request = exchange.look(world, follower_id, leader_id, request)
        request = lag.note_look(world, machine, follower_id, leader_id, request)
    lag.count(world, machine, follower_id, leader_id, request)
    exchange.answer(world, follower_id, leader_id, request)


def _handle(world: World, _: Machine, action: Handle) -> bool:
    request = exchange.awaited(world, action.follower, action.leader)
    if request is None or request.stage is not Stage.ANSWERED:
        return False
    exchange.handle(world, action.follower, action.leader, request)
    return True


_DOING: Mapping[type[Any], Callable[[World, Machine, Any], bool]] = {
    Write: _write,
    MoveHighWatermark: _move_high_watermark,
    Elect: controller.elect,
    Remove: controller.remove,
    Deliver: _deliver,
    Receive: _receive,
    Shrink: _shrink,
    Expand: _expand,
    WriteIsr: controller.write_isr,
    Learn: _learn,
    Ask: _ask,
    Look: _look,
    Answer: _answer,
    Handle: _handle,
    GiveUp: crashes.give_up,
    AnswerGivenUp: crashes.answer_given_up,
    WriteCheckpoint: crashes.write_checkpoint,
    Kill: crashes.kill,
    PassLag: lag.pass_lag,
    AskToStop: controller.ask_to_stop,
    LetStop: controller.let_stop,
    Stop: crashes.stop,
    Start: crashes.start,
    EndSession: crashes.end_session,
    Register: crashes.register,
    SeeBrokers: controller.see_brokers,
    MoveController: controller.move_controller,
    Resign: controller.resign,
    Reassign: controller.reassign,
    CompleteReassignment: controller.complete_reassignment,
    Arrive: queues.arrive,
    ReachBroker: queues.reach_broker,
    Serve: queues.serve,
    ReachController: queues.reach_controller,
    HearOwnEpoch: queues.hear_own_epoch,
}
