"""What a follower does: join a leader's fetcher, truncate, append what it fetched.

Read from kafka.server.ReplicaManager.makeFollowers, AbstractFetcherThread, ReplicaFetcherThread and
AbstractFetcherManager, 0.10.2.2, 1.1.1, 2.1.1, 2.3.1, 2.8.2 and 3.6.2.
"""

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
from checkers.model.state import (
    Asked,
    Broker,
    Cluster,
    EpochAnswer,
    FetchAnswer,
    FetcherState,
    FetcherThread,
    FetchState,
    Replica,
    Role,
)


def become_follower(
    cluster: Cluster, broker: Broker, partition: TopicPartition, state: PartitionState
) -> None:
    """Follow a leader in a new epoch, unless the generation thinks that nothing changed."""
    replica = broker.replicas[partition]
    known_epoch, replica.leader_epoch = replica.leader_epoch, state.leader_epoch
    is_same = replica.leader == state.leader and replica.role is not Role.NONE
    replica.isr = ()
    if broker.generation.skips_known_leader(is_same, known_epoch, state.leader_epoch):
        return
    replica.role = Role.FOLLOWER
    replica.leader = state.leader
    leave_fetchers(broker, partition)
    leading.fail_produces(cluster, replica)
    if broker.generation.truncates_on_become_follower:
        truncate(cluster, broker, partition, replica.high_watermark)
    thread = broker.threads.setdefault(state.leader, FetcherThread())
    thread.partitions[partition] = _initial_state(broker, replica)


def leave_fetchers(broker: Broker, partition: TopicPartition) -> None:
    """Take the partition from every fetcher thread; idle threads end with `end_idle_threads`."""
    broker.failed.discard(partition)
    for thread in broker.threads.values():
        thread.partitions.pop(partition, None)


def end_idle_threads(broker: Broker) -> None:
    """End threads without partitions, which is the only way to be rid of a dead one."""
    broker.threads = {
        leader: thread for leader, thread in broker.threads.items() if thread.partitions
    }


def truncate(cluster: Cluster, broker: Broker, partition: TopicPartition, offset: int) -> None:
    """Truncate log and epoch cache to an offset, and record it if the log changed."""
    replica = broker.replicas[partition]
    before = replica.log.log_end_offset
    truncated = replica.log.truncate_to(
        offset, ends_at_batch_edge=broker.generation.ends_at_batch_edge
    )
    offset = min(offset, replica.log.log_end_offset)
    if truncated or broker.generation.truncates_cache_at_log_end:
        replica.entries = truncate_from_end(replica.entries, offset)
    if not truncated:
        return
    cluster.truncations.append(
        Truncation(
            broker=broker.broker,
            topic=partition.topic,
            partition=partition.partition,
            target_offset=offset,
            log_end_offset_before=before,
            high_watermark=replica.high_watermark,
        )
    )
    if broker.generation.lowers_high_watermark and replica.high_watermark > offset:
        replica.set_high_watermark(offset)


def truncate_by_answer(
    cluster: Cluster, broker: Broker, partition: TopicPartition, end: EpochEnd, fetch: FetchState
) -> bool:
    """Truncate as the leader's answer says; returns whether anything changed."""
    replica = broker.replicas[partition]
    generation = broker.generation
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
    before = (fetch.fetch_offset, fetch.state, log_end_offset, entries)
    truncate(cluster, broker, partition, truncation.offset)
    fetch.fetch_offset = truncation.offset
    if generation.ends_at_batch_edge:
        fetch.fetch_offset = min(truncation.offset, replica.log.log_end_offset)
    completed = truncation.completed or generation.truncates_on_fetch
    fetch.state = FetcherState.FETCHING if completed else FetcherState.TRUNCATING
    after = (fetch.fetch_offset, fetch.state, replica.log.log_end_offset, replica.entries)
    return before != after


def truncate_without_asking(
    cluster: Cluster, broker: Broker, partition: TopicPartition, fetch: FetchState
) -> None:
    """Truncate to the high watermark, since no epoch is known or the protocol has no request."""
    truncate_by_answer(cluster, broker, partition, UNDEFINED, fetch)


def handle_epoch_answer(
    cluster: Cluster,
    broker: Broker,
    thread: FetcherThread,
    partition: TopicPartition,
    asked: Asked,
    answer: EpochAnswer,
) -> bool:
    """Handle one partition of an answered OffsetForLeaderEpoch; return whether a thing changed."""
    fetch = thread.partitions.get(partition)
    if fetch is None:
        return False
    if broker.generation.checks_epoch_of_answer and asked.leader_epoch != fetch.leader_epoch:
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return _fenced(broker, thread, partition, asked)
    if answer.error:
        return False
    return truncate_by_answer(cluster, broker, partition, answer.end, fetch)


def handle_fetch_answer(
    cluster: Cluster,
    broker: Broker,
    thread: FetcherThread,
    partition: TopicPartition,
    asked: Asked,
    answer: FetchAnswer,
) -> bool:
    """Handle one partition of a Fetch response; return whether a thing changed."""
    fetch = thread.partitions.get(partition)
    if (
        fetch is None
        or fetch.fetch_offset != asked.fetch_offset
        or fetch.state is not FetcherState.FETCHING
    ):
        return False
    if answer.error == "FENCED_LEADER_EPOCH":
        return _fenced(broker, thread, partition, asked)
    if answer.error == "OFFSET_OUT_OF_RANGE":
        return _reset_offset(cluster, broker, partition, fetch)
    if answer.error:
        return False
    if answer.diverging is not None:
        if broker.generation.trusts_diverging_high_watermark:
            _set_high_watermark(broker.replicas[partition], answer.high_watermark)
        return truncate_by_answer(cluster, broker, partition, answer.diverging, fetch)
    return _append(broker, thread, partition, fetch, answer)


def _initial_state(broker: Broker, replica: Replica) -> FetchState:
    if broker.generation.truncates_on_become_follower:
        return FetchState(
            fetch_offset=replica.log.log_end_offset,
            state=FetcherState.FETCHING,
            leader_epoch=replica.leader_epoch,
        )
    if broker.generation.truncates_on_fetch and latest_epoch(replica.entries) >= 0:
        return FetchState(
            fetch_offset=replica.log.log_end_offset,
            state=FetcherState.FETCHING,
            leader_epoch=replica.leader_epoch,
        )
    return FetchState(
        fetch_offset=replica.high_watermark,
        state=FetcherState.TRUNCATING,
        leader_epoch=replica.leader_epoch,
    )


def _append(
    broker: Broker,
    thread: FetcherThread,
    partition: TopicPartition,
    fetch: FetchState,
    answer: FetchAnswer,
) -> bool:
    replica = broker.replicas[partition]
    if fetch.fetch_offset != replica.log.log_end_offset:
        _fail(broker, thread, partition)
        return True
    try:
        replica.log.append(answer.batches)
    except UnexpectedAppendOffset:
        _fail(broker, thread, partition)
        return True
    leading.assign_epochs_of(broker, replica, answer.batches)
    fetch.fetch_offset = replica.log.log_end_offset
    moved = _set_high_watermark(replica, answer.high_watermark)
    if answer.log_start_offset > replica.log.log_start_offset:
        replica.log.log_start_offset = answer.log_start_offset
        replica.entries = truncate_from_start(replica.entries, answer.log_start_offset)
        moved = True
    return moved or bool(answer.batches)


def _set_high_watermark(replica: Replica, leaders: int) -> bool:
    high_watermark = min(replica.log.log_end_offset, leaders)
    if high_watermark == replica.high_watermark:
        return False
    replica.set_high_watermark(high_watermark)
    return True


def _fail(broker: Broker, thread: FetcherThread, partition: TopicPartition) -> None:
    if broker.generation.fails_partition_only:
        thread.partitions.pop(partition)
        broker.failed.add(partition)
    else:
        thread.is_dead = True


def _fenced(broker: Broker, thread: FetcherThread, partition: TopicPartition, asked: Asked) -> bool:
    """Stop a partition whose epoch is older than the leader's, until the next LeaderAndIsr."""
    fetch = thread.partitions[partition]
    if broker.generation.retries_when_fenced and asked.leader_epoch != fetch.leader_epoch:
        return False
    thread.partitions.pop(partition)
    if broker.generation.fails_partition_only:
        broker.failed.add(partition)
    return True


def _reset_offset(
    cluster: Cluster, broker: Broker, partition: TopicPartition, fetch: FetchState
) -> bool:
    """Handle OFFSET_OUT_OF_RANGE: ask for the leader's end, or for its start."""
    replica = broker.replicas[partition]
    if replica.leader is None or not cluster.passes(broker.broker, replica.leader):
        return False
    leader_log = cluster.brokers[replica.leader].replicas[partition].log
    own_end = replica.log.log_end_offset
    before = fetch.fetch_offset
    if leader_log.log_end_offset < own_end:
        if (
            broker.generation.exits_on_shorter_leader
            and not broker.configuration.unclean_leader_election
        ):
            process.stop(cluster, broker, is_clean=True)
            broker.has_exited = True
            return True
        truncate(cluster, broker, partition, leader_log.log_end_offset)
        fetch.fetch_offset = leader_log.log_end_offset
        return True
    if leader_log.log_start_offset > own_end:
        replica.log.truncate_fully_and_start_at(leader_log.log_start_offset)
        replica.entries = ()
    fetch.fetch_offset = max(leader_log.log_start_offset, own_end)
    return fetch.fetch_offset != before
