"""What a leader does: append, answer followers, move the high watermark, complete produces.

Read from kafka.cluster.Partition, kafka.cluster.Replica and kafka.server.ReplicaManager, 1.1.1,
2.1.1, 2.8.2 and 3.6.2; what changed between releases is asked of the broker's `Generation`.
"""

from checkers.model.epoch_cache import UNDEFINED_OFFSET
from checkers.model.events import PartitionState, Produce, TopicPartition
from checkers.model.log import OffsetOutOfRange, batches_of
from checkers.model.prediction import PredictedBatch, PredictedProduce
from checkers.model.state import (
    Asked,
    Broker,
    Cluster,
    EpochAnswer,
    FetchAnswer,
    FollowerView,
    PendingProduce,
    Promise,
    Replica,
    Role,
)

NOT_LEADER = "NOT_LEADER_FOR_PARTITION"


def become_leader(
    cluster: Cluster, broker: Broker, partition: TopicPartition, state: PartitionState
) -> None:
    """Lead the partition in a new epoch (Partition.makeLeader)."""
    replica = broker.replicas[partition]
    log_end_offset = replica.log.log_end_offset
    is_new_leader = replica.role is not Role.LEADER
    replica.leader_epoch = state.leader_epoch
    replica.isr = state.isr
    replica.epoch_start_offset = log_end_offset
    if broker.generation.assigns_epoch_on_election:
        assign_epoch(broker, replica, state.leader_epoch, log_end_offset)
    if is_new_leader:
        replica.role = Role.LEADER
        replica.leader = broker.broker
        replica.views = {}
        if replica.high_watermark > log_end_offset:
            replica.set_high_watermark(replica.log.log_start_offset)
    for follower in cluster.assignments[partition]:
        if follower != broker.broker:
            view = replica.views.setdefault(follower, FollowerView())
            view.is_caught_up = follower in state.isr
            # A fetch in flight may still be handled in this epoch, even that of a broker that has
            # just died: seen on 2.0.0, where it put the dead broker back into the ISR.
            view.may_join_isr = view.log_end_offset >= _needed_for_isr(broker, replica)
            view.asks_to_join = False
            view.last_leader_end_offset = log_end_offset
    increment_high_watermark(cluster, broker, partition)


def assign_epoch(broker: Broker, replica: Replica, leader_epoch: int, offset: int) -> None:
    """Note in the cache where an epoch begins, if this broker keeps epochs."""
    if broker.generation.keeps_epochs:
        replica.entries = broker.generation.assign_epoch(replica.entries, leader_epoch, offset)


def assign_epochs_of(broker: Broker, replica: Replica, batches: tuple[PredictedBatch, ...]) -> None:
    """Note the epochs of batches that are appended (kafka.log.Log.append)."""
    for batch in batches:
        if batch.magic >= 2:
            assign_epoch(broker, replica, batch.leader_epoch, batch.base_offset)
        elif broker.generation.clears_cache_on_old_format:
            replica.entries = ()


def produce(cluster: Cluster, broker: Broker, request: Produce) -> None:
    """Handle a ProduceRequest and record its outcome."""
    partition = TopicPartition(request.topic, request.partition)
    replica = broker.replicas.get(partition)
    error = ""
    if replica is None or replica.role is not Role.LEADER:
        error = NOT_LEADER
    elif request.acks == -1 and len(replica.isr) < broker.configuration.min_insync_replicas:
        error = "NOT_ENOUGH_REPLICAS"
    if error or replica is None:
        _outcome(cluster, request.operation, acknowledged=False, base_offset=-1, error=error)
        return
    batches = batches_of(
        request.records,
        base_offset=replica.log.log_end_offset,
        leader_epoch=replica.leader_epoch,
        magic=broker.generation.versions.magic,
        codec=request.codec,
    )
    base_offset = replica.log.log_end_offset
    assign_epochs_of(broker, replica, batches)
    replica.log.append(batches)
    waits = request.acks == -1
    _outcome(
        cluster,
        request.operation,
        acknowledged=None if waits else True,
        base_offset=base_offset,
    )
    if waits:
        replica.pending.append(
            PendingProduce(
                operation=request.operation,
                base_offset=base_offset,
                required_offset=replica.log.log_end_offset,
            )
        )
    increment_high_watermark(cluster, broker, partition)
    complete_produces(cluster, broker, partition)


def answer_epoch(broker: Broker, partition: TopicPartition, asked: Asked) -> EpochAnswer:
    """Answer an OffsetForLeaderEpoch (Partition.lastOffsetForLeaderEpoch)."""
    replica = broker.replicas.get(partition)
    error = _refusal(broker, replica, asked)
    if error or replica is None:
        return EpochAnswer(error=error)
    end = broker.generation.answer_epoch(
        replica.entries, asked.requested_epoch, replica.log.log_end_offset
    )
    return EpochAnswer(end=end)


def answer_fetch(
    cluster: Cluster, broker: Broker, partition: TopicPartition, follower: int, asked: Asked
) -> tuple[FetchAnswer, bool]:
    """Answer a follower's Fetch; also tell whether the leader's own state changed.

    An answer with records carries the high watermark of before the read. One without records was
    a delayed fetch, which reads again when its wait ends, and so carries the newest.
    """
    replica = broker.replicas.get(partition)
    error = _refusal(broker, replica, asked)
    if error or replica is None:
        return FetchAnswer(error=error), False
    log = replica.log
    if asked.requested_epoch >= 0 and (answer := _diverging(broker, replica, asked)) is not None:
        return answer, False
    high_watermark = replica.high_watermark
    try:
        batches = log.read(asked.fetch_offset)
    except OffsetOutOfRange:
        return FetchAnswer(error="OFFSET_OUT_OF_RANGE"), False
    changed = _update_view(cluster, broker, partition, follower, asked.fetch_offset)
    return (
        FetchAnswer(
            batches=batches,
            high_watermark=high_watermark if batches else replica.high_watermark,
            log_start_offset=log.log_start_offset,
        ),
        changed,
    )


def increment_high_watermark(cluster: Cluster, broker: Broker, partition: TopicPartition) -> bool:
    """Move the high watermark up to the smallest end offset of the ISR and of who has caught up.

    Read from Partition.maybeIncrementLeaderHW, 1.1.1 and 2.8.2. Returns whether it moved.
    """
    replica = broker.replicas[partition]
    offsets = [replica.log.log_end_offset]
    for follower in cluster.assignments[partition]:
        view = replica.views.get(follower)
        if view is not None and (follower in replica.isr or view.is_caught_up):
            offsets.append(view.log_end_offset)
    if min(offsets) <= replica.high_watermark:
        return False
    replica.set_high_watermark(min(offsets))
    complete_produces(cluster, broker, partition)
    return True


def _note_isr_candidate(broker: Broker, replica: Replica, view: FollowerView) -> None:
    """Remember whether a follower was ever far enough to join the ISR (Partition.maybeExpandIsr).

    Up to 2.0.0 its log end offset had to reach the high watermark; since KAFKA-7128 the start of
    the leader's epoch too.
    """
    if view.log_end_offset >= _needed_for_isr(broker, replica):
        view.may_join_isr = view.asks_to_join = True


def _needed_for_isr(broker: Broker, replica: Replica) -> int:
    """The log end offset that a follower must have reached to join the ISR."""
    if broker.generation.isr_needs_epoch_start:
        return max(replica.high_watermark, replica.epoch_start_offset)
    return replica.high_watermark


def complete_produces(cluster: Cluster, broker: Broker, partition: TopicPartition) -> None:
    """Complete produces with acks=all that the high watermark has reached."""
    replica = broker.replicas[partition]
    enough = len(replica.isr) >= broker.configuration.min_insync_replicas
    for pending in list(replica.pending):
        if replica.high_watermark >= pending.required_offset:
            replica.pending.remove(pending)
            if enough:
                cluster.promises += [
                    Promise(partition, batch.base_offset, batch.payload)
                    for batch in replica.log.batches
                    if pending.base_offset <= batch.base_offset < pending.required_offset
                ]
            _outcome(
                cluster,
                pending.operation,
                acknowledged=enough,
                base_offset=pending.base_offset,
                error="" if enough else "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            )


def fail_produces(cluster: Cluster, replica: Replica) -> None:
    """Answer waiting produces when the broker stops leading."""
    for pending in replica.pending:
        _outcome(
            cluster,
            pending.operation,
            acknowledged=False,
            base_offset=pending.base_offset,
            error=NOT_LEADER,
        )
    replica.pending = []


def _refusal(broker: Broker, replica: Replica | None, asked: Asked) -> str:
    if replica is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if broker.generation.checks_leader_epoch and asked.carries_leader_epoch:
        if asked.leader_epoch < replica.leader_epoch:
            return "FENCED_LEADER_EPOCH"
        if asked.leader_epoch > replica.leader_epoch:
            return "UNKNOWN_LEADER_EPOCH"
    return "" if replica.role is Role.LEADER else NOT_LEADER


def _diverging(broker: Broker, replica: Replica, asked: Asked) -> FetchAnswer | None:
    end = broker.generation.answer_epoch(
        replica.entries, asked.requested_epoch, replica.log.log_end_offset
    )
    if end.end_offset == UNDEFINED_OFFSET or asked.fetch_offset < replica.log.log_start_offset:
        return FetchAnswer(error="OFFSET_OUT_OF_RANGE")
    if end.epoch < asked.requested_epoch or end.end_offset < asked.fetch_offset:
        return FetchAnswer(diverging=end, high_watermark=replica.high_watermark)
    return None


def _update_view(
    cluster: Cluster, broker: Broker, partition: TopicPartition, follower: int, offset: int
) -> bool:
    replica = broker.replicas[partition]
    view = replica.views.get(follower)
    if view is None:
        return False
    before = (view.log_end_offset, view.is_caught_up)
    end_offset = replica.log.log_end_offset
    if offset >= end_offset or offset >= view.last_leader_end_offset:
        view.is_caught_up = True
    view.log_end_offset = offset
    view.last_leader_end_offset = end_offset
    moved = increment_high_watermark(cluster, broker, partition)
    _note_isr_candidate(broker, replica, view)
    return moved or before != (view.log_end_offset, view.is_caught_up)


def _outcome(
    cluster: Cluster,
    operation: str,
    *,
    acknowledged: bool | None,
    base_offset: int,
    error: str = "",
) -> None:
    cluster.produces[operation] = PredictedProduce(
        operation=operation, acknowledged=acknowledged, base_offset=base_offset, error=error
    )
