"""Leader: it appends, answers followers, moves the high watermark, and completes produces.

Read from kafka.cluster.Partition, kafka.cluster.Replica and kafka.server.ReplicaManager, 1.1.1,
2.1.1, 2.8.2 and 3.6.2; what changed between releases is asked of the broker's `Generation`.
"""

from collections.abc import Callable, Iterable, Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import cleaning, topic_settings
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import Broker
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_EPOCH, EpochEnd
from kchaos.checkers.model.values.events import PartitionState, Produce
from kchaos.checkers.model.values.log import OffsetOutOfRange, batches_of
from kchaos.checkers.model.values.prediction import PredictedBatch, PredictedProduce, Promise
from kchaos.checkers.model.values.producers import SentBatch, producer_state, sent_before
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import (
    FollowerView,
    GrantedIsr,
    PendingProduce,
    Replica,
    Role,
    WantedIsr,
)
from kchaos.checkers.model.values.requests import (
    LATEST,
    MOVED_TO_TIER,
    EpochAnswer,
    FetchAnswer,
    OffsetAnswer,
    PartitionRequest,
)

NOT_LEADER = "NOT_LEADER_FOR_PARTITION"
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
NOT_HOSTED = "NOT_HOSTED"
"""Stands for what is answered about a replica that no LeaderAndIsr has named yet."""
_UNVERIFIED = (
    "INVALID_TXN_STATE",
    "NOT_ENOUGH_REPLICAS",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "PRODUCER_FENCED",
    # An earlier batch is being asked about (ProducerAppendInfo.checkSequence, 3.8.0).
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    # The transaction before has not ended, or this one has to be aborted: version 2 of them, 4.0.0.
    "CONCURRENT_TRANSACTIONS",
    "TRANSACTION_ABORTABLE",
)
"""Answer to a client about a transaction that the coordinator does not vouch for."""
NO_FETCH_YET = 1 << 62
"""Stands for the leader's end at the fetch before the first: no offset reaches it."""

Ask = Callable[[World, int, TopicPartition, int], None]
"""Lets a leader ask for a follower in its ISR: (transition, leader, partition, follower)."""


def become_leader(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    state: PartitionState,
    replicas: tuple[int, ...] | None = None,
) -> None:
    """Lead the partition in a new epoch (Partition.makeLeader).

    Args:
        world: The transition.
        broker_id: The leader.
        partition: Which one.
        state: What was decided.
        replicas: Who holds the partition, as the leader is told; None for what was decided last.
    """
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    log_end_offset = replica.log.log_end_offset
    is_new_leader = replica.role is not Role.LEADER
    replica = replace(
        replica,
        entries=world.generation(broker, partition).entries_of_new_leader(
            replica.entries, state.leader_epoch, log_end_offset
        ),
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        maximal_isr=state.isr,
        epoch_start_offset=log_end_offset,
    )
    if is_new_leader:
        high_watermark = replica.high_watermark
        is_below = high_watermark < replica.log.log_start_offset
        if high_watermark > log_end_offset or (
            is_below and not broker.generation.keeps_high_watermark_in_log
        ):
            high_watermark = broker.generation.high_watermark_beyond_log(replica.log)
        replica = replace(
            replica, role=Role.LEADER, leader=broker_id, views=(), high_watermark=high_watermark
        )
    counts_election = broker.generation.counts_election_as_fetch
    known = dict(replica.views)
    views = {}
    # Who does not hold the partition any more is forgotten (Partition.updateAssignmentAndIsr).
    for follower in world.assignment(partition) if replicas is None else replicas:
        if follower != broker_id:
            view = known.get(follower, FollowerView())
            has_fetch = not is_new_leader and (counts_election or follower in state.isr)
            views[follower] = replace(
                view,
                is_caught_up=follower in state.isr,
                # A fetch in flight may still be handled in this epoch, even that of a broker that
                # has just died: seen on 2.0.0, where it put the dead broker back into the ISR.
                may_join_isr=view.log_end_offset >= broker.generation.needed_for_isr(replica),
                asks_to_join=False,
                # A new leader knows no fetch before its first (Replica.updateLogReadResult with
                # an unknown result); one that goes on compares with its end at the election.
                last_leader_end_offset=log_end_offset if has_fetch else NO_FETCH_YET,
            )
    replica = replace(replica, views=tuple(sorted(views.items())))
    if world.get(("isr wanted", broker_id, partition)) is not None:
        world.put(("isr unanswered", broker_id, partition), True)
    for component in ("isr change", "isr refused", "isr wanted"):
        world.put((component, broker_id, partition), None)
    world.put_replica(broker_id, partition, replica)
    increment_high_watermark(world, broker_id, partition)


def fails_to_note_epoch(
    world: World, broker_id: int, partition: TopicPartition, state: PartitionState
) -> bool:
    """Let a replica that moved note its leader epoch in the directory before; return if it must.

    That directory is gone, so the election fails. Leader epoch, ISR and the cache in memory have
    changed by then, and the role has not (Partition.makeLeader, 2.0.1 and 2.1.0).
    """
    replica = world.known_replica(broker_id, partition)
    broker = world.broker(broker_id)
    before = replica.epochs_before_move
    if broker is None or before is None:
        return False
    entries = world.generation(broker, partition).entries_of_new_leader(
        before.entries, state.leader_epoch, replica.log.log_end_offset
    )
    if entries == before.entries:
        return False
    after = replace(
        replica,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        maximal_isr=state.isr,
        epoch_start_offset=replica.log.log_end_offset,
        epochs_before_move=before._replace(entries=entries),
    )
    world.put_replica(broker_id, partition, after)
    return True


def assign_epochs_of(
    generation: Generation, replica: Replica, batches: tuple[PredictedBatch, ...]
) -> Replica:
    """Note the epochs of batches that are appended (kafka.log.Log.append)."""
    entries = replica.entries
    for batch in batches:
        if batch.magic >= 2:
            entries = generation.assign_epoch(entries, batch.leader_epoch, batch.base_offset)
        else:
            entries = generation.entries_after_old_batch(entries)
    return replica if entries == replica.entries else replace(replica, entries=entries)


def produce(world: World, request: Produce, *, settles: bool = True) -> None:
    """Handle a ProduceRequest on a broker that works.

    Args:
        world: The transition.
        request: What was sent to the broker.
        settles: Also move the high watermark, which a leader does after the append and not with
            it: a fetch may read the records and the old high watermark.
    """
    partition = TopicPartition(request.topic, request.partition)
    broker = world.broker(request.broker)
    replica = world.replica(request.broker, partition)
    assert broker is not None
    error, sent = _refusal(world, broker, partition, replica, request), None
    if replica is not None and not error:
        error, sent = _of_producer(broker, replica, request)
        if error or sent is not None:
            replica = _with_epoch_noted(world, broker, partition, replica)
            world.put_replica(request.broker, partition, replica)
    if error or replica is None:
        _refuse(world, request, error)
        return
    base_offset, required_offset = replica.log.log_end_offset, None
    if sent is None:
        replica = _with_appended(world, broker, partition, replica, request)
    else:
        base_offset, required_offset = sent.base_offset, sent.last_offset + 1
    if fails_to_move(broker, replica):
        # It is appended, and then the high watermark cannot be moved.
        world.put_replica(request.broker, partition, replica)
        _refuse(world, request, OUT_OF_RANGE, base_offset=base_offset)
        return
    waits = request.acks == -1
    if waits:
        waiting = PendingProduce(
            operation=request.operation,
            base_offset=base_offset,
            required_offset=required_offset or replica.log.log_end_offset,
        )
        replica = replace(replica, pending=(*replica.pending, waiting))
    world.put_replica(request.broker, partition, replica)
    acknowledged = None if waits else True
    world.answer(
        PredictedProduce(
            operation=request.operation, acknowledged=acknowledged, base_offset=base_offset
        )
    )
    if settles:
        settle_append(world, request.broker, partition)
    else:
        world.put(("appended", request.broker, partition), True)


def _refusal(
    world: World,
    broker: Broker,
    partition: TopicPartition,
    replica: Replica | None,
    request: Produce,
) -> str:
    """Return why a broker appends nothing, whoever sends it, or ""."""
    if replica is not None and replica.role is Role.OFFLINE:
        return STORAGE_ERROR
    if replica is None or replica.role is not Role.LEADER:
        return NOT_LEADER
    is_short = len(replica.isr) < _min_isr(world, broker, partition, replica)
    return "NOT_ENOUGH_REPLICAS" if request.acks == -1 and is_short else ""


def _refuse(world: World, request: Produce, error: str, *, base_offset: int = -1) -> None:
    refused = PredictedProduce(
        operation=request.operation, acknowledged=False, base_offset=base_offset, error=error
    )
    world.answer(refused)


def _of_producer(
    broker: Broker, replica: Replica, request: Produce
) -> tuple[str, SentBatch | None]:
    """Return why a leader refuses a batch for its producer's sake, and what it is a duplicate of.

    Duplicates are looked for first, and only among what clients send (kafka.log.Log.
    analyzeAndValidateProducerState, kafka.log.ProducerAppendInfo, 1.1.1, 2.8.2 and 3.8.0).
    """
    mark, generation = request.producer, broker.generation
    if mark is None or generation.versions.magic < 2:
        return "", None
    state = producer_state(replica.log.batches, mark.producer_id, replica.log.producers)
    sent = sent_before(state, mark, len(request.records), generation.remembered_batches)
    if sent is not None:
        return "", sent
    if mark.producer_epoch < state.producer_epoch:
        return "INVALID_PRODUCER_EPOCH", None
    if mark.coordinator_epoch is not None:
        is_fenced = state.coordinator_epoch > mark.coordinator_epoch
        return "TRANSACTION_COORDINATOR_FENCED" if is_fenced else "", None
    error = generation.refuse_sequence(state, mark)
    if not error and state.first_offset is not None and not mark.is_transactional:
        error = "INVALID_TXN_STATE"
    return error, None


def refuse_unverified(world: World, request: Produce, error: str) -> bool:
    """Refuse what begins a transaction, as its coordinator may have it; return whether it may.

    A leader asks the coordinator before it appends (KIP-890), and what comes of that shows nowhere
    else (kafka.server.ReplicaManager, 3.6.0 and 3.8.0).
    """
    broker = world.broker(request.broker)
    partition = TopicPartition(request.topic, request.partition)
    replica = world.replica(request.broker, partition)
    mark = request.producer
    if broker is None or replica is None or mark is None or error not in _UNVERIFIED:
        return False
    if mark.is_marker or not mark.is_transactional or not broker.generation.verifies_transactions:
        return False
    log = replica.log
    if producer_state(log.batches, mark.producer_id, log.producers).first_offset is not None:
        return False
    world.answer(
        PredictedProduce(
            operation=request.operation, acknowledged=False, base_offset=-1, error=error
        )
    )
    return True


def _with_epoch_noted(
    world: World, broker: Broker, partition: TopicPartition, replica: Replica
) -> Replica:
    """Return a leader's replica with its epoch in the cache, though nothing is appended.

    A batch is looked for among those of its producer after its epoch is noted, at the log's end
    (kafka.log.Log.append, 0.11.0.0, 1.1.1, 2.8.2; UnifiedLog.append, 3.8.0). From 2.0 on the epoch
    was noted at the election.
    """
    assign = world.generation(broker, partition).assign_epoch
    entries = assign(replica.entries, replica.leader_epoch, replica.log.log_end_offset)
    return replica if entries == replica.entries else replace(replica, entries=entries)


def _with_appended(
    world: World, broker: Broker, partition: TopicPartition, replica: Replica, request: Produce
) -> Replica:
    """Return a leader's replica with what a client sent at its end."""
    generation = world.generation(broker, partition)
    batches = batches_of(
        request.records,
        keys=request.keys,
        base_offset=replica.log.log_end_offset,
        leader_epoch=replica.leader_epoch,
        magic=generation.proposed.magic_of_append(replica.log, generation.versions.magic),
        codec=request.codec,
        is_digested=request.is_digested,
        producer=request.producer,
    )
    if request.keys:
        cleaning.note_keys(world, request, batches)
    replica = assign_epochs_of(generation, replica, batches)
    rolls = generation.proposed.rolls(replica.log, batches)
    return replace(replica, log=replica.log.append(batches, rolls))


def fails_to_move(broker: Broker, replica: Replica) -> bool:
    """Return whether a leader's attempt to move its high watermark ends with an error.

    It looks for the high watermark in its log, and the log begins later (Log.
    fetchHighWatermarkMetadata; KAFKA-9491 got 2.4.0 there).
    """
    is_below = replica.high_watermark < replica.log.log_start_offset
    return is_below and broker.generation.keeps_high_watermark_in_log


def settle_append(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Move the high watermark after an append, and complete what it reaches."""
    world.put(("appended", broker_id, partition), None)
    increment_high_watermark(world, broker_id, partition)
    complete_produces(world, broker_id, partition)


def answer_epoch(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    asked: PartitionRequest,
    *,
    tells_epoch: bool,
) -> EpochAnswer:
    """Answer an OffsetForLeaderEpoch (Partition.lastOffsetForLeaderEpoch)."""
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    assert broker is not None
    error = refusal(broker, replica, asked)
    if error or replica is None:
        return EpochAnswer(error=error)
    if asked.ends:
        end = broker.generation.proposed.answer_ends(
            replica.entries, asked.ends, replica.log.log_end_offset
        )
    else:
        end = end_of_epoch(broker, replica, asked.requested_epoch)
    return EpochAnswer(end=end if tells_epoch else EpochEnd(UNDEFINED_EPOCH, end.end_offset))


def answer_offset(
    world: World, broker_id: int, partition: TopicPartition, asked: PartitionRequest
) -> OffsetAnswer:
    """Answer a follower's ListOffsets: the end or the start of the log.

    A follower gets the log end, no high watermark, and needs no isolation level
    (KafkaApis.handleListOffsetRequest, ReplicaManager.fetchOffsetForTimestamp).
    """
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    assert broker is not None
    error = refusal(broker, replica, asked)
    if error or replica is None:
        return OffsetAnswer(error=error)
    log = replica.log
    wants_end = asked.timestamp == LATEST
    return OffsetAnswer(offset=log.log_end_offset if wants_end else log.log_start_offset)


def end_of_epoch(broker: Broker, replica: Replica, requested_epoch: int) -> EpochEnd:
    """Return where an epoch ends in a replica, as its own broker's cache has it."""
    return broker.generation.answer_epoch(
        replica.epochs.entries, requested_epoch, replica.epochs.log_end_offset
    )


def read(
    world: World, broker_id: int, partition: TopicPartition, asked: PartitionRequest
) -> FetchAnswer:
    """Read the log for a follower's Fetch; what it says of the follower is `update_view`'s."""
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    assert broker is not None
    error = refusal(broker, replica, asked)
    if error or replica is None:
        return FetchAnswer(error=error)
    if asked.requested_epoch >= 0:
        end = end_of_epoch(broker, replica, asked.requested_epoch)
        in_place_of_records = broker.generation.answer_diverging(end, asked, replica)
        if in_place_of_records is not None:
            return in_place_of_records
    if asked.fetch_offset < replica.log.local_start_offset:
        return _not_local(replica, asked.fetch_offset)
    try:
        batches = replica.log.read(asked.fetch_offset)
    except OffsetOutOfRange:
        return FetchAnswer(error=OUT_OF_RANGE)
    return FetchAnswer(
        batches=batches,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log.log_start_offset,
    )


def may_throttle(world: World, broker_id: int, partition: TopicPartition, follower: int) -> bool:
    """Return whether a leader may send a follower nothing because replication is throttled.

    Read from kafka.server.ReplicaManager.shouldLeaderThrottle, 1.1.1, 2.8.2 and 3.8.0: the follower
    is not in the ISR, the replica is in the list, and the quota is used up, which may be.
    """
    replica = world.replica(broker_id, partition)
    return (
        replica is not None
        and replica.role is Role.LEADER
        and follower not in replica.isr
        and topic_settings.is_throttled(world, broker_id, partition, "leader")
    )


def _not_local(replica: Replica, offset: int) -> FetchAnswer:
    """Answer a follower that asks for what is no more on the local disk of a tiered log.

    Read from kafka.server.ReplicaManager.handleOffsetOutOfRangeError, 3.6.2 and 3.9: it is sent to
    the remote tier if it asks below where the process believes its local log to begin.
    """
    believed = replica.believed_local_start
    start = replica.log.local_start_offset if believed is None else believed
    if replica.log.log_start_offset <= offset < start:
        return FetchAnswer(error=MOVED_TO_TIER)
    return FetchAnswer(error="OFFSET_OUT_OF_RANGE")


def update_view(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    follower: int,
    offset: int,
    asks: Ask | None = None,
    *,
    replica_epoch: int | None = None,
) -> bool:
    """Note a follower's fetch offset (ReplicaManager.updateFollowerLogReadResults).

    Who looked at its log as a leader and is none any more moves nothing, and what it notes is
    forgotten when it leads again (Partition.maybeExpandIsr and maybeIncrementLeaderHW ask for
    leaderReplicaIfLocal, 1.1.1; leaderLogIfLocal, 2.8.2).

    Args:
        world: The transition.
        broker_id: The leader.
        partition: Which one.
        follower: Who fetches.
        offset: From where.
        asks: What the leader does when the follower has come far enough for the ISR and the
            controller writes that; None where somebody else decides when it asks.
        replica_epoch: The broker epoch that the fetch names; None where it repeats the last one.

    Returns:
        Whether that changed anything.
    """
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    view = replica.view(follower) if replica is not None else None
    assert broker is not None
    if replica is None or view is None or replica.role is not Role.LEADER:
        return False
    end_offset = replica.log.log_end_offset
    reached = offset >= end_offset or offset >= view.last_leader_end_offset
    # Whether it may join is asked before the high watermark moves (maybeExpandIsr). A fetch that
    # comes while it is not alive asks for nothing (isReplicaIsrEligible, 3.3.0).
    is_far_enough = offset >= broker.generation.needed_for_isr(replica)
    epoch = view.replica_epoch if replica_epoch is None else replica_epoch
    asks_to_join = is_far_enough and _may_join(broker, follower, epoch)
    after = FollowerView(
        log_end_offset=offset,
        is_caught_up=view.is_caught_up or reached,
        last_leader_end_offset=end_offset,
        may_join_isr=view.may_join_isr or is_far_enough,
        asks_to_join=view.asks_to_join or asks_to_join,
        replica_epoch=epoch if broker.generation.checks_replica_epoch else None,
    )
    if after != view:
        world.put_replica(
            broker_id, partition, replace(replica, views=replica.views_with(follower, after))
        )
    if asks is not None and may_ask_for(world, broker_id, partition, follower):
        asks(world, broker_id, partition, follower)
    moved = False
    if broker.generation.advances_after_fetch(view.log_end_offset, offset):
        moved = increment_high_watermark(world, broker_id, partition)
    return moved or view != after


def forget_end(world: World, broker_id: int, partition: TopicPartition, follower: int) -> bool:
    """Note that a follower's end is unknown, since its fetch failed; return whether that is new.

    It keeps the high watermark where it is, and is as caught up as before: no offset reaches the
    unknown end that the leader then compares the next fetch with, since the time noted is -1
    (kafka.cluster.Replica.updateLogReadResult, 1.1.1 and 2.3.1).
    """
    replica = world.replica(broker_id, partition)
    view = replica.view(follower) if replica is not None else None
    if replica is None or view is None or replica.role is not Role.LEADER:
        return False
    after = replace(view, log_end_offset=-1, last_leader_end_offset=NO_FETCH_YET)
    world.put_replica(
        broker_id, partition, replace(replica, views=replica.views_with(follower, after))
    )
    return after != view


def counting_fails(
    world: World, broker_id: int, partition: TopicPartition, follower: int, offset: int
) -> bool:
    """Return whether to count a follower's fetch ends with an error, after its offset is noted."""
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    view = replica.view(follower) if replica is not None else None
    if broker is None or replica is None or view is None or replica.role is not Role.LEADER:
        return False
    moves = broker.generation.advances_after_fetch(view.log_end_offset, offset)
    return moves and fails_to_move(broker, replica)


def may_ask_for(world: World, broker_id: int, partition: TopicPartition, follower: int) -> bool:
    """Return whether a leader would ask its controller for a follower that fetches again now.

    Read from kafka.cluster.Partition.maybeExpandIsr, 2.8.2 and 3.3.0 (KIP-497, KIP-841).
    """
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    view = replica.view(follower)
    assert broker is not None
    generation = broker.generation
    return (
        generation.asks_controller_for_isr
        and view is not None
        and follower not in replica.isr
        and view.log_end_offset >= generation.needed_for_isr(replica)
        and _may_join(broker, follower, view.replica_epoch)
    )


def _may_join(broker: Broker, follower: int, replica_epoch: int | None) -> bool:
    """Return whether a leader takes a follower for one that may join the ISR.

    From KIP-903 on the broker epoch of its last fetch is that of its registration, or none
    (kafka.cluster.Partition.isBrokerEpochIsrEligible, 3.5.0 and 4.1.2).
    """
    generation = broker.generation
    if not generation.may_join_isr(follower, broker.live):
        return False
    if not generation.checks_replica_epoch:
        return True
    registered = dict(broker.epochs).get(follower)
    return registered is not None and replica_epoch in (-1, registered)


def refuses_replica_epoch(broker: Broker, follower: int, replica_epoch: int) -> bool:
    """Return whether a leader refuses a fetch of a process that was followed by another one.

    Read from kafka.cluster.Replica.updateFetchStateOrThrow, 3.7.1 (KAFKA-15221).
    """
    registered = dict(broker.epochs).get(follower, -1)
    is_stale = 0 <= replica_epoch < registered
    return is_stale and broker.generation.refuses_stale_replica


def expands_isr(
    world: World, broker_id: int, partition: TopicPartition, follower: int, offset: int
) -> bool:
    """Return whether a leader writes an ISR to ZooKeeper while it counts a Fetch from an offset.

    It waits for that with the partition's lock (kafka.cluster.Partition.maybeExpandIsr, 0.10.2.2,
    1.1.1 and 2.0.1), until KIP-497.
    """
    broker = world.broker(broker_id)
    replica = world.replica(broker_id, partition)
    return (
        broker is not None
        and replica is not None
        and replica.role is Role.LEADER
        and not broker.generation.asks_controller_for_isr
        and replica.view(follower) is not None
        and follower not in replica.isr
        and offset >= broker.generation.needed_for_isr(replica)
    )


def want_isr(world: World, broker_id: int, partition: TopicPartition, isr: Iterable[int]) -> None:
    """Let a leader make up its mind to ask for an ISR; who is to join counts at once (KIP-497)."""
    replica = world.known_replica(broker_id, partition)
    wanted = WantedIsr(isr=tuple(sorted(isr)))
    world.put(("isr wanted", broker_id, partition), wanted)
    maximal = tuple(sorted({*replica.isr, *wanted.isr}))
    world.put_replica(broker_id, partition, replace(replica, maximal_isr=maximal))


def increment_high_watermark(world: World, broker_id: int, partition: TopicPartition) -> bool:
    """Move the high watermark up to the smallest end offset of the ISR and of who has caught up.

    Read from Partition.maybeIncrementLeaderHW, 1.1.1 and 2.8.2. Returns whether it moved.
    """
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    generation = broker.generation
    if fails_to_move(broker, replica):
        return False
    if not generation.may_advance(replica.isr, _min_isr(world, broker, partition, replica)):
        return False
    offsets = [replica.log.log_end_offset]
    for follower, view in replica.views:
        is_awaited = view.is_caught_up and _is_waited_for(broker, follower, view)
        if follower in replica.maximal_isr or is_awaited:
            offsets.append(view.log_end_offset)
    if min(offsets) <= replica.high_watermark:
        return False
    world.put_replica(broker_id, partition, replace(replica, high_watermark=min(offsets)))
    complete_produces(world, broker_id, partition)
    return True


def moves_with_any_isr(world: World, broker_id: int, partition: TopicPartition) -> bool:
    """Return whether a leader moves its high watermark even if it is alone in the ISR."""
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    return broker.generation.may_advance((broker_id,), _min_isr(world, broker, partition, replica))


def awaited_outside_isr(
    broker: Broker, replica: Replica, wanted: WantedIsr | None
) -> Iterator[int]:
    """Yield who keeps a leader's high watermark back without being in the ISR, or asked into it.

    Who is asked out of it has lagged already, and counts until that is granted
    (kafka.cluster.Partition.getOutOfSyncReplicas, 3.3.2 and 4.0.2).

    Args:
        broker: Who leads.
        replica: Its own.
        wanted: The ISR that it asked its controller for and has no answer about, if there is one.
    """
    for follower, view in replica.views:
        is_behind = view.is_caught_up and view.log_end_offset < replica.log.log_end_offset
        is_asked_out = wanted is not None and follower not in wanted.isr
        is_outside = follower not in replica.maximal_isr or is_asked_out
        if is_behind and is_outside and _is_waited_for(broker, follower, view):
            yield follower


def _is_waited_for(broker: Broker, follower: int, view: FollowerView) -> bool:
    """Return whether the high watermark waits for a follower outside the ISR that has caught up."""
    generation = broker.generation
    if generation.waits_outside_isr is not generation.may_join_isr:
        return generation.waits_outside_isr(follower, broker.live)
    return _may_join(broker, follower, view.replica_epoch)


def wait_no_longer(world: World, broker_id: int, partition: TopicPartition, follower: int) -> None:
    """Let a follower outside the ISR have lagged for longer than replica.lag.time.max.ms.

    The high watermark moves at the next occasion, and not with it
    (kafka.cluster.Partition.maybeIncrementLeaderHW, 1.1.1, 2.8.2 and 3.8.0).
    """
    replica = world.known_replica(broker_id, partition)
    view = replica.view(follower)
    assert view is not None
    behind = replace(view, is_caught_up=False)
    world.put_replica(
        broker_id, partition, replace(replica, views=replica.views_with(follower, behind))
    )


def learn_isr(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Let a leader take over the ISR that was written for it (Partition.maybeUpdateIsr…)."""
    state: PartitionState = world.get(("isr change", broker_id, partition))
    world.put(("isr change", broker_id, partition), None)
    world.put(("isr wanted", broker_id, partition), None)
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    views = dict(replica.views)
    for removed in set(replica.isr) - set(state.isr):
        if removed in views:
            views[removed] = replace(views[removed], is_caught_up=False, asks_to_join=False)
    world.put_replica(
        broker_id,
        partition,
        replace(replica, isr=state.isr, maximal_isr=state.isr, views=tuple(sorted(views.items()))),
    )
    if broker.generation.moves_high_watermark_with_isr:
        increment_high_watermark(world, broker_id, partition)


def take_isr(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    isr: tuple[int, ...],
    replicas: tuple[int, ...] | None = None,
) -> None:
    """Let a leader take over the ISR that a KRaft controller committed, whatever it asked for.

    With the metadata log it also learns who holds the partition (`replicas`), with an answer not.
    Who leaves the ISR may still be caught up: only a new leader epoch resets that (Partition
    .makeLeader and handleAlterPartitionUpdate, 3.3.2 and 4.1.2).
    """
    for component in ("isr wanted", "isr answer", "isr refused"):
        world.put((component, broker_id, partition), None)
    replica = world.known_replica(broker_id, partition)
    views = dict(replica.views)
    for removed in (set(replica.isr) - set(isr)) & views.keys():
        views[removed] = replace(views[removed], asks_to_join=False)
    if replicas is not None:
        unknown = FollowerView(last_leader_end_offset=NO_FETCH_YET)
        views = {each: views.get(each, unknown) for each in replicas if each != broker_id}
    after = replace(replica, isr=isr, maximal_isr=isr, views=tuple(sorted(views.items())))
    world.put_replica(broker_id, partition, after)
    increment_high_watermark(world, broker_id, partition)


def take_granted_isr(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Let a leader handle the answer of a KRaft controller to its AlterPartition.

    It counts only while the leader waits for it, and not if the metadata log has told of a later
    state meanwhile (Partition.submitAlterPartition and handleAlterPartitionUpdate, 3.3.2, 4.1.2).
    """
    granted: GrantedIsr = world.get(("isr answer", broker_id, partition))
    world.put(("isr answer", broker_id, partition), None)
    replica = world.known_replica(broker_id, partition)
    is_awaited = world.get(("isr wanted", broker_id, partition)) is not None
    if is_awaited and replica.role is Role.LEADER and granted.version >= replica.partition_epoch:
        take_isr(world, broker_id, partition, granted.isr)
        after = replace(world.known_replica(broker_id, partition), partition_epoch=granted.version)
        world.put_replica(broker_id, partition, after)


def give_up_isr(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Let a leader go back to the ISR that it had before it asked for another.

    The high watermark moves at the next occasion, and not with it
    (kafka.cluster.Partition.handleAlterPartitionError, 3.3.0 on).
    """
    replica = world.known_replica(broker_id, partition)
    world.put(("isr wanted", broker_id, partition), None)
    world.put_replica(broker_id, partition, replace(replica, maximal_isr=replica.isr))


def has_enough(world: World, broker_id: int, partition: TopicPartition) -> bool:
    """Return whether the ISR is large enough for what the high watermark has reached."""
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    counted = broker.generation.enough_after_append(replica)
    return len(counted) >= _min_isr(world, broker, partition, replica)


def complete_produces(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Complete produces with acks=all that the high watermark has reached."""
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    assert broker is not None
    done = [
        produce for produce in replica.pending if replica.high_watermark >= produce.required_offset
    ]
    if not done:
        return
    pending = tuple(produce for produce in replica.pending if produce not in done)
    world.put_replica(broker_id, partition, replace(replica, pending=pending))
    is_enough = has_enough(world, broker_id, partition)
    for answered in done:
        if is_enough:
            world.notes += [
                Promise(partition, batch.base_offset, batch.payload)
                for batch in replica.log.between(answered.base_offset, answered.required_offset)
            ]
        world.answer(
            PredictedProduce(
                operation=answered.operation,
                acknowledged=is_enough,
                base_offset=answered.base_offset,
                error="" if is_enough else "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            )
        )


def fail_produces(
    world: World, broker_id: int, partition: TopicPartition, error: str = NOT_LEADER
) -> None:
    """Answer waiting produces when the broker stops leading."""
    replica = world.known_replica(broker_id, partition)
    if not replica.pending:
        return
    world.put_replica(broker_id, partition, replace(replica, pending=()))
    for produce in replica.pending:
        world.answer(
            PredictedProduce(
                operation=produce.operation,
                acknowledged=False,
                base_offset=produce.base_offset,
                error=error,
            )
        )


def _min_isr(world: World, broker: Broker, partition: TopicPartition, replica: Replica) -> int:
    """Return how many members a leader wants its ISR to have for acks=all."""
    wanted = world.min_insync_replicas(broker, partition)
    return broker.generation.effective_min_isr(wanted, len(replica.views) + 1)


def refusal(broker: Broker, replica: Replica | None, asked: PartitionRequest) -> str:
    """Return the error with which a broker refuses to look at its log, or ""."""
    if replica is not None and replica.role is Role.OFFLINE:
        return STORAGE_ERROR
    if replica is None or replica.leader_epoch < 0:
        # After a start a broker hosts nothing until a LeaderAndIsr names it.
        return NOT_HOSTED
    if asked.topic_id and replica.topic_id not in ("", asked.topic_id):
        # A log's id is looked at first (ReplicaManager.readFromLocalLog, 3.1.2 and 3.8.0).
        return "INCONSISTENT_TOPIC_ID"
    if broker.generation.sees_leader_epoch(asked):
        error = broker.generation.refuse_epoch(asked.leader_epoch, replica.leader_epoch)
        if error:
            return error
    return "" if replica.role is Role.LEADER else NOT_LEADER
