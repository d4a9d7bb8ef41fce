"""Replay a timeline of events and predict what every replica holds."""

from collections.abc import Mapping, Sequence

from checkers.acts import cuts_left
from checkers.errors import ModelError
from checkers.model import controller, decisions, leader, process, replication
from checkers.model.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    CutLink,
    Event,
    HealLink,
    HighWatermarkObserved,
    Hold,
    LoseTail,
    PartitionState,
    PauseBroker,
    Produce,
    ReleaseHold,
    ResumeBroker,
    Snapshot,
    StartBroker,
    StopBroker,
    TopicCreated,
    TopicPartition,
    event_to_json,
)
from checkers.model.generation import Generation
from checkers.model.generations import generation_for
from checkers.model.prediction import (
    DisallowedDecision,
    ImpossibleHighWatermark,
    PredictedProduce,
    PredictedReplica,
    Prediction,
)
from checkers.model.state import Broker, Cluster, Replica, Role


def predict(
    timeline: Sequence[Event], *, generations: Mapping[int, Generation] | None = None
) -> Prediction:
    """Return what every replica must hold after these events, in the order in which they happened.

    After each event the followers fetch until nothing changes any more, except where a cut, a hold,
    a paused or a stopped broker stands in the way. A timeline begins before the partition exists:
    brokers start and register, a controller is elected, the topic is created.

    Args:
        timeline: Actions and decisions, in the order in which they took effect.
        generations: In place of what `StartBroker` says, for brokers that are not as released.

    Raises:
        ModelError: An event that the state before it makes impossible; the message names its index.
    """
    cluster = Cluster()
    snapshots: dict[str, tuple[PredictedReplica, ...]] = {}
    for index, event in enumerate(timeline):
        try:
            if isinstance(event, Snapshot):
                snapshots[event.label] = snapshot(cluster)
            elif isinstance(event, HighWatermarkObserved):
                _observe(cluster, index, event)
            else:
                if isinstance(event, PartitionState):
                    _judge(cluster, index, event)
                apply(cluster, event, generations or {})
                replication.settle(cluster)
        except ModelError as error:
            raise ModelError(f"event {index}, {type(event).__name__}: {error}") from error
    return Prediction(
        snapshots=snapshots,
        produces=tuple(cluster.produces.values()),
        rounds=tuple(cluster.rounds),
        truncations=tuple(cluster.truncations),
        disallowed=tuple(cluster.disallowed),
        impossible=tuple(cluster.impossible),
        generations={broker.broker: broker.generation.name for broker in cluster.brokers.values()},
    )


def apply(cluster: Cluster, event: Event, generations: Mapping[int, Generation]) -> None:
    """Let one event take effect, without what the followers do then."""
    match event:
        case StartBroker():
            _start(cluster, event, generations.get(event.broker))
        case StopBroker():
            _stop(cluster, event)
        case PauseBroker():
            _running(cluster, event.broker).is_paused = True
        case ResumeBroker():
            _resume(cluster, event)
        case LoseTail():
            _lose_tail(cluster, event)
        case CutLink():
            cluster.cuts[event.name] = event
        case HealLink():
            cluster.cuts = cuts_left(cluster.cuts, event)
        case Hold():
            cluster.holds[event.name] = event
        case ReleaseHold():
            replication.release(cluster, event.name)
        case Produce():
            _produce(cluster, event)
        case TopicCreated():
            controller.topic_created(cluster, event)
        case PartitionState():
            controller.partition_state(cluster, event)
        case BrokerRegistered():
            controller.broker_registered(cluster, event)
        case BrokerUnregistered():
            controller.broker_unregistered(cluster, event)
        case ControllerElected():
            controller.controller_elected(cluster, event)


def snapshot(cluster: Cluster) -> tuple[PredictedReplica, ...]:
    """Return every replica as its files are now, by broker and partition."""
    return tuple(
        _predicted(broker, partition, replica)
        for _, broker in sorted(cluster.brokers.items())
        for partition, replica in sorted(broker.replicas.items())
    )


def _judge(cluster: Cluster, index: int, event: PartitionState) -> None:
    reason = decisions.reason_against(cluster, event)
    if reason:
        cluster.disallowed.append(
            DisallowedDecision(index=index, decision=event_to_json(event), reason=reason)
        )


def _observe(cluster: Cluster, index: int, event: HighWatermarkObserved) -> None:
    broker = cluster.brokers.get(event.broker)
    partition = TopicPartition(event.topic, event.partition)
    replica = broker.replicas.get(partition) if broker is not None else None
    if replica is not None and replica.observe_checkpointed(event.high_watermark):
        return
    cluster.impossible.append(
        ImpossibleHighWatermark(
            index=index,
            broker=event.broker,
            topic=event.topic,
            partition=event.partition,
            high_watermark=event.high_watermark,
            allowed=() if replica is None else tuple(sorted(set(replica.high_watermarks))),
        )
    )


def _start(cluster: Cluster, event: StartBroker, generation: Generation | None) -> None:
    generation = generation or generation_for(
        event.release,
        inter_broker_protocol=event.inter_broker_protocol,
        message_format=event.message_format,
    )
    broker = cluster.brokers.get(event.broker)
    if broker is None:
        cluster.brokers[event.broker] = Broker(
            broker=event.broker, generation=generation, configuration=event
        )
        return
    if broker.is_running:
        raise ModelError(f"broker {event.broker} runs already; stop it first")
    broker.generation = generation
    broker.configuration = event
    process.load(broker)


def _stop(cluster: Cluster, event: StopBroker) -> None:
    broker = cluster.brokers.get(event.broker)
    if broker is None or not (broker.is_running or broker.has_exited):
        raise ModelError(f"broker {event.broker} does not run; start it first")
    checkpointed = None
    if event.checkpointed is not None:
        checkpointed = {TopicPartition(*each[:2]): each[2] for each in event.checkpointed}
    process.stop(cluster, broker, is_clean=event.clean, checkpointed=checkpointed)
    broker.has_exited = False


def _resume(cluster: Cluster, event: ResumeBroker) -> None:
    broker = _running(cluster, event.broker)
    broker.is_paused = False
    controller.observe(cluster)
    waiting, broker.delayed_produces = broker.delayed_produces, []
    for request in waiting:
        leader.produce(cluster, broker, request)


def _lose_tail(cluster: Cluster, event: LoseTail) -> None:
    broker = cluster.brokers.get(event.broker)
    if broker is None or broker.is_running:
        raise ModelError(f"broker {event.broker} must be stopped to lose its tail")
    replica = broker.replicas.get(TopicPartition(event.topic, event.partition))
    if replica is None:
        raise ModelError(f"broker {event.broker} has no replica of {event.topic}")
    if any(
        batch.base_offset < event.log_end_offset <= batch.last_offset
        for batch in replica.log.batches
    ):
        raise ModelError(f"offset {event.log_end_offset} is inside a batch, not at an edge")
    replica.log.lose_tail(event.log_end_offset)


def _produce(cluster: Cluster, event: Produce) -> None:
    broker = cluster.brokers.get(event.broker)
    if event.operation in cluster.produces:
        raise ModelError(f"operation {event.operation!r} was used before")
    cluster.produces[event.operation] = PredictedProduce(
        operation=event.operation, acknowledged=None, base_offset=-1
    )
    if broker is None or not broker.is_running:
        cluster.produces[event.operation] = PredictedProduce(
            operation=event.operation,
            acknowledged=False,
            base_offset=-1,
            error="BROKER_NOT_AVAILABLE",
        )
    elif broker.is_paused:
        broker.delayed_produces.append(event)
    else:
        leader.produce(cluster, broker, event)


def _running(cluster: Cluster, broker_id: int) -> Broker:
    broker = cluster.brokers.get(broker_id)
    if broker is None or not broker.is_running:
        raise ModelError(f"broker {broker_id} does not run; start it first")
    return broker


def _predicted(broker: Broker, partition: TopicPartition, replica: Replica) -> PredictedReplica:
    log = replica.log
    current = replica.high_watermark if broker.is_running else replica.checkpointed
    older = set(replica.high_watermarks) - {current}
    is_pinned = broker.is_running and replica.is_checkpoint_observed and not older
    return PredictedReplica(
        broker=broker.broker,
        topic=partition.topic,
        partition=partition.partition,
        batches=tuple(log.batches),
        epoch_entries=tuple((entry.epoch, entry.start_offset) for entry in replica.entries),
        log_end_offset=log.log_end_offset if broker.is_running else log.end_offset_on_disk(),
        high_watermarks=(current, *sorted(older)),
        log_start_offset=log.log_start_offset,
        leader_epoch=replica.leader_epoch,
        fetcher=_fetcher(broker, partition, replica),
        is_running=broker.is_running,
        is_high_watermark_pinned=is_pinned,
    )


def _fetcher(broker: Broker, partition: TopicPartition, replica: Replica) -> str:
    if partition in broker.failed:
        return "failed"
    if replica.role is not Role.FOLLOWER or replica.leader is None:
        return "none"
    thread = broker.threads.get(replica.leader)
    if thread is None or partition not in thread.partitions:
        return "none"
    return "dead-thread" if thread.is_dead else str(thread.partitions[partition].state)
