"""A control request that no controller has in its outbox: made for an earlier generation, perhaps.

It waits in the broker's queue until the broker can handle it. Where a run is followed by its links
such a request is seen there like any other; this is for timelines without links.
"""

from typing import Any

from kchaos.checkers.acts import StaleRequest, TopicPartition
from kchaos.checkers.model.broker import control_handling, process
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.requests import (
    ControlRequest,
    LeaderAndIsr,
    Received,
    StopReplica,
    UpdateMetadata,
)


def arrive(world: World, event: StaleRequest) -> None:
    """Let a control request that no controller has in its outbox get into a broker's queue.

    It may be for an earlier generation. What a controller decides because of a ControlledShutdown
    is seen in ZooKeeper and at the links, not predicted here.
    """
    broker = world.broker(event.target)
    if broker is None or not broker.is_working or event.api == "ControlledShutdown":
        return
    parts = tuple(
        Received(
            number=(event.controller_epoch, 0),
            controller_epoch=event.controller_epoch,
            request=request,
            broker_epoch=-1 if event.broker_epoch is None else event.broker_epoch,
        )
        for request in parts_of(event)
    )
    world.put_received(event.target, (*world.received(event.target), *parts))


def serve(world: World, broker_id: int) -> bool:
    """Let a broker handle what such requests it has, in the order of their arrival.

    Returns whether it handled any. The rest waits for a fetcher.
    """
    waiting = left = world.received(broker_id)
    broker = world.broker(broker_id)
    if broker is None or not broker.is_working:
        return False
    while left:
        is_last = all(part.number != left[0].number for part in left[1:])
        if control_handling.handle(world, broker_id, left[0], is_last=is_last) is None:
            break
        left = left[1:]
    if left == waiting:
        return False
    world.put_received(broker_id, left)
    process.write_checkpoint(world, broker_id)
    return True


def parts_of(event: StaleRequest) -> list[ControlRequest]:
    """Return what a stale request says, one value for each part that a broker handles apart."""
    partitions = [TopicPartition(*state[:2]) for state in event.states]
    match event.api:
        case "LeaderAndIsr":
            return [LeaderAndIsr(states=(_state_of(state),)) for state in event.states]
        case "UpdateMetadata":
            return [UpdateMetadata(live=frozenset(event.live), told=frozenset(partitions))]
        case "StopReplica":
            return [
                StopReplica(partition=partition, deletes=event.deletes) for partition in partitions
            ]
        case _:
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
