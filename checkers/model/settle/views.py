"""Views of a state from outside: the files of every replica."""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import tier
from kchaos.checkers.model.state.state import Broker, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.prediction import OTHER_TOPIC, PredictedReplica
from kchaos.checkers.model.values.replica import Replica, Role

_DROPPED = (2**31 - 1, 2**63 - 1)
"""An entry of leader-epoch-checkpoint that no replica has."""


def replicas_of(state: State, *brokers: int) -> tuple[PredictedReplica, ...]:
    """Return every replica of these brokers, or of all, as its files are now."""
    world = World(state)
    replicas = []
    for broker_id in brokers or world.broker_ids():
        broker = world.broker(broker_id)
        for partition in world.partitions(broker_id):
            replica = world.replica(broker_id, partition)
            if broker is not None and replica is not None:
                replicas.append(_predicted(world, broker_id, broker, partition, replica))
    return tuple(replicas)


def _predicted(
    world: World, broker_id: int, broker: Broker, partition: TopicPartition, replica: Replica
) -> PredictedReplica:
    log, checkpoint = replica.log, world.checkpoint(broker_id, partition)
    current = replica.high_watermark if broker.is_running else checkpoint.known
    older = set(checkpoint.possible) - {current}
    entries = tuple((entry.epoch, entry.start_offset) for entry in replica.entries)
    # A killed broker may have written where its log began before.
    began = 0 if broker.is_running else world.get(("began", broker_id, partition)) or 0
    return PredictedReplica(
        broker=broker_id,
        topic=partition.topic,
        partition=partition.partition,
        batches=log.local_batches(),
        epoch_entries=entries,
        log_end_offset=log.log_end_offset if broker.is_running else log.end_offset_on_disk(),
        high_watermarks=(current, *sorted(older)),
        log_start_offset=max(log.log_start_offset, log.local_start_offset, began),
        leader_epoch=replica.leader_epoch,
        fetcher=_fetcher(world, broker_id, broker, partition, replica),
        is_running=broker.is_running or broker.hangs,
        is_hosted=replica.is_hosted or broker.hangs,
        is_high_watermark_pinned=broker.is_running and checkpoint.is_observed and not older,
        may_keep_dropped_epochs=broker.generation.file_may_hold(
            (*entries, _DROPPED), replica.entries
        ),
    )


def _fetcher(
    world: World, broker_id: int, broker: Broker, partition: TopicPartition, replica: Replica
) -> str:
    if broker.has_exited:
        return "exited"
    if _refuses(world, broker, partition, replica):
        return OTHER_TOPIC
    if partition in broker.failed:
        return "failed"
    if replica.role is not Role.FOLLOWER or replica.leader is None:
        return "none"
    thread = world.thread(broker_id, world.source(broker_id, replica.leader, partition))
    fetch = thread.fetch(partition) if thread is not None else None
    if thread is None or fetch is None:
        return "none"
    if thread.is_dead:
        return "dead-thread"
    if tier.cannot_rebuild(world, broker_id, replica.leader, partition, fetch.fetch_offset):
        return "cannot-rebuild"
    return str(fetch.state)


def _refuses(world: World, broker: Broker, partition: TopicPartition, replica: Replica) -> bool:
    """Return whether a broker does not know the leader epoch that it refuses for the topic's id."""
    state = world.partition_state(partition)
    topic_id: str = world.get(("topic id", partition.topic)) or ""
    is_behind = state is not None and state.leader_epoch > replica.leader_epoch
    return is_behind and broker.generation.refuses_topic_id(replica, topic_id)
