"""Log start offset: what moves it, how far it may move, and what goes with it.

A leader's retention moves it, and a client's DeleteRecords (KIP-107); a follower takes it over with
each Fetch answer, and deletes by its own retention too. When retention looks nobody can say, so a
move is allowed rather than predicted: what was seen of a log chooses where it begins.

Read from kafka.log.Log (deletableSegments, maybeIncrementLogStartOffset), 0.10.2.2, 0.11.0.0, 1.1.1
and 2.8.2, kafka.log.UnifiedLog, 3.8.0, kafka.cluster.Partition.deleteRecordsOnLeader and
kafka.server.ReplicaFetcherThread.processPartitionData, 1.1.1, 2.4.0 and 3.8.0.
"""

from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import truncate_from_start
from kchaos.checkers.model.values.events import DeleteRecords, LogStartObserved
from kchaos.checkers.model.values.replica import Replica, Role


def why_not(world: World, broker_id: int, partition: TopicPartition, start: int) -> str:
    """Return why a log cannot begin at an offset by now, or "".

    It can where it does already, up to the high watermark where brokers may delete what is old, up
    to where a client asked its leader to delete, and up to where it began before its process was
    killed: what DeleteRecords moved is on disk only with the next checkpoint.
    """
    replica = world.known_replica(broker_id, partition)
    if start <= replica.log.log_start_offset:
        return ""
    limit = furthest(world, broker_id, partition, replica)
    if start <= limit:
        return ""
    return f"its log began at {replica.log.log_start_offset}, and at {limit} at most"


def furthest(world: World, broker_id: int, partition: TopicPartition, replica: Replica) -> int:
    """Return the offset at which a log may begin at most by now."""
    broker = world.broker(broker_id)
    assert broker is not None
    offsets = [replica.log.log_start_offset]
    began = world.get(("began", broker_id, partition))
    if began is not None:
        offsets.append(min(began, replica.log.log_end_offset))
    if world.get(("deletes", partition.topic)):
        beyond = broker.generation.deletes_beyond_high_watermark
        end = replica.log.log_end_offset
        offsets.append(end if beyond else min(replica.high_watermark, end))
    for what in ("asked to delete", "remotely deleted"):
        limit = world.get((what, partition))
        if limit is not None and replica.role is Role.LEADER:
            offsets.append(min(limit, replica.high_watermark))
    return max(offsets)


def move(world: World, broker_id: int, partition: TopicPartition, start: int) -> None:
    """Let a log begin at an offset, if it does not begin there or later already."""
    replica = world.known_replica(broker_id, partition)
    if start <= replica.log.log_start_offset:
        return
    broker = world.broker(broker_id)
    assert broker is not None
    high_watermark = replica.high_watermark
    if broker.generation.keeps_high_watermark_in_log:
        high_watermark = max(high_watermark, start)
    world.put_replica(
        broker_id,
        partition,
        replace(
            replica,
            log=replace(replica.log, log_start_offset=start),
            entries=truncate_from_start(replica.entries, start),
            high_watermark=high_watermark,
        ),
    )


def begins_on_disk(world: World, broker_id: int, partition: TopicPartition, start: int) -> bool:
    """Let a log's first segment be the one of that name; return whether that may be by now."""
    if why_not(world, broker_id, partition, start):
        return False
    move(world, broker_id, partition, start)
    replica = world.known_replica(broker_id, partition)
    if any(batch.base_offset < start for batch in replica.log.local_batches()):
        shorter = replace(replica.log, local_start_offset=start)
        world.put_replica(broker_id, partition, replace(replica, log=shorter))
    return True


def forget(world: World, broker_id: int, partition: TopicPartition, *, is_clean: bool) -> None:
    """Note where a log began when its process ends; a killed one may have written that or not."""
    replica = world.known_replica(broker_id, partition)
    log = replica.log
    began = world.get(("began", broker_id, partition))
    if is_clean or log.log_start_offset <= log.local_start_offset or not log.local_batches():
        if began is None or began <= log.log_start_offset or not log.local_batches():
            world.put(("began", broker_id, partition), None)
        # Else nobody has seen where the log begins since it was killed before.
        return
    first = min(batch.base_offset for batch in log.local_batches())
    if first >= log.log_start_offset:
        return
    world.put(("began", broker_id, partition), log.log_start_offset)
    known = replace(log, log_start_offset=max(first, log.local_start_offset))
    world.put_replica(broker_id, partition, replace(replica, log=known))


def asked_to_delete(world: World, request: DeleteRecords) -> None:
    """Note up to where a client wants records to be deleted, and let a leader that works do so."""
    partition = TopicPartition(request.topic, request.partition)
    known = world.get(("asked to delete", partition)) or 0
    world.put(("asked to delete", partition), max(known, request.before_offset))


def observed(world: World, event: LogStartObserved) -> str:
    """Let a running broker's log begin where it was seen to; return why it cannot, or ""."""
    partition = TopicPartition(event.topic, event.partition)
    if world.replica(event.broker, partition) is None or world.running(event.broker) is None:
        return "no running broker has it"
    refused = why_not(world, event.broker, partition, event.log_start_offset)
    if not refused:
        move(world, event.broker, partition, event.log_start_offset)
    return refused
