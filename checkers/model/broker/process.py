"""Start and end of a broker's process: recovery from disk, checkpoints, and what is forgotten."""

from collections.abc import Mapping
from dataclasses import replace

from kchaos.checkers.acts import FailLogDirectory, StartBroker, TopicPartition
from kchaos.checkers.model.broker import follower, leader, log_start
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import Broker, Checkpoint
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import (
    Entries,
    latest_epoch,
    truncate_from_end,
    truncate_from_start,
)
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import ImpossibleHighWatermark
from kchaos.checkers.model.values.producers import loaded_snapshot
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.shared import Shared

_OF_A_PROCESS = (
    "isr change",
    "isr answer",
    "isr wanted",
    "isr unanswered",
    "isr refused",
    "appended",
    "shortened",
)
_NOTHING_KNOWN = Checkpoint()


def start(world: World, configuration: StartBroker, generation: Generation) -> None:
    """Start the process: load logs, epoch caches and high watermarks from disk.

    The log end offset is that of the last batch, whatever it was before; recovery after an unclean
    stop notes epochs again from the batches; the high watermark is what was checkpointed. Read from
    kafka.log.Log (loadSegments), kafka.log.LogSegment.recover and kafka.cluster.Partition
    (getOrCreateReplica), 1.1.1, 2.1.1 and 2.6.3.

    A log directory that has failed is left out, and its logs stay as they are. In a restored one
    logs are recovered: at a clean stop only directories that work are marked as clean
    (LogManager.createAndValidateLogDirs and shutdown, 1.1.1, 2.8.2 and 3.8.0).
    """
    broker_id = configuration.broker
    before = world.broker(broker_id)
    broker = Broker(
        generation=generation,
        configuration=configuration,
        was_stopped_cleanly=before is None or before.was_stopped_cleanly,
        # A run may write down that a broker was started once it is ready.
        epoch=world.registered().get(broker_id, -1),
    )
    world.put_broker(broker_id, broker)
    for topic in {partition.topic for partition in world.partitions(broker_id)}:
        world.put(("adopted", broker_id, topic), None)
    failed = in_failed_directories(world, broker_id)
    restored: frozenset[TopicPartition] = world.get(("restored", broker_id)) or frozenset()
    world.put(("restored", broker_id), None)
    for partition in world.partitions(broker_id):
        if partition in failed:
            continue
        replica = world.known_replica(broker_id, partition)
        own = world.generation(broker, partition)
        log = _loaded(replica.log, forgets_fenced=_forgets_fenced(world, before, broker, partition))
        entries = own.loaded_entries(replica.entries)
        if not broker.was_stopped_cleanly or partition in restored:
            entries = _recovered(own, entries, replica.log)
        entries = truncate_from_end(entries, log.log_end_offset)
        entries = truncate_from_start(entries, log.log_start_offset)
        # Until the first checkpoint the file still holds what was read from it.
        known = world.checkpoint(broker_id, partition).known
        world.put(
            ("checkpoint", broker_id, partition), Checkpoint(known=known, possible=Shared((known,)))
        )
        high_watermark = min(known, log.log_end_offset)
        if own.keeps_high_watermark_in_log:
            high_watermark = max(high_watermark, log.log_start_offset)
        world.put_replica(
            broker_id,
            partition,
            replace(replica, log=log, entries=entries, high_watermark=high_watermark),
        )


def stop(
    world: World,
    broker_id: int,
    *,
    is_clean: bool,
    checkpointed: Mapping[TopicPartition, int] | None = None,
) -> None:
    """End the process. What is on disk stays; the page cache outlives SIGKILL.

    What it had sent and nobody has read yet is lost with its connections, and so is what was on its
    way to it. What a leader had read already is still handled.

    Args:
        world: The transition.
        broker_id: Whose process ends.
        is_clean: Whether it had time to write its high watermarks.
        checkpointed: What the checkpoint file held afterwards, if it was read: it says which of
            the possible values it was, and one that is not possible is noted.
    """
    broker = world.broker(broker_id)
    assert broker is not None
    failed = in_failed_directories(world, broker_id)
    for partition in world.partitions(broker_id):
        replica = world.known_replica(broker_id, partition)
        # Nothing is written any more where a log directory has failed.
        is_offline = replica.role is Role.OFFLINE or partition in failed
        is_written = is_clean and broker.is_running and not is_offline
        left = _last_checkpoint(
            world, broker_id, partition, is_clean=is_clean, is_written=is_written, seen=checkpointed
        )
        world.put(("checkpoint", broker_id, partition), left)
        for component in _OF_A_PROCESS:
            world.put((component, broker_id, partition), None)
        _forget(world, broker_id, partition, replica)
        log_start.forget(world, broker_id, partition, is_clean=is_written)
    world.put_broker(
        broker_id,
        replace(
            broker,
            was_stopped_cleanly=is_clean if broker.is_running else broker.was_stopped_cleanly,
            is_running=False,
            is_paused=False,
            failed=frozenset(),
            live=frozenset(),
            epochs=frozenset(),
            controller_epoch=0,
            epoch=-1,
            checkpoints=False,
        ),
    )
    world.put(("new epoch", broker_id), None)
    world.put(("failing", broker_id), None)
    world.put(("delayed", broker_id), None)
    world.put(("control", broker_id), None)
    _end_connections(world, broker_id)


def _last_checkpoint(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    *,
    is_clean: bool,
    is_written: bool,
    seen: Mapping[TopicPartition, int] | None,
) -> Checkpoint:
    """Return what a process leaves of a partition in its checkpoint of high watermarks.

    Args:
        world: The transition; a value in the file that was not possible is noted there.
        broker_id: Whose process ends.
        partition: Any that it has.
        is_clean: Whether it stops in order.
        is_written: Whether it does, and can write where this partition is.
        seen: What the file held afterwards, if it was read.
    """
    broker = world.broker(broker_id)
    replica = world.known_replica(broker_id, partition)
    checkpoint = world.checkpoint(broker_id, partition)
    assert broker is not None
    known, is_known = checkpoint.known, is_written
    if is_known and replica.is_hosted:
        known = replica.high_watermark
    kept = set()
    if is_known and not replica.is_hosted and broker.checkpoints:
        has_line = writes_file_of(world, broker_id, partition)
        kept = {known} if has_line is None else set()
        known = known if has_line is False else 0
    if seen is not None:
        allowed = {known} | kept if is_known else set(checkpoint.possible)
        known, is_known = seen.get(partition, 0), True
        if known not in allowed:
            _note_impossible(world, broker_id, partition, known, allowed)
    possible = Shared((known,)) if is_known or is_clean else checkpoint.possible
    return Checkpoint(known=known, possible=possible)


def _forget(world: World, broker_id: int, partition: TopicPartition, replica: Replica) -> None:
    """Drop what only a running process knows."""
    # What memory held last is not what the next process begins with, and is not checkpointed.
    world.put(
        ("replica", broker_id, partition),
        replace(
            replica,
            role=Role.NONE,
            leader=None,
            leader_epoch=-1,
            partition_epoch=-1,
            is_hosted=False,
            isr=(),
            maximal_isr=(),
            views=(),
            pending=(),
            epochs_before_move=None,
        ),
    )


def _note_impossible(
    world: World, broker_id: int, partition: TopicPartition, high_watermark: int, allowed: set[int]
) -> None:
    world.notes.append(
        ImpossibleHighWatermark(
            index=-1,
            broker=broker_id,
            topic=partition.topic,
            partition=partition.partition,
            high_watermark=high_watermark,
            allowed=tuple(sorted(allowed)),
        )
    )


def _loaded(log: Log, *, forgets_fenced: bool) -> Log:
    """Return a log as a process finds it that begins."""
    log = log.reload()
    producers = loaded_snapshot(
        log.batches, log.producers, log.log_end_offset, forgets_fenced=forgets_fenced
    )
    return replace(log, producers=producers)


def _forgets_fenced(
    world: World, before: Broker | None, broker: Broker, partition: TopicPartition
) -> bool:
    """Return whether a snapshot's reader omits fenced producers, or its writer gave no time."""
    wrote = before if broker.was_stopped_cleanly and before is not None else broker
    return any(
        world.generation(each, partition).forgets_fenced_producers for each in (wrote, broker)
    )


def _recovered(generation: Generation, entries: Entries, log: Log) -> Entries:
    for batch in log.local_batches():
        is_newer = batch.magic >= 2 and batch.leader_epoch > latest_epoch(entries)
        if is_newer and generation.recovers_epoch(batch.leader_epoch):
            entries = generation.assign_epoch(entries, batch.leader_epoch, batch.base_offset)
    return entries


def makes_no_log(world: World, broker_id: int, partition: TopicPartition, *, is_new: bool) -> bool:
    """Return whether a broker cannot have a log that it needs, since a log directory has failed.

    The log lies in a directory that had failed when the process began, or there is none and the
    broker knows of a failed directory: it makes none for a replica that is not new, and takes the
    replica offline with the first LeaderAndIsr (LogManager.getOrCreateLog and the end of
    ReplicaManager.becomeLeaderOrFollower, 1.1.1, 2.8.2 and 3.8.0).

    `is_new` is the request's flag: set for a broker alive at the topic's creation, and never later.
    """
    failing: tuple[FailLogDirectory, ...] = world.get(("failing", broker_id)) or ()
    if world.replica(broker_id, partition) is None:
        failed: tuple[FailLogDirectory, ...] = world.get(("failed", broker_id)) or ()
        return not is_new and any(event not in failing for event in failed)
    noticed_later = {TopicPartition(*each) for event in failing for each in event.partitions}
    return partition in in_failed_directories(world, broker_id) - noticed_later


def in_failed_directories(world: World, broker_id: int) -> frozenset[TopicPartition]:
    """Return the partitions whose replica lies in a log directory that has failed."""
    failed: tuple[FailLogDirectory, ...] = world.get(("failed", broker_id)) or ()
    return frozenset(TopicPartition(*each) for event in failed for each in event.partitions)


def writes_file_of(world: World, broker_id: int, partition: TopicPartition) -> bool | None:
    """Return whether a checkpoint writes the file that names this replica; None: maybe.

    Each log directory has a file of its own, which is written only if a hosted replica lies there
    (ReplicaManager.checkpointHighWatermarks, 1.1.1 and 2.8.2). Where a replica lies that came
    later than the process, nobody knows.
    """
    if partition in in_failed_directories(world, broker_id):
        return False
    broker = world.broker(broker_id)
    assert broker is not None
    places = {
        TopicPartition(topic, number): directory
        for topic, number, directory in broker.configuration.placed
    }
    known = set(world.partitions(broker_id))
    hosted = {other for other in known if world.known_replica(broker_id, other).is_hosted}
    if partition not in places:
        # Without one it is written for an internal topic alone, of which nobody knows.
        return True if hosted else None
    own = {other for other, directory in places.items() if directory == places[partition]}
    if own & hosted:
        return True
    return None if own - known or hosted - places.keys() else False


def write_checkpoint(world: World, broker_id: int, *, certain: bool = True) -> bool:
    """Write the high watermarks of hosted replicas alone; return whether another's was dropped.

    What no LeaderAndIsr has named since the process began is not in the new file, and begins at 0
    when it is named (KAFKA-7235; ReplicaManager.checkpointHighWatermarks and
    Partition.getOrCreateReplica, 2.1.1; the same in all releases).

    With `certain`, only files that are certainly written are; see `writes_file_of`.
    """
    broker = world.broker(broker_id)
    assert broker is not None
    dropped = False
    for partition in world.partitions(broker_id) if broker.checkpoints else ():
        replica = world.known_replica(broker_id, partition)
        if replica.is_hosted or world.checkpoint(broker_id, partition) == _NOTHING_KNOWN:
            continue
        is_written = writes_file_of(world, broker_id, partition)
        if is_written is False or (is_written is None and certain):
            continue
        dropped = True
        world.put_replica(broker_id, partition, replace(replica, high_watermark=0))
        world.put(("checkpoint", broker_id, partition), _NOTHING_KNOWN)
    return dropped


def fail_log_directory(world: World, event: FailLogDirectory) -> None:
    """Take the replicas of a log directory offline (KIP-112).

    Their fetchers leave, nobody is answered about them but by KAFKA_STORAGE_ERROR, and their high
    watermarks are written no more (ReplicaManager.handleLogDirFailure, 1.1.1, 2.8.2 and 3.8.0). A
    thread without partitions goes on until the next LeaderAndIsr.
    """
    for partition in (TopicPartition(*each) for each in event.partitions):
        if world.replica(event.broker, partition) is None:
            continue
        follower.leave_fetchers(world, event.broker, partition)
        leader.fail_produces(world, event.broker, partition, leader.STORAGE_ERROR)
        for component in _OF_A_PROCESS:
            world.put((component, event.broker, partition), None)
        replica = world.known_replica(event.broker, partition)
        world.put_replica(event.broker, partition, replica.offline())


def _end_connections(world: World, gone: int) -> None:
    for source in world.leaders(gone):
        world.put_thread(gone, source, None)
    for other in world.broker_ids():
        # What the links were seen to have in their hands they were also seen to deliver, or not.
        for source in world.sources(other, gone):
            left = [
                exchange
                for exchange in world.exchanges(other, source)
                if exchange.is_at_links or exchange.is_unread
            ]
            world.put_exchanges(other, source, tuple(left))
        for source in world.sources(gone, other):
            sent = world.exchanges(gone, source)
            world.put_exchanges(
                gone,
                source,
                tuple(
                    replace(exchange, is_awaited=False)
                    for exchange in sent
                    if exchange.is_at_leader or exchange.is_at_links
                ),
            )
