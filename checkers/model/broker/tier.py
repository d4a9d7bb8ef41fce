"""The remote tier: what is copied to it, what leaves local disks, and who builds on it.

Copies are told by Kafka's own metadata topic, and each must be one that its leader could make then.
When a local segment is deleted nothing tells: the start of what is local is a least value, raised
by what was seen (a leader sends a follower away, a copy of its files begins later). It never goes
beyond what has been copied.

Read from kafka.log.remote.RemoteLogManager (RLMTask, RLMCopyTask, maybeUpdateCopiedOffset,
findHighestRemoteOffset),
kafka.server.ReplicaFetcherTierStateMachine and TierStateMachine, UnifiedLog and
ReplicaManager.handleOffsetOutOfRangeError, 3.6.2 and 3.9.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import log_start
from kchaos.checkers.model.state.state import Read
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import Entries, truncate_from_end, truncate_from_start
from kchaos.checkers.model.values.events import RemoteCopy, Snapshot, TierRead
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import (
    PredictedBatch,
    PredictedRead,
    PredictedRemoteSegment,
    RemoteCopied,
)
from kchaos.checkers.model.values.replica import FetcherThread, Replica, Role
from kchaos.checkers.model.values.requests import RemoteSegment

Remote = tuple[RemoteSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRefused:
    """Why something cannot be seen of the tier now; `is_pending` where it may be later."""

    why: str
    is_pending: bool = False


def remote(world: World, partition: TopicPartition) -> Remote:
    """Return the partition's segments in the remote tier, in the order in which copies began."""
    segments: Remote = world.get(("remote", partition)) or ()
    return segments


def take(world: World, what: RemoteCopy | TierRead | Snapshot) -> TierRefused | None:
    """Take what was seen of the remote tier; return why it cannot be seen so."""
    match what:
        case RemoteCopy():
            return copy(world, what)
        case TierRead():
            refused = note_read(world, what)
            why = "" if refused is None else f"read {what.operation}: {refused.why}"
            return None if refused is None else replace(refused, why=why)
        case Snapshot():
            segments = remote_of(world.get)
            if segments:
                world.notes.append(RemoteCopied(what.label, segments))
            return None


def remote_of(read: Read) -> tuple[PredictedRemoteSegment, ...]:
    """Return every segment in the remote tier, in the order in which copies began."""
    return tuple(
        PredictedRemoteSegment(
            topic=partition.topic,
            partition=partition.partition,
            segment_id=remote_copy.segment_id,
            start_offset=remote_copy.start_offset,
            end_offset=remote_copy.end_offset,
            is_finished=remote_copy.is_finished,
            leader_epochs=tuple(
                (entry.epoch, entry.start_offset) for entry in remote_copy.leader_epochs
            ),
            epochs=tuple((entry.epoch, entry.start_offset) for entry in remote_copy.chain),
            batches=remote_copy.batches,
        )
        for partition in read(("topics",)) or ()
        for remote_copy in read(("remote", partition)) or ()
    )


def copy(world: World, seen: RemoteCopy) -> TierRefused | None:
    """Let a copy begin or end, as the metadata topic tells; return why that cannot be."""
    known = remote(world, seen.partition)
    if seen.is_finished:
        ended = [remote_copy for remote_copy in known if remote_copy.segment_id == seen.segment_id]
        if not ended:
            return TierRefused(why=f"the copy {seen.segment_id} ended, and never began")
        after = tuple(
            replace(remote_copy, is_finished=True) if remote_copy in ended else remote_copy
            for remote_copy in known
        )
        world.put(("remote", seen.partition), after)
        return None
    replica = world.replica(seen.broker, seen.partition)
    refused = _why_not_copied(world, seen, replica, known)
    if refused is not None:
        return replace(
            refused,
            why=f"broker {seen.broker} copied {seen.start_offset} to {seen.end_offset} with leader "
            f"epochs {[*map(list, seen.leader_epochs)]} to the remote tier; {refused.why}",
        )
    if replica is not None:
        begun = RemoteSegment(
            segment_id=seen.segment_id,
            start_offset=seen.start_offset,
            end_offset=seen.end_offset,
            leader_epochs=_epochs_within(replica.entries, seen.start_offset, seen.end_offset),
            chain=truncate_from_end(replica.entries, seen.end_offset + 1),
            batches=_between(replica.log, seen.start_offset, seen.end_offset),
            copied_in=replica.leader_epoch,
        )
        world.put(("remote", seen.partition), (*known, begun))
    return None


def _why_not_copied(
    world: World, seen: RemoteCopy, replica: Replica | None, known: Remote
) -> TierRefused | None:
    broker = world.broker(seen.broker)
    if broker is None or replica is None or replica.role is not Role.LEADER:
        return TierRefused(why=f"broker {seen.broker} does not lead it", is_pending=True)
    if replica.high_watermark <= seen.end_offset:
        return TierRefused(
            why=f"broker {seen.broker}'s high watermark is {replica.high_watermark}",
            is_pending=True,
        )
    if seen.start_offset < replica.log.local_start_offset:
        return TierRefused(why=f"its local log begins at {replica.log.local_start_offset}")
    batches = _between(replica.log, seen.start_offset, seen.end_offset)
    ends = [(batch.base_offset, batch.last_offset) for batch in (*batches[:1], *batches[-1:])]
    if not ends or (ends[0][0], ends[-1][1]) != (seen.start_offset, seen.end_offset):
        return TierRefused(why="its log has no batches that begin and end there")
    # A leader looks once how far the tier is, and then goes on from what it copied itself. So it
    # need not know the copies of a later leader, of which it has not heard.
    ended = finished(known)
    until_its_epoch = tuple(
        segment for segment in ended if segment.copied_in <= replica.leader_epoch
    )
    wanted = {
        max(copied + 1, replica.log.log_start_offset)
        for copied in (
            broker.generation.highest_remote_offset(
                replica.entries, replica.log.log_end_offset, segments
            )
            for segments in (ended, until_its_epoch)
        )
    }
    if not any(seen.start_offset <= offset <= seen.end_offset for offset in wanted):
        said = " or ".join(map(str, sorted(wanted)))
        return TierRefused(why=f"it would copy what has offset {said} next")
    epochs = _epochs_within(replica.entries, seen.start_offset, seen.end_offset)
    if tuple(map(tuple, epochs)) != seen.leader_epochs:
        return TierRefused(why=f"its leader epochs there are {list(map(tuple, epochs))}")
    return None


def finished(known: Remote) -> Remote:
    """Return the segments whose copies have ended."""
    return tuple(remote_copy for remote_copy in known if remote_copy.is_finished)


def _epochs_within(entries: Entries, start_offset: int, end_offset: int) -> Entries:
    return truncate_from_end(truncate_from_start(entries, start_offset), end_offset + 1)


def _between(log: Log, start_offset: int, end_offset: int) -> tuple[PredictedBatch, ...]:
    return tuple(
        batch
        for batch in log.batches
        if start_offset <= batch.base_offset and batch.last_offset <= end_offset
    )


def deletable_until(world: World, partition: TopicPartition, replica: Replica) -> int:
    """Return the offset below which local segments may have been deleted (exclusive)."""
    copied = [remote_copy.end_offset + 1 for remote_copy in finished(remote(world, partition))]
    return min(max(copied, default=0), replica.high_watermark)


def lose_local(world: World, broker_id: int, partition: TopicPartition, start: int) -> bool:
    """Let a replica's local log begin at an offset or later; return whether that may be."""
    replica = world.known_replica(broker_id, partition)
    if start <= replica.log.local_start_offset:
        return True
    if start > deletable_until(world, partition, replica):
        return False
    shorter = replace(replica.log, local_start_offset=start)
    # What memory believes is set anew by each deletion.
    world.put_replica(
        broker_id, partition, replace(replica, log=shorter, believed_local_start=None)
    )
    return True


def local_start(replica: Replica) -> int:
    """Return where a running broker believes its local log to begin, at least."""
    if replica.believed_local_start is not None:
        return replica.believed_local_start
    return replica.log.local_start_offset


def rebuilds(world: World, leader_id: int, partition: TopicPartition) -> Iterator[RemoteSegment]:
    """Yield each remote segment upon which a follower that was sent away may build.

    It is one of the leader's own lineage, and the leader's local log begins right behind it or
    inside it.
    """
    replica = world.replica(leader_id, partition)
    if replica is None:
        return
    start, limit = local_start(replica), deletable_until(world, partition, replica)
    for remote_copy in finished(remote(world, partition)):
        epoch = epoch_at(replica.entries, remote_copy.end_offset)
        is_own = epoch in {entry.epoch for entry in remote_copy.leader_epochs}
        if (
            is_own
            and start <= remote_copy.end_offset + 1
            and remote_copy.start_offset < max(limit, start)
        ):
            yield remote_copy


def cannot_rebuild(
    world: World, broker_id: int, leader_id: int, partition: TopicPartition, offset: int
) -> bool:
    """Return whether a follower asks for what its leader has let go, with nothing to build upon."""
    of_leader = world.replica(leader_id, partition)
    if of_leader is None or offset >= of_leader.log.local_start_offset:
        return False
    return next(rebuilds(world, leader_id, partition), None) is None


def rebuild(
    world: World, broker_id: int, source: int, partition: TopicPartition, segment: RemoteSegment
) -> bool:
    """Let a follower begin anew behind a remote segment; return whether it still follows.

    Its epochs are those of the segment's checkpoint; what lies before is its leader's log, and
    remote: whether anybody finds it there is another question (TierStateMachine
    .buildRemoteLogAuxState).
    """
    thread: FetcherThread | None = world.thread(broker_id, source)
    fetch = thread.fetch(partition) if thread is not None else None
    broker = world.broker(broker_id)
    if thread is None or fetch is None or broker is None:
        return False
    replica = world.known_replica(broker_id, partition)
    of_leader = world.known_replica(leader_of(source), partition)
    next_offset = segment.end_offset + 1
    log = Log(
        batches=of_leader.log.before(next_offset),
        log_start_offset=of_leader.log.log_start_offset,
        log_end_offset=next_offset,
        local_start_offset=next_offset,
    )
    believed, until = None, 0
    if not broker.generation.sets_local_start:
        believed = local_start(replica)
        until = max(
            believed, replica.believed_local_until, deletable_until(world, partition, replica)
        )
    world.put_replica(
        broker_id,
        partition,
        replace(
            replica,
            log=log,
            entries=segment.chain,
            high_watermark=next_offset,
            believed_local_start=believed,
            believed_local_until=until,
        ),
    )
    stands = replace(fetch, fetch_offset=next_offset, unnoted_epoch=-1)
    world.put_thread(broker_id, source, thread.with_fetch(partition, stands))
    return True


def epoch_at(entries: Entries, offset: int) -> int:
    """Return the leader epoch of an offset by a cache, -1 for none."""
    earlier = [entry for entry in entries if entry.start_offset <= offset]
    return earlier[-1].epoch if earlier else -1


def holder(entries: Entries, offset: int, known: Remote) -> RemoteSegment | None:
    """Return the remote segment that a reader of an offset is served from, None for none.

    It is found by the epoch that the reader's leader has for the offset, and by where that epoch
    begins in each segment. Of several that begin at one offset only the last one copied counts,
    also if it has less of the epoch and goes on in another lineage
    (RemoteLogMetadataCache.remoteLogSegmentMetadata, RemoteLogLeaderEpochState
    .handleSegmentWithCopySegmentFinishedState, 3.6.2 to 3.9).
    """
    epoch = epoch_at(entries, offset)
    by_start: dict[int, RemoteSegment] = {}
    highest = -1
    for remote_copy in known:
        starts = [entry.start_offset for entry in remote_copy.leader_epochs if entry.epoch == epoch]
        if not starts:
            continue
        last = _last_offset(remote_copy, epoch)
        # What is copied anew takes the place of what it covers.
        for covered in [start for start in by_start if start >= starts[0] and highest <= last]:
            del by_start[covered]
        by_start[starts[0]] = remote_copy
        highest = max(highest, last)
    below = [start for start in by_start if start <= offset]
    if not below:
        return None
    segment = by_start[max(below)]
    return segment if offset <= _last_offset(segment, epoch) else None


def _last_offset(segment: RemoteSegment, epoch: int) -> int:
    """Return the last offset of an epoch in a segment that has it."""
    later = [entry.start_offset for entry in segment.leader_epochs if entry.epoch > epoch]
    return min(later) - 1 if later else segment.end_offset


def note_read(world: World, event: TierRead) -> TierRefused | None:
    """Note what a reader gets of a broker now, and should get; return why it cannot be so.

    A follower finds what is remote as a leader does, by its own epochs
    (ReplicaManager.handleOffsetOutOfRangeError, RemoteLogManager.read, 3.6.2 and 3.9).
    """
    partition = TopicPartition(event.topic, event.partition)
    replica = world.replica(event.broker, partition)
    if replica is None or replica.role != event.source:
        role = "no replica" if replica is None else replica.role
        return TierRefused(why=f"broker {event.broker} is {role}", is_pending=True)
    if event.end_offset > replica.high_watermark:
        return TierRefused(
            why=f"broker {event.broker}'s high watermark is {replica.high_watermark}",
            is_pending=True,
        )
    refused = log_start.why_not(world, event.broker, partition, event.first_offset)
    if refused:
        return TierRefused(why=refused, is_pending=True)
    log_start.move(world, event.broker, partition, event.first_offset)
    refused = _note_local_start(world, event.broker, partition, event.local_start_offset)
    if refused:
        return TierRefused(why=refused)
    replica = world.known_replica(event.broker, partition)
    known = finished(remote(world, partition))
    span = range(event.first_offset, event.end_offset)
    world.notes.append(
        PredictedRead(
            operation=event.operation,
            broker=event.broker,
            topic=event.topic,
            partition=event.partition,
            lineage=_within(replica.log.batches, span),
            got=tuple(_got(replica, known, span, is_sequence=event.manner == "in sequence")),
        )
    )
    return None


def _note_local_start(world: World, broker_id: int, partition: TopicPartition, start: int) -> str:
    """Note where a broker said that its local log begins; return why it cannot, or "".

    What it believes after a rebuild (`believed_local_start`) is over with the next local segment
    that it deletes itself (UnifiedLog.deleteSegments, 3.6.2).
    """
    replica = world.known_replica(broker_id, partition)
    if start == replica.log.log_start_offset > replica.log.local_start_offset:
        return ""  # Segments below a log start that was moved go later.
    first, last = replica.believed_local_start, replica.believed_local_until
    if first is not None and first <= start <= last:
        believed = replace(replica, believed_local_start=start, believed_local_until=start)
        world.put_replica(broker_id, partition, believed)
        return ""
    has_deleted = first is None or start > replica.log.local_start_offset
    if (
        has_deleted
        and start >= replica.log.local_start_offset
        and lose_local(world, broker_id, partition, start)
    ):
        return ""
    limit = deletable_until(world, partition, replica)
    said = (
        f"its local log began between {replica.log.local_start_offset} and {limit}, not at {start}"
    )
    return said if first is None else f"{said}; it was believed to begin from {first} to {last}"


def _within(batches: Iterable[PredictedBatch], span: range) -> tuple[PredictedBatch, ...]:
    return tuple(
        batch for batch in batches if batch.base_offset in span and batch.last_offset in span
    )


def _got(
    replica: Replica, known: Remote, span: range, *, is_sequence: bool
) -> Iterator[PredictedBatch]:
    """Yield the batches that a reader gets; after an error it goes on at the next offset."""
    offset = span.start
    while offset < span.stop:
        served = [
            remote_copy
            for remote_copy in _served(replica, known, offset)
            if remote_copy.last_offset in span
        ]
        if not served:
            offset += 1
            continue
        taken = served if is_sequence else served[:1]
        yield from taken
        offset = taken[-1].last_offset + 1


def _served(replica: Replica, known: Remote, offset: int) -> tuple[PredictedBatch, ...]:
    if offset >= replica.log.local_start_offset:
        return tuple(batch for batch in replica.log.batches if batch.last_offset >= offset)
    if offset >= local_start(replica):
        return ()  # It is out of range: not here, and not believed to be elsewhere.
    segment = holder(replica.entries, offset, known)
    batches = () if segment is None else segment.batches
    return tuple(batch for batch in batches if batch.last_offset >= offset)
