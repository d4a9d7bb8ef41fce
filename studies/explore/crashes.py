"""Crashes and time-outs: processes and sessions end and come back, requests are given up."""

from dataclasses import replace

from kchaos.checkers.model.broker import exchange, process
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.state.state import Checkpoint
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import BrokerRegistered, BrokerUnregistered
from kchaos.checkers.model.values.requests import Stage
from kchaos.checkers.model.values.shared import Shared
from kchaos.studies.explore import lag, queues
from kchaos.studies.explore.actions import (
    AnswerGivenUp,
    EndSession,
    GiveUp,
    Kill,
    Register,
    Start,
    Stop,
    WriteCheckpoint,
)
from kchaos.studies.explore.bounds import PARTITION, Machine
from kchaos.studies.explore.canonical import form_of
from kchaos.studies.explore.controller import spend
from kchaos.studies.explore.czxids import next_czxid


def write_checkpoint(world: World, _: Machine, action: WriteCheckpoint) -> bool:
    """Write the high watermark to disk, as a broker does every few seconds."""
    replica = world.replica(action.broker, PARTITION)
    if replica is None or world.running(action.broker) is None:
        return False
    known = replica.high_watermark
    if world.checkpoint(action.broker, PARTITION).known == known:
        return False
    world.put(
        ("checkpoint", action.broker, PARTITION), Checkpoint(known=known, possible=Shared((known,)))
    )
    return True


def kill(world: World, machine: Machine, action: Kill) -> bool:
    """End a process at once; the files stay as they are.

    A shutdown that it had asked for is asked for no more; one that it was granted stays granted.
    """
    if world.running(action.broker) is None or not spend(world, "kills"):
        return False
    checkpointed = {
        partition: world.checkpoint(action.broker, partition).known
        for partition in world.partitions(action.broker)
    }
    process.stop(world, action.broker, is_clean=False, checkpointed=checkpointed)
    if machine.faults.stops:
        granted = world.get(("stopping", action.broker)) in ("let go", "stopped")
        world.put(("stopping", action.broker), "stopped" if granted else None)
    _forget(world, machine, action.broker)
    return True


def stop(world: World, machine: Machine, action: Stop) -> bool:
    """End a process that the controller let go, and its session with it."""
    broker = action.broker
    if world.get(("stopping", broker)) != "let go" or world.running(broker) is None:
        return False
    process.stop(world, broker, is_clean=True)
    _forget(world, machine, broker)
    outboxes.broker_unregistered(world, BrokerUnregistered(broker=broker))
    queues.notice(world, machine)
    world.put(("stopping", broker), "stopped")
    return True


def start(world: World, machine: Machine, action: Start) -> bool:
    """Start a process that has ended."""
    broker = world.broker(action.broker)
    if broker is None or broker.is_running:
        return False
    outboxes.broker_unregistered(world, BrokerUnregistered(broker=action.broker))
    process.start(world, broker.configuration, broker.generation)
    _register(world, machine, action.broker)
    return True


def end_session(world: World, machine: Machine, action: EndSession) -> bool:
    """End a session; that of a process that has ended goes without saying."""
    if action.broker not in world.registered():
        return False
    if world.running(action.broker) is not None and not spend(world, "expiries"):
        return False
    outboxes.broker_unregistered(world, BrokerUnregistered(broker=action.broker))
    queues.notice(world, machine)
    return True


def register(world: World, machine: Machine, action: Register) -> bool:
    """Register a living broker again."""
    if action.broker in world.registered() or world.running(action.broker) is None:
        return False
    _register(world, machine, action.broker)
    return True


def give_up(world: World, machine: Machine, action: GiveUp) -> bool:
    """Let a fetcher thread hang up (ReplicaFetcherBlockingSend)."""
    follower, leader = action.follower, action.leader
    request = exchange.awaited(world, follower, leader)
    if request is None or world.thread(follower, leader) is None or not spend(world, "time_outs"):
        return False
    exchange.change(world, follower, leader, request, replace(request, is_awaited=False))
    exchange.end_session(world, follower, leader, request)
    return True


def answer_given_up(world: World, machine: Machine, action: AnswerGivenUp) -> bool:
    """Let a leader handle the oldest request that nobody waits for, and count what it says."""
    follower, leader = action.follower, action.leader
    request = next(
        (exchange for exchange in world.exchanges(follower, leader) if not exchange.is_awaited),
        None,
    )
    if request is None:
        return False
    if world.running(leader) is None:
        exchange.end(world, follower, leader, request)
        return True
    if machine.grain.has_queues and request.stage is Stage.SENT:
        arrived = replace(request, stage=Stage.ARRIVED)
        exchange.change(world, follower, leader, request, arrived)
        return True
    if request.stage in (Stage.SENT, Stage.ARRIVED):
        request = exchange.look(world, follower, leader, request)
        request = lag.note_look(world, machine, follower, leader, request)
        if machine.grain.splits_reads:
            return True
    if request.stage is Stage.READ:
        lag.count(world, machine, follower, leader, request)
        request, _ = exchange.count(world, follower, leader, request)
    exchange.end(world, follower, leader, request)
    return True


def _register(world: World, machine: Machine, broker: int) -> None:
    czxid = next_czxid(world.get, form_of(machine).places, broker)
    outboxes.broker_registered(world, BrokerRegistered(broker=broker, czxid=czxid))
    if not machine.grain.has_queues:
        outboxes.learn_epoch(world, broker)
    queues.notice(world, machine)


def _forget(world: World, machine: Machine, broker: int) -> None:
    """Drop the unreceived requests from and to the controller."""
    world.put(("isr request", broker, PARTITION), None)
    queues.lose_requests(world, machine, broker)
