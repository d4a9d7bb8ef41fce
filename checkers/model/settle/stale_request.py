"""A control request that no controller has in its outbox: made for an earlier generation, perhaps.

It waits in the broker's queue until the broker can handle it. Where a run is followed by its links
such a request is seen there like any other; this is for timelines without links.
"""

from typing import Any

from kchaos.checkers.acts import StaleRequest, TopicPartition
from kchaos.checkers.model.broker import control_handling, process
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values import requests
from kchaos.checkers.model.values.events import PartitionState


def arrive(world: World, event: StaleRequest) -> None:
    """Let a control request that no controller has in its outbox get into a broker's queue.

    It may be for an earlier generation. A broker that is paused has it all the same, and handles
    it afterwards. If no broker runs there, the request is lost.
    """
    if world.running(event.target) is None:
        return
    waiting = world.received(event.target)
    # Parts of one request are told from those of the next by it.
    count = waiting[-1].number[1] + 1 if waiting else 0
    parts = tuple(
        requests.Received(
            number=(event.controller_epoch, count),
            controller_epoch=event.controller_epoch,
            request=request,
            broker_epoch=-1 if event.broker_epoch is None else event.broker_epoch,
        )
        for request in parts_of(event)
    )
    world.put_received(event.target, (*waiting, *parts))


def serve(world: World, broker_id: int) -> bool:
    """Let a broker handle what such requests it has, in the order of their arrival.

    Returns whether it handled any. The rest waits for a fetcher.
    """
    broker = world.broker(broker_id)
    assert broker is not None
    if not broker.is_working:
        return False
    waiting = left = world.received(broker_id)
    while left and _handles(world, broker_id, left):
        left = left[1:]
    has_handled = left != waiting
    if has_handled:
        world.put_received(broker_id, left)
        process.write_checkpoint(world, broker_id)
    return has_handled


def _handles(world: World, broker_id: int, received: tuple[requests.Received, ...]) -> bool:
    first, *rest = received
    is_last = all(part.number != first.number for part in rest)
    return control_handling.handle(world, broker_id, first, is_last=is_last) is not None


def parts_of(event: StaleRequest) -> list[requests.ControlRequest]:
    """Return what a stale request says, one value for each part that a broker handles apart.

    There is none of a ControlledShutdown: what a controller decides because of it is seen in
    ZooKeeper and at the links, not predicted here.
    """
    partitions = [TopicPartition(*state[:2]) for state in event.states]
    match event.api:
        case "LeaderAndIsr":
            return [requests.LeaderAndIsr(states=(_state_of(state),)) for state in event.states]
        case "UpdateMetadata":
            return [requests.UpdateMetadata(live=frozenset(event.live), told=frozenset(partitions))]
        case "StopReplica":
            return [
                requests.StopReplica(partition=partition, deletes=event.deletes)
                for partition in partitions
            ]
        case "ControlledShutdown":
            return []


def _state_of(state: tuple[Any, ...]) -> PartitionState:
    topic, partition, leader_id, leader_epoch, isr, controller_epoch, version, _ = state
    return PartitionState(
        topic=topic,
        partition=partition,
        leader=leader_id,
        leader_epoch=leader_epoch,
        isr=isr,
        controller_epoch=controller_epoch,
        version=version,
    )
