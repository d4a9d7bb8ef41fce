"""Control requests at a broker: it refuses them, waits, or leads, follows and stops.

Read from ReplicaManager.becomeLeaderOrFollower, maybeUpdateMetadataCache and stopReplicas, 0.10.2.2
to 3.9. With KRaft a delta of the metadata log stands in the place of a request
(ReplicaManager.applyDelta, 3.3.2 and 4.1.2).
"""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import follower, leader, offset_reset, process
from kchaos.checkers.model.state.state import Broker, Checkpoint
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import (
    LeaderAndIsr,
    Received,
    Stage,
    StopReplica,
    UpdateMetadata,
)
from kchaos.checkers.model.values.shared import Shared

OFFLINE_STOPPED = "OFFLINE_STOPPED"
"""Stands for what is answered to a StopReplica of a replica whose log directory has failed."""
Errors = tuple[tuple[TopicPartition | None, str], ...]
"""Answer of a broker: (partition, or None for the whole request; Kafka's error or "")."""
_UNKNOWN_EPOCH = "UNKNOWN_LEADER_EPOCH"
_OTHER_TOPIC = "INCONSISTENT_TOPIC_ID"


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
        live = request.live
        if broker.generation.counts_unregistered:
            live |= frozenset(world.broker_ids()) - request.registered
        after = replace(
            broker,
            controller_epoch=controller_epoch,
            live=live,
            epochs=request.epochs if broker.generation.checks_replica_epoch else frozenset(),
            told=told,
            topic_ids=_topic_ids_after(broker, request),
        )
        if after != broker:
            world.put_broker(broker_id, after)
        return ((None, ""),)
    if controller_epoch != broker.controller_epoch:
        world.put_broker(broker_id, replace(broker, controller_epoch=controller_epoch))
    if isinstance(request, StopReplica):
        return ((None, ""), (request.partition, _stop_replica(world, broker_id, request)))
    fails = _fails_on_waiting_fetch(world, broker, received, request)
    errors = tuple(
        (
            TopicPartition(state.topic, state.partition),
            _become(world, broker_id, state, request, fetches=not fails),
        )
        for state in request.states
    )
    if fails:
        every = (None, *(partition for partition, _ in errors))
        return tuple((partition, _UNKNOWN_EPOCH) for partition in every)
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


def _topic_ids_after(broker: Broker, request: UpdateMetadata) -> frozenset[tuple[str, str]] | None:
    """Return the topic ids in a metadata cache after an UpdateMetadata.

    What it tells of a topic takes the place of what was there, also no id (kafka.server.metadata.
    ZkMetadataCache.updateMetadata, 3.1.2 and 3.8.0).
    """
    if broker.topic_ids is None:
        return None
    named = {partition.topic for partition in request.told}
    gone = {partition.topic for partition in request.deleted}
    kept = {(topic, topic_id) for topic, topic_id in broker.topic_ids if topic not in named | gone}
    told = {(topic, topic_id) for topic, topic_id in request.topic_ids if topic not in gone}
    return frozenset(kept | told)


def _refusal(broker: Broker, received: Received) -> str:
    """Return the error with which a broker refuses a whole request at once, or ""."""
    error = broker.generation.error_of_broker_epoch(received.broker_epoch, broker.epoch)
    if error:
        return error
    is_stale = received.controller_epoch < broker.controller_epoch
    return "STALE_CONTROLLER_EPOCH" if is_stale else ""


def _fails_on_waiting_fetch(
    world: World, broker: Broker, received: Received, request: LeaderAndIsr
) -> bool:
    """Return whether a LeaderAndIsr fails since a follower's Fetch waits that is of a later epoch.

    Of a partition that it has begun to follow a broker looks at the Fetches that wait, and does not
    catch UNKNOWN_LEADER_EPOCH (ReplicaManager.makeFollowers and DelayedFetch.tryComplete, 2.1.1 and
    2.3.1). A topic that was deleted and made again begins with leader epoch 0. The request fails
    as a whole where it stands: its partitions have their roles, and none is fetched.
    """
    if not broker.generation.fails_on_waiting_fetch:
        return False
    broker_id = broker.configuration.broker
    states = list(request.states)
    for part in world.received(broker_id):
        if part is not received and part.number == received.number:
            if (None, _UNKNOWN_EPOCH) in (part.errors or ()):
                return True
            if isinstance(part.request, LeaderAndIsr):
                states += part.request.states
    return any(_is_fetched_in_later_epoch(world, broker, state) for state in states)


def _is_fetched_in_later_epoch(world: World, broker: Broker, state: PartitionState) -> bool:
    """Return whether a broker begins to follow here, while a Fetch of a later epoch waits."""
    broker_id = broker.configuration.broker
    partition = TopicPartition(state.topic, state.partition)
    replica = world.replica(broker_id, partition) or Replica()
    is_leader_alive = state.leader != broker_id and state.leader in broker.live
    if not is_leader_alive or state.leader_epoch <= replica.leader_epoch:
        return False
    followed = replace(replica, leader_epoch=state.leader_epoch)
    return any(
        leader.refusal(broker, followed, asked) == _UNKNOWN_EPOCH
        for other in world.broker_ids()
        for source in world.sources(other, broker_id)
        for exchange in world.exchanges(other, source)
        if exchange.stage is Stage.WAITING and partition not in exchange.refused
        for asked_of, asked in exchange.asked
        if asked_of == partition
    )


def _become(
    world: World,
    broker_id: int,
    state: PartitionState,
    request: LeaderAndIsr,
    *,
    fetches: bool = True,
) -> str:
    """Handle one partition of a LeaderAndIsr (ReplicaManager.becomeLeaderOrFollower).

    Whether the leader lives is asked of the broker's own metadata cache, which only UpdateMetadata
    changes: a follower of a leader that is not in it does nothing and keeps its epoch
    (ReplicaManager.makeFollowers, 0.10.2.2 to 3.9). A broker that is none of the replicas named
    refuses a newer leader epoch, and goes on in its own.
    """
    partition = TopicPartition(state.topic, state.partition)
    replica = world.replica(broker_id, partition) or Replica()
    broker = world.broker(broker_id)
    assert broker is not None
    refused = _refused_at_once(world, broker, partition, replica, request)
    if refused:
        return refused
    if not replica.is_hosted and process.makes_no_log(
        world, broker_id, partition, is_new=request.is_new
    ):
        world.put_replica(broker_id, partition, replica.offline())
        return "UNKNOWN_TOPIC_OR_PARTITION" if request.is_left_out else leader.STORAGE_ERROR
    replica = _hosted(world, broker, replica, state, request)
    if broker.generation.reads_metadata_log:
        _take_up(world, broker_id, partition, state, request)
        return ""
    if state.leader_epoch == replica.leader_epoch:
        follower.learn_topic_id(world, broker_id, partition, request.topic_id)
        return "KNOWN_LEADER_EPOCH"
    if state.leader_epoch < replica.leader_epoch:
        return "STALE_CONTROLLER_EPOCH"
    if request.is_left_out:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if broker.generation.proposed.persists_high_watermark:
        known = replica.high_watermark
        world.put(
            ("checkpoint", broker_id, partition), Checkpoint(known=known, possible=Shared((known,)))
        )
    if state.leader == broker_id:
        follower.leave_fetchers(world, broker_id, partition)
        if leader.fails_to_note_epoch(world, broker_id, partition, state):
            return leader.STORAGE_ERROR
        leader.become_leader(world, broker_id, partition, state)
        if leader.fails_to_move(broker, world.known_replica(broker_id, partition)):
            return leader.OUT_OF_RANGE
    elif state.leader in broker.live:
        follower.become_follower(
            world, broker_id, partition, state, fetches=fetches, topic_id=request.topic_id
        )
    return ""


def _refused_at_once(
    world: World, broker: Broker, partition: TopicPartition, replica: Replica, request: LeaderAndIsr
) -> str:
    """Return the error of a replica that is offline, or of another topic of that name, or ""."""
    if replica.role is Role.OFFLINE:
        return leader.STORAGE_ERROR
    if not broker.generation.refuses_topic_id(replica, request.topic_id):
        return ""
    if not replica.is_hosted and broker.generation.loses_refused_replica:
        world.put_replica(broker.configuration.broker, partition, replica.offline())
    return _OTHER_TOPIC


def _hosted(
    world: World, broker: Broker, replica: Replica, state: PartitionState, request: LeaderAndIsr
) -> Replica:
    """Note that a LeaderAndIsr names a replica, and which topic's it is by that; return it so."""
    topic_id = replica.topic_id
    if state.leader_epoch >= replica.leader_epoch and not request.is_left_out:
        topic_id = broker.generation.takes_topic_id(replica, request.topic_id)
    hosted = replace(replica, is_hosted=True, topic_id=topic_id)
    if hosted != replica:
        partition = TopicPartition(state.topic, state.partition)
        world.put_replica(broker.configuration.broker, partition, hosted)
    return hosted


def _take_up(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    state: PartitionState,
    request: LeaderAndIsr,
) -> None:
    """Take up a partition's state of the metadata log (Partition.makeLeader and makeFollower).

    A state with an older partition epoch is passed over. The ISR is taken over in any case; role,
    epoch cache and followers change with the leader epoch alone. A replica without a leader steps
    down, and a follower fetches only from a leader that is registered, fenced or not
    (ReplicaManager.applyLocalFollowersDelta, 3.3.2 and 4.1.2). Beside the log of another topic no
    log can be made (InconsistentTopicIdException), and then the other log goes.
    """
    if world.get(("stray", broker_id, partition)):
        _remove(world, broker_id, partition)
        return
    replica = world.known_replica(broker_id, partition)
    if state.version < replica.partition_epoch:
        return
    is_new_epoch = state.leader_epoch > replica.leader_epoch
    if state.leader == broker_id:
        follower.leave_fetchers(world, broker_id, partition)
        if is_new_epoch:
            leader.become_leader(world, broker_id, partition, state, request.replicas)
        else:
            leader.take_isr(world, broker_id, partition, state.isr, request.replicas)
    elif is_new_epoch:
        fetches = state.leader in request.registered
        follower.become_follower(
            world, broker_id, partition, state, fetches=fetches, topic_id=request.topic_id
        )
    after = replace(world.known_replica(broker_id, partition), partition_epoch=state.version)
    world.put_replica(broker_id, partition, after)


def _remove(world: World, broker_id: int, partition: TopicPartition) -> None:
    kept = tuple(each for each in world.partitions(broker_id) if each != partition)
    world.put(("partitions", broker_id), kept)
    world.put(("replica", broker_id, partition), None)
    world.put(("stray", broker_id, partition), None)


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
        _remove(world, broker_id, request.partition)
        # The file has its line until it is written anew, and a topic that is made again inherits it
        # (LogManager.asyncDelete and ReplicaManager.checkpointHighWatermarks, 2.8.2 and 3.3.2).
        before = world.checkpoint(broker_id, request.partition).possible
        after = Checkpoint(possible=before if before[-1] == 0 else before.with_items((0,)))
        world.put(("checkpoint", broker_id, request.partition), after)
        if request.is_stray and not broker.generation.replaces_strays:
            world.put(("stray", broker_id, request.partition), True)
    return ""
