"""Follower: it joins a leader's fetcher, truncates, and appends what it fetched.

Read from kafka.server.ReplicaManager.makeFollowers, AbstractFetcherThread, ReplicaFetcherThread and
AbstractFetcherManager, 0.10.2.2, 1.1.1, 2.1.1, 2.3.1, 2.8.2 and 3.6.2.
"""

import itertools
from collections.abc import Sequence

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import leader as leading
from kchaos.checkers.model.releases.generation import FollowerLog, Generation, Stopped
from kchaos.checkers.model.state.state import Broker
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import (
    UNDEFINED,
    Entries,
    EpochEnd,
    latest_epoch,
    truncate_from_start,
)
from kchaos.checkers.model.values.events import PartitionState, ReplicaMoved
from kchaos.checkers.model.values.log import UnexpectedAppendOffset
from kchaos.checkers.model.values.prediction import PredictedBatch, Truncation
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import (
    FetcherState,
    FetcherThread,
    FetchState,
    OffsetReset,
    Replica,
    Role,
)
from kchaos.checkers.model.values.requests import LATEST, EpochAnswer, FetchAnswer, PartitionRequest
from kchaos.checkers.model.values.shared import Shared


def become_follower(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    state: PartitionState,
    *,
    fetches: bool = True,
    topic_id: str = "",
) -> None:
    """Follow a leader in a new epoch, unless the generation thinks that nothing changed.

    Unless it `fetches` no thread gets the partition. It fetches by the topic id that it was told.
    """
    broker = _broker(world, broker_id)
    replica = world.known_replica(broker_id, partition)
    known_epoch = replica.leader_epoch
    is_same = replica.leader == state.leader and replica.role is not Role.NONE
    replica = replace(replica, leader_epoch=state.leader_epoch, isr=(), maximal_isr=())
    world.put_replica(broker_id, partition, replica)
    if broker.generation.skips_known_leader(is_same, known_epoch, state.leader_epoch):
        return
    replica = replace(replica, role=Role.FOLLOWER, leader=state.leader)
    world.put_replica(broker_id, partition, replica)
    if world.get(("isr wanted", broker_id, partition)) is not None:
        world.put(("isr unanswered", broker_id, partition), True)
    for component in ("isr change", "isr refused", "isr wanted"):
        world.put((component, broker_id, partition), None)
    leave_fetchers(world, broker_id, partition)
    leading.fail_produces(world, broker_id, partition)
    target_offset = broker.generation.truncation_at_once(replica)
    if target_offset is not None:
        truncate(world, broker_id, partition, target_offset)
    if not fetches:
        return
    source = world.source(broker_id, state.leader, partition)
    thread = world.thread(broker_id, source) or FetcherThread()
    fetch = broker.generation.first_fetch(world.known_replica(broker_id, partition))
    fetch = replace(fetch, topic_id=topic_id)
    world.put_thread(broker_id, source, thread.with_fetch(partition, fetch))


def learn_topic_id(world: World, broker_id: int, partition: TopicPartition, topic_id: str) -> None:
    """Let a fetcher name its topic as a LeaderAndIsr of a leader epoch does that is not new.

    So it is when ids come up with an upgrade, or go (ReplicaManager.updateTopicIdForFollowers,
    3.1.2 and 3.8.0).
    """
    for leader in world.leaders(broker_id):
        thread = world.thread(broker_id, leader)
        fetch = None if thread is None else thread.fetch(partition)
        if thread is not None and fetch is not None and "" in (fetch.topic_id, topic_id):
            named = replace(fetch, topic_id=topic_id)
            world.put_thread(broker_id, leader, thread.with_fetch(partition, named))


def leave_fetchers(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Take the partition from every fetcher thread; idle threads end with `end_idle_threads`."""
    broker = _broker(world, broker_id)
    if partition in broker.failed:
        world.put_broker(broker_id, replace(broker, failed=broker.failed - {partition}))
    for leader in world.leaders(broker_id):
        thread = world.thread(broker_id, leader)
        if thread is not None and thread.fetch(partition) is not None:
            world.put_thread(broker_id, leader, thread.with_fetch(partition, None))


def end_idle_threads(world: World, broker_id: int) -> None:
    """End threads without partitions, which is the only way to be rid of a dead one."""
    for leader in world.leaders(broker_id):
        thread = world.thread(broker_id, leader)
        if thread is not None and not thread.partitions:
            end_thread(world, broker_id, leader)


def end_thread(world: World, broker_id: int, leader: int) -> None:
    """End one fetcher thread; what it has sent may still reach the leader."""
    world.put_thread(broker_id, leader, None)
    exchanges = world.exchanges(broker_id, leader)
    world.put_exchanges(
        broker_id, leader, tuple(replace(exchange, is_awaited=False) for exchange in exchanges)
    )


def truncate(world: World, broker_id: int, partition: TopicPartition, offset: int) -> None:
    """Truncate log and epoch cache to an offset, and note it if the log changed."""
    generation = _broker(world, broker_id).generation
    replica = world.known_replica(broker_id, partition)
    before = replica.log
    log = before.truncate_to(offset)
    is_truncated = log is not before
    is_shorter = is_truncated or world.get(("shortened", broker_id, partition)) is not None
    world.put(("shortened", broker_id, partition), None)
    offset = min(offset, log.log_end_offset)
    entries = generation.entries_after_truncation(replica.entries, offset, is_shorter)
    high_watermark = replica.high_watermark
    if is_truncated:
        world.notes.append(
            Truncation(
                broker=broker_id,
                topic=partition.topic,
                partition=partition.partition,
                target_offset=offset,
                log_end_offset_before=before.log_end_offset,
                high_watermark=high_watermark,
                is_inside_batch=len(log.batches) < len(before.batches)
                and before.batches[len(log.batches)].base_offset < offset,
            )
        )
        high_watermark = generation.high_watermark_after_truncation(high_watermark, offset)
    world.put_replica(
        broker_id,
        partition,
        replace(replica, log=log, entries=entries, high_watermark=high_watermark),
    )


def start_anew(world: World, broker_id: int, partition: TopicPartition, offset: int) -> None:
    """Empty a log, so that it begins and ends at an offset (Log.truncateFullyAndStartAt)."""
    generation = _broker(world, broker_id).generation
    replica = world.known_replica(broker_id, partition)
    world.put_replica(
        broker_id,
        partition,
        replace(
            replica,
            log=replica.log.truncate_fully_and_start_at(offset),
            entries=(),
            high_watermark=generation.high_watermark_of_restarted(replica.high_watermark, offset),
        ),
    )


def move(world: World, moved: ReplicaMoved) -> str:
    """Put the copy of another log directory in a replica's place; return why not, or "".

    The copy has the batches from the log start on, and the epoch cache that their appends made:
    epochs without a batch are gone (KAFKA-15608), and the first one begins at the log start
    (kafka.server.ReplicaAlterLogDirsThread.processPartitionData and
    kafka.log.LogManager.replaceCurrentWithFutureLog, 1.1.1, 2.8.2, 3.8.0 and 4.1.2). It takes over
    the high watermark, which that directory's checkpoint file may not have yet. Up to 2.1.0 the
    replica goes on with the epochs of the log before (`rules.kafka_7897`).
    """
    replica = world.replica(moved.broker, moved.partition)
    broker = world.broker(moved.broker)
    if replica is None or broker is None or not broker.is_running:
        return f"broker {moved.broker} moved a replica of {moved.partition.name}, and has none"
    generation = world.generation(broker, moved.partition)
    log = replica.log
    start = log.log_start_offset
    batches = tuple(batch for batch in log.local_batches() if batch.last_offset >= start)
    first = min((batch.base_offset for batch in batches), default=start)
    local_start = max(log.local_start_offset, min(first, start))
    copied = leading.assign_epochs_of(
        generation,
        replace(replica, entries=(), log=replace(log, local_start_offset=local_start)),
        batches,
    )
    after = replace(
        copied,
        entries=truncate_from_start(copied.entries, start),
        epochs_before_move=replica.epochs if generation.keeps_epochs_over_moves else None,
    )
    world.put_replica(moved.broker, moved.partition, after)
    checkpoint = world.checkpoint(moved.broker, moved.partition)
    unnamed = replace(checkpoint, possible=Shared((0, *checkpoint.possible)))
    world.put(("checkpoint", moved.broker, moved.partition), unnamed)
    return ""


def truncate_by_answer(
    world: World, broker_id: int, leader: int, partition: TopicPartition, end: EpochEnd
) -> bool:
    """Truncate as the leader's answer says; return whether anything changed."""
    broker = _broker(world, broker_id)
    thread = _thread(world, broker_id, leader)
    fetch = thread.fetch(partition)
    replica = world.known_replica(broker_id, partition)
    assert fetch is not None
    truncation = broker.generation.truncate(
        end,
        FollowerLog(
            end_of_epoch=lambda epoch: leading.end_of_epoch(broker, replica, epoch),
            log=replica.log,
            fetch_offset=fetch.fetch_offset,
            high_watermark=replica.high_watermark,
            entries=replica.entries,
            asks_below=fetch.asks_below,
        ),
    )
    truncate(world, broker_id, partition, truncation.offset)
    after = world.known_replica(broker_id, partition)
    stands = replace(
        fetch,
        fetch_offset=truncation.offset,
        unnoted_epoch=-1,
        asks_below=truncation.asks_below,
        state=FetcherState.FETCHING if truncation.completed else FetcherState.TRUNCATING,
    )
    world.put_thread(broker_id, leader, thread.with_fetch(partition, stands))
    return (fetch, replica.log, replica.entries) != (stands, after.log, after.entries)


def truncate_without_asking(
    world: World, broker_id: int, leader: int, partition: TopicPartition
) -> None:
    """Truncate to the high watermark, since no epoch is known or the protocol has no request."""
    truncate_by_answer(world, broker_id, leader, partition, UNDEFINED)


def handle_epoch_answer(
    world: World,
    broker_id: int,
    leader: int,
    partition: TopicPartition,
    asked: PartitionRequest,
    answer: EpochAnswer,
) -> bool:
    """Handle one partition of an answered OffsetForLeaderEpoch; return whether a thing changed."""
    fetch = _thread(world, broker_id, leader).fetch(partition)
    if fetch is None:
        return False
    generation = _broker(world, broker_id).generation
    if not generation.takes_epoch_answer(asked.leader_epoch, fetch.leader_epoch):
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return fenced(world, broker_id, leader, partition, asked.leader_epoch)
    if answer.error:
        return False
    return truncate_by_answer(world, broker_id, leader, partition, answer.end)


def handle_fetch_answer(
    world: World,
    broker_id: int,
    leader: int,
    partition: TopicPartition,
    asked: PartitionRequest,
    answer: FetchAnswer,
) -> bool:
    """Handle one partition of a Fetch response; return whether a thing changed."""
    fetch = _thread(world, broker_id, leader).fetch(partition)
    generation = _broker(world, broker_id).generation
    if fetch is None or fetch.fetch_offset != asked.fetch_offset:
        return False
    if not _takes_answers_now(generation, fetch):
        return False
    if not generation.takes_fetch_answer(asked.leader_epoch, fetch.leader_epoch):
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return fenced(world, broker_id, leader, partition, asked.leader_epoch)
    if answer.error == "OFFSET_OUT_OF_RANGE":
        reset = OffsetReset(partition=partition, leader_epoch=asked.leader_epoch, timestamp=LATEST)
        thread = _thread(world, broker_id, leader)
        world.put_thread(broker_id, leader, replace(thread, reset=reset))
        return False
    if answer.error:
        return False
    if answer.diverging is not None:
        replica = world.known_replica(broker_id, partition)
        high_watermark = generation.high_watermark_at_divergence(replica, answer)
        if high_watermark != replica.high_watermark:
            world.put_replica(broker_id, partition, replace(replica, high_watermark=high_watermark))
        return truncate_by_answer(world, broker_id, leader, partition, answer.diverging)
    return _append(world, broker_id, leader, partition, fetch, answer)


def _append(
    world: World,
    broker_id: int,
    leader: int,
    partition: TopicPartition,
    fetch: FetchState,
    answer: FetchAnswer,
) -> bool:
    broker = _broker(world, broker_id)
    replica = world.known_replica(broker_id, partition)
    if fetch.fetch_offset != replica.log.log_end_offset:
        _fail(world, broker_id, leader, partition)
        return True
    if _begins_below(replica, answer) and broker.generation.restarts_empty_log:
        start_anew(world, broker_id, partition, answer.batches[0].base_offset)
        replica = world.known_replica(broker_id, partition)
    answer = replace(
        answer, batches=taken_of(broker.generation, fetch.leader_epoch, answer.batches)
    )
    try:
        rolls = world.generation(broker, partition).proposed.rolls(replica.log, answer.batches)
        log = replica.log.append(answer.batches, rolls)
    except UnexpectedAppendOffset:
        _fail(world, broker_id, leader, partition)
        return True
    high_watermark = min(log.log_end_offset, answer.high_watermark)
    if broker.generation.keeps_high_watermark_in_log:
        high_watermark = max(high_watermark, log.log_start_offset)
    after = leading.assign_epochs_of(
        world.generation(broker, partition),
        replace(replica, log=log, high_watermark=high_watermark),
        answer.batches[answer.noted :],
    )
    learns = broker.generation.learns_log_start
    if learns and answer.log_start_offset > high_watermark >= 0:
        # A log start beyond the high watermark is refused, after the append.
        world.put_replica(broker_id, partition, after)
        _fail(world, broker_id, leader, partition)
        return True
    if learns and answer.log_start_offset > log.log_start_offset:
        after = replace(
            after,
            log=replace(log, log_start_offset=answer.log_start_offset),
            entries=truncate_from_start(after.entries, answer.log_start_offset),
        )
    if after != replica:
        world.put_replica(broker_id, partition, after)
    stands = broker.generation.fetch_after_append(fetch, len(answer.batches))
    unnoted = -1
    if broker.generation.remembers_fetched_epoch:
        unnoted = _unnoted_epoch(fetch, replica.entries, after.entries, answer)
    stands = replace(
        stands,
        fetch_offset=log.log_end_offset,
        unnoted_epoch=unnoted,
        state=FetcherState.FETCHING if answer.batches else stands.state,
    )
    if stands != fetch:
        thread = _thread(world, broker_id, leader)
        world.put_thread(broker_id, leader, thread.with_fetch(partition, stands))
    return (fetch, replica) != (stands, after)


def taken_of(
    generation: Generation, leader_epoch: int, batches: Sequence[PredictedBatch]
) -> tuple[PredictedBatch, ...]:
    """Return the batches that a follower in a leader epoch appends, of those of an answer.

    Read from kafka.log.UnifiedLog.analyzeAndValidateRecords, 3.9.1 (KAFKA-18723).
    """
    if not generation.drops_newer_epochs:
        return tuple(batches)
    return tuple(itertools.takewhile(lambda batch: batch.leader_epoch <= leader_epoch, batches))


def _takes_answers_now(generation: Generation, fetch: FetchState) -> bool:
    """Return whether a partition on a fetcher thread stands so that an answer to a Fetch counts."""
    is_fetching = fetch.state is FetcherState.FETCHING
    return is_fetching or generation.takes_fetch_answer_before_truncating


def _begins_below(replica: Replica, answer: FetchAnswer) -> bool:
    """Return whether an empty log is answered with a batch that begins below its start."""
    log = replica.log
    is_empty = log.log_end_offset == log.log_start_offset
    first = answer.batches[0].base_offset if answer.batches else log.log_start_offset
    return is_empty and first < log.log_start_offset <= answer.batches[-1].last_offset


def _unnoted_epoch(fetch: FetchState, before: Entries, after: Entries, answer: FetchAnswer) -> int:
    """Return the epoch of the last batch that has one, -1 where the cache says the same."""
    known = fetch.unnoted_epoch if fetch.unnoted_epoch >= 0 else latest_epoch(before)
    for batch in answer.batches:
        if batch.magic >= 2:
            known = batch.leader_epoch
    return -1 if known == latest_epoch(after) else known


def note_epochs(
    world: World,
    broker_id: int,
    leader: int,
    partition: TopicPartition,
    batches: tuple[PredictedBatch, ...],
) -> bool:
    """Note the epochs of fetched batches, before any of their answer is written.

    A follower notes them all before it writes any. The cache is on disk then, and a process that
    is killed in between leaves it so (kafka.log.Log.append, 1.1.1 and 2.8.2). Returns whether
    there was anything to note.
    """
    broker = _broker(world, broker_id)
    fetch = _thread(world, broker_id, leader).fetch(partition)
    replica = world.known_replica(broker_id, partition)
    if fetch is None or not _takes_answers_now(broker.generation, fetch):
        return False
    if fetch.fetch_offset != replica.log.log_end_offset:
        return False
    generation = world.generation(broker, partition)
    taken = taken_of(generation, fetch.leader_epoch, batches)
    noted = leading.assign_epochs_of(generation, replica, taken)
    world.put_replica(broker_id, partition, noted)
    return noted != replica


def _fail(world: World, broker_id: int, leader: int, partition: TopicPartition) -> None:
    """Let what an append that failed stops be stopped."""
    broker, thread = _broker(world, broker_id), _thread(world, broker_id, leader)
    stop = broker.generation.stop_after_failed_append
    _stand(world, broker_id, leader, stop(thread, broker.failed, partition))


def fenced(
    world: World, broker_id: int, leader: int, partition: TopicPartition, asked_leader_epoch: int
) -> bool:
    """Let what FENCED_LEADER_EPOCH stops be stopped; return whether that changed anything."""
    broker, thread = _broker(world, broker_id), _thread(world, broker_id, leader)
    stop = broker.generation.stop_when_fenced
    stopped = stop(thread, broker.failed, partition, asked_leader_epoch)
    _stand(world, broker_id, leader, stopped)
    return stopped != (thread, broker.failed)


def _stand(world: World, broker_id: int, leader: int, stopped: Stopped) -> None:
    broker = _broker(world, broker_id)
    world.put_thread(broker_id, leader, stopped.thread)
    if stopped.failed != broker.failed:
        world.put_broker(broker_id, replace(broker, failed=stopped.failed))


def _broker(world: World, broker_id: int) -> Broker:
    broker = world.broker(broker_id)
    assert broker is not None, f"broker {broker_id} never ran"
    return broker


def _thread(world: World, broker_id: int, leader: int) -> FetcherThread:
    thread = world.thread(broker_id, leader)
    assert thread is not None, f"broker {broker_id} has no fetcher thread for {leader}"
    return thread
