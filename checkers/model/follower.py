"""What a follower does: join a leader's fetcher, truncate, append what it fetched.

Read from kafka.server.ReplicaManager.makeFollowers, AbstractFetcherThread, ReplicaFetcherThread and
AbstractFetcherManager, 0.10.2.2, 1.1.1, 2.1.1, 2.3.1, 2.8.2 and 3.6.2.
"""

from dataclasses import replace

from checkers.model import leader as leading
from checkers.model import process
from checkers.model.epoch_cache import (
    UNDEFINED,
    EpochEnd,
    latest_epoch,
    truncate_from_end,
    truncate_from_start,
)
from checkers.model.events import PartitionState, TopicPartition
from checkers.model.generation import FollowerLog
from checkers.model.log import UnexpectedAppendOffset
from checkers.model.prediction import Truncation
from checkers.model.requests import Asked, EpochAnswer, FetchAnswer
from checkers.model.state import Broker, FetcherState, FetcherThread, FetchState, Replica, Role
from checkers.model.world import World


def become_follower(
    world: World, broker_id: int, partition: TopicPartition, state: PartitionState
) -> None:
    """Follow a leader in a new epoch, unless the generation thinks that nothing changed."""
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
    world.put(("isr change", broker_id, partition), None)
    leave_fetchers(world, broker_id, partition)
    leading.fail_produces(world, broker_id, partition)
    if broker.generation.truncates_on_become_follower:
        truncate(world, broker_id, partition, replica.high_watermark)
    thread = world.thread(broker_id, state.leader) or FetcherThread()
    fetch = _initial_state(broker, world.known_replica(broker_id, partition))
    world.put_thread(broker_id, state.leader, with_fetch(thread, partition, fetch))


def with_fetch(
    thread: FetcherThread, partition: TopicPartition, fetch: FetchState | None
) -> FetcherThread:
    """Return the thread with that state of the partition, or without the partition."""
    partitions = {**dict(thread.partitions), partition: fetch}
    kept = tuple(sorted((key, value) for key, value in partitions.items() if value is not None))
    return replace(thread, partitions=kept)


def leave_fetchers(world: World, broker_id: int, partition: TopicPartition) -> None:
    """Take the partition from every fetcher thread; idle threads end with `end_idle_threads`."""
    broker = _broker(world, broker_id)
    if partition in broker.failed:
        world.put_broker(broker_id, replace(broker, failed=broker.failed - {partition}))
    for leader in world.leaders(broker_id):
        thread = world.thread(broker_id, leader)
        if thread is not None and thread.fetch(partition) is not None:
            world.put_thread(broker_id, leader, with_fetch(thread, partition, None))


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
        broker_id, leader, tuple(replace(one, is_awaited=False) for one in exchanges)
    )


def truncate(world: World, broker_id: int, partition: TopicPartition, offset: int) -> None:
    """Truncate log and epoch cache to an offset, and note it if the log changed."""
    generation = _broker(world, broker_id).generation
    replica = world.known_replica(broker_id, partition)
    before = replica.log
    log = before.truncate_to(offset, ends_at_batch_edge=generation.ends_at_batch_edge)
    is_truncated = log is not before
    offset = min(offset, log.log_end_offset)
    entries = replica.entries
    if is_truncated or generation.truncates_cache_at_log_end:
        entries = truncate_from_end(entries, offset)
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
            )
        )
        if generation.lowers_high_watermark:
            high_watermark = min(high_watermark, offset)
    world.put_replica(
        broker_id,
        partition,
        replace(replica, log=log, entries=entries, high_watermark=high_watermark),
    )


def truncate_by_answer(
    world: World, broker_id: int, leader: int, partition: TopicPartition, end: EpochEnd
) -> bool:
    """Truncate as the leader's answer says; returns whether anything changed."""
    generation = _broker(world, broker_id).generation
    thread = _thread(world, broker_id, leader)
    fetch = thread.fetch(partition)
    replica = world.known_replica(broker_id, partition)
    assert fetch is not None
    log_end_offset = replica.log.log_end_offset
    entries = replica.entries
    truncation = generation.truncate(
        end,
        FollowerLog(
            end_of_epoch=lambda epoch: generation.answer_epoch(entries, epoch, log_end_offset),
            log_end_offset=log_end_offset,
            fetch_offset=fetch.fetch_offset,
            high_watermark=replica.high_watermark,
        ),
    )
    truncate(world, broker_id, partition, truncation.offset)
    after = world.known_replica(broker_id, partition)
    fetch_offset = truncation.offset
    if generation.ends_at_batch_edge:
        fetch_offset = min(fetch_offset, after.log.log_end_offset)
    completed = truncation.completed or generation.truncates_on_fetch
    stands = replace(
        fetch,
        fetch_offset=fetch_offset,
        state=FetcherState.FETCHING if completed else FetcherState.TRUNCATING,
    )
    world.put_thread(broker_id, leader, with_fetch(thread, partition, stands))
    return (fetch, replica.log, entries) != (stands, after.log, after.entries)


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
    asked: Asked,
    answer: EpochAnswer,
) -> bool:
    """Handle one partition of an answered OffsetForLeaderEpoch; return whether a thing changed."""
    fetch = _thread(world, broker_id, leader).fetch(partition)
    if fetch is None:
        return False
    generation = _broker(world, broker_id).generation
    if generation.checks_epoch_of_answer and asked.leader_epoch != fetch.leader_epoch:
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return _fenced(world, broker_id, leader, partition, asked)
    if answer.error:
        return False
    return truncate_by_answer(world, broker_id, leader, partition, answer.end)


def handle_fetch_answer(
    world: World,
    broker_id: int,
    leader: int,
    partition: TopicPartition,
    asked: Asked,
    answer: FetchAnswer,
) -> bool:
    """Handle one partition of a Fetch response; return whether a thing changed."""
    fetch = _thread(world, broker_id, leader).fetch(partition)
    if (
        fetch is None
        or fetch.fetch_offset != asked.fetch_offset
        or fetch.state is not FetcherState.FETCHING
    ):
        return False
    generation = _broker(world, broker_id).generation
    if generation.checks_epoch_of_fetch and asked.leader_epoch != fetch.leader_epoch:
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return _fenced(world, broker_id, leader, partition, asked)
    if answer.error == "OFFSET_OUT_OF_RANGE":
        return _reset_offset(world, broker_id, leader, partition, fetch)
    if answer.error:
        return False
    if answer.diverging is not None:
        if generation.trusts_diverging_high_watermark:
            _set_high_watermark(world, broker_id, partition, answer.high_watermark)
        return truncate_by_answer(world, broker_id, leader, partition, answer.diverging)
    return _append(world, broker_id, leader, partition, fetch, answer)


def _initial_state(broker: Broker, replica: Replica) -> FetchState:
    generation = broker.generation
    starts_at_end = generation.truncates_on_become_follower or (
        generation.truncates_on_fetch and latest_epoch(replica.entries) >= 0
    )
    return FetchState(
        fetch_offset=replica.log.log_end_offset if starts_at_end else replica.high_watermark,
        state=FetcherState.FETCHING if starts_at_end else FetcherState.TRUNCATING,
        leader_epoch=replica.leader_epoch,
    )


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
    try:
        log = replica.log.append(answer.batches)
    except UnexpectedAppendOffset:
        _fail(world, broker_id, leader, partition)
        return True
    after = leading.assign_epochs_of(broker, replace(replica, log=log), answer.batches)
    high_watermark = min(log.log_end_offset, answer.high_watermark)
    after = replace(after, high_watermark=high_watermark)
    if answer.log_start_offset > log.log_start_offset:
        after = replace(
            after,
            log=replace(log, log_start_offset=answer.log_start_offset),
            entries=truncate_from_start(after.entries, answer.log_start_offset),
        )
    if after != replica:
        world.put_replica(broker_id, partition, after)
    if fetch.fetch_offset != log.log_end_offset:
        thread = _thread(world, broker_id, leader)
        stands = replace(fetch, fetch_offset=log.log_end_offset)
        world.put_thread(broker_id, leader, with_fetch(thread, partition, stands))
    return after != replica


def _set_high_watermark(
    world: World, broker_id: int, partition: TopicPartition, leaders: int
) -> None:
    replica = world.known_replica(broker_id, partition)
    high_watermark = min(replica.log.log_end_offset, leaders)
    world.put_replica(broker_id, partition, replace(replica, high_watermark=high_watermark))


def _fail(world: World, broker_id: int, leader: int, partition: TopicPartition) -> None:
    thread = _thread(world, broker_id, leader)
    broker = _broker(world, broker_id)
    if broker.generation.fails_partition_only:
        world.put_thread(broker_id, leader, with_fetch(thread, partition, None))
        world.put_broker(broker_id, replace(broker, failed=broker.failed | {partition}))
    else:
        world.put_thread(broker_id, leader, replace(thread, is_dead=True))


def _fenced(
    world: World, broker_id: int, leader: int, partition: TopicPartition, asked: Asked
) -> bool:
    """Stop a partition whose epoch is older than the leader's, until the next LeaderAndIsr."""
    thread = _thread(world, broker_id, leader)
    broker = _broker(world, broker_id)
    fetch = thread.fetch(partition)
    assert fetch is not None
    if broker.generation.retries_when_fenced and asked.leader_epoch != fetch.leader_epoch:
        return False
    world.put_thread(broker_id, leader, with_fetch(thread, partition, None))
    if broker.generation.fails_partition_only:
        world.put_broker(broker_id, replace(broker, failed=broker.failed | {partition}))
    return True


def _reset_offset(
    world: World, broker_id: int, leader: int, partition: TopicPartition, fetch: FetchState
) -> bool:
    """Handle OFFSET_OUT_OF_RANGE: ask for the leader's end, or for its start."""
    if not world.passes(broker_id, leader):
        return False
    broker = _broker(world, broker_id)
    replica = world.known_replica(broker_id, partition)
    of_leader = world.replica(leader, partition)
    if of_leader is None:
        return False
    leader_log, own_end = of_leader.log, replica.log.log_end_offset
    fetch_offset = max(leader_log.log_start_offset, own_end)
    if leader_log.log_end_offset < own_end:
        if (
            broker.generation.exits_on_shorter_leader
            and not broker.configuration.unclean_leader_election
        ):
            process.stop(world, broker_id, is_clean=True)
            world.put_broker(broker_id, replace(_broker(world, broker_id), has_exited=True))
            return True
        truncate(world, broker_id, partition, leader_log.log_end_offset)
        fetch_offset = leader_log.log_end_offset
    elif leader_log.log_start_offset > own_end:
        log = replica.log.truncate_fully_and_start_at(leader_log.log_start_offset)
        world.put_replica(broker_id, partition, replace(replica, log=log, entries=()))
    thread = _thread(world, broker_id, leader)
    stands = replace(fetch, fetch_offset=fetch_offset)
    world.put_thread(broker_id, leader, with_fetch(thread, partition, stands))
    return fetch_offset != fetch.fetch_offset or leader_log.log_end_offset < own_end


def _broker(world: World, broker_id: int) -> Broker:
    broker = world.broker(broker_id)
    assert broker is not None, f"broker {broker_id} never ran"
    return broker


def _thread(world: World, broker_id: int, leader: int) -> FetcherThread:
    thread = world.thread(broker_id, leader)
    assert thread is not None, f"broker {broker_id} has no fetcher thread for {leader}"
    return thread
