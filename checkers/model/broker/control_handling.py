"""Control requests at a broker: it refuses them, waits, or leads, follows and stops.

Read from ReplicaManager.becomeLeaderOrFollower, maybeUpdateMetadataCache and stopReplicas, 0.10.2.2
to 3.9.
"""

from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import follower, leader, offset_reset, process
from kchaos.checkers.model.state.state import Broker, Checkpoint
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import (
    LeaderAndIsr,
    Received,
    StopReplica,
    UpdateMetadata,
)

OFFLINE_STOPPED = "OFFLINE_STOPPED"
"""Stands for what is answered to a StopReplica of a replica whose log directory has failed."""
Errors = tuple[tuple[TopicPartition | None, str], ...]
"""Answer of a broker: (partition, or None for the whole request; Kafka's error or "")."""


_OF_A_LEADER = (
    *("isr change", "isr answer", "isr wanted", "isr unanswered", "isr refused"),
    *("appended", "shortened"),
)
"""Further knowledge of a replica, which goes with it."""


def handle(
    world: World, broker_id: int, received: Received, *, is_last: bool = True
) -> Errors | None:
    """Handle a control request, or a part of one, on a broker.

    Every scheduler lets a broker handle its requests here, and decides by itself which is next.

    Args:
        world: The transition.
        broker_id: Who handles it; it has run.
        received: What is handled.
        is_last: Whether no other part of the request is left.

    Returns:
        The broker's answer. None where the broker must wait for a fetcher: nothing has changed
        then. A request that is refused waits for none.
    """
    broker = world.broker(broker_id)
    assert broker is not None
    refusal = _refusal(broker, received)
    if refusal:
        return ((None, refusal),)
    if not offset_reset.may_handle(world, broker_id, received.request):
        return None
    controller_epoch = max(received.controller_epoch, broker.controller_epoch)
    request = received.request
    if isinstance(request, UpdateMetadata):
        told = None if broker.told is None else (broker.told | request.told) - request.deleted
        before = (broker.controller_epoch, broker.live, broker.told)
        if before != (controller_epoch, request.live, told):
            after = replace(broker, controller_epoch=controller_epoch, live=request.live, told=told)
            world.put_broker(broker_id, after)
        return ((None, ""),)
    if controller_epoch != broker.controller_epoch:
        world.put_broker(broker_id, replace(broker, controller_epoch=controller_epoch))
    if isinstance(request, StopReplica):
        return ((None, ""), (request.partition, _stop_replica(world, broker_id, request)))
    errors = tuple(
        (
            TopicPartition(state.topic, state.partition),
            _become(world, broker_id, state, request),
        )
        for state in request.states
    )
    if any(error == leader.OUT_OF_RANGE for _, error in errors):
        # The request fails as a whole where it stands (ReplicaManager.makeLeaders).
        return ((None, leader.OUT_OF_RANGE),)
    if is_last:
        # Only now: a dead thread that got another partition meanwhile stays.
        follower.end_idle_threads(world, broker_id)
        now = world.broker(broker_id)
        assert now is not None
        if not now.checkpoints:
            world.put_broker(broker_id, replace(now, checkpoints=True))
    return ((None, ""), *errors)


def _refusal(broker: Broker, received: Received) -> str:
    """Return the error with which a broker refuses a whole request at once, or ""."""
    error = broker.generation.error_of_broker_epoch(received.broker_epoch, broker.epoch)
    if error:
        return error
    is_stale = received.controller_epoch < broker.controller_epoch
    return "STALE_CONTROLLER_EPOCH" if is_stale else ""


def _become(world: World, broker_id: int, state: PartitionState, request: LeaderAndIsr) -> str:
    """Handle one partition of a LeaderAndIsr (ReplicaManager.becomeLeaderOrFollower).

    Whether the leader lives is asked of the broker's own metadata cache, which only UpdateMetadata
    changes: a follower of a leader that is not in it does nothing and keeps its epoch
    (ReplicaManager.makeFollowers, 0.10.2.2 to 3.9). A broker that is none of the replicas named
    refuses a newer leader epoch, and goes on in its own.
    """
    partition = TopicPartition(state.topic, state.partition)
    replica = world.replica(broker_id, partition) or Replica()
    if replica.role is Role.OFFLINE:
        return leader.STORAGE_ERROR
    if not replica.is_hosted and process.makes_no_log(
        world, broker_id, partition, is_new=request.is_new
    ):
        world.put_replica(broker_id, partition, replica.offline())
        return "UNKNOWN_TOPIC_OR_PARTITION" if request.is_left_out else leader.STORAGE_ERROR
    if not replica.is_hosted:
        replica = replace(replica, is_hosted=True)
        world.put_replica(broker_id, partition, replica)
    if state.leader_epoch == replica.leader_epoch:
        return "KNOWN_LEADER_EPOCH"
    if state.leader_epoch < replica.leader_epoch:
        return "STALE_CONTROLLER_EPOCH"
    if request.is_left_out:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    broker = world.broker(broker_id)
    assert broker is not None
    if broker.generation.proposed.persists_high_watermark:
        known = replica.high_watermark
        world.put(("checkpoint", broker_id, partition), Checkpoint(known=known, possible=(known,)))
    if state.leader == broker_id:
        follower.leave_fetchers(world, broker_id, partition)
        leader.become_leader(world, broker_id, partition, state)
        if leader.fails_to_move(broker, world.known_replica(broker_id, partition)):
            return leader.OUT_OF_RANGE
    elif state.leader in broker.live:
        follower.become_follower(world, broker_id, partition, state)
    return ""


def _stop_replica(world: World, broker_id: int, request: StopReplica) -> str:
    """Stop fetching a partition, and delete it if asked (ReplicaManager.stopReplica).

    Returns Kafka's error, or "".
    """
    broker, replica = world.broker(broker_id), world.replica(broker_id, request.partition)
    assert broker is not None
    if replica is None:
        return ""
    if replica.role is Role.OFFLINE:
        return OFFLINE_STOPPED
    if broker.generation.refuses_stop(request.leader_epoch, replica.leader_epoch):
        return "FENCED_LEADER_EPOCH"
    follower.leave_fetchers(world, broker_id, request.partition)
    follower.end_idle_threads(world, broker_id)
    if request.deletes:
        leader.fail_produces(world, broker_id, request.partition)
        for what in _OF_A_LEADER:
            world.put((what, broker_id, request.partition), None)
        kept = tuple(
            partition for partition in world.partitions(broker_id) if partition != request.partition
        )
        world.put(("partitions", broker_id), kept)
        world.put(("replica", broker_id, request.partition), None)
        # The file has its line until it is written anew, and a topic that is made again inherits it
        # (LogManager.asyncDelete and ReplicaManager.checkpointHighWatermarks, 2.8.2 and 3.3.2).
        before = world.checkpoint(broker_id, request.partition).possible
        after = Checkpoint(possible=before if before[-1] == 0 else (*before, 0))
        world.put(("checkpoint", broker_id, request.partition), after)
    return ""
