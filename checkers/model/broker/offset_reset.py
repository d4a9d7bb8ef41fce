"""A follower out of its leader's range asks where the leader's log ends, and where it begins.

The thread does so in the middle of handling a Fetch's answer, with its map of partitions locked.
What comes later in that answer waits; so does a request that takes partitions from fetchers: it
needs every thread's map (AbstractFetcherManager.removeFetcherForPartitions). Any error, a time-out
or a lost connection ends it: the partition is delayed by `replica.fetch.backoff.ms`, and fetched
from the same offset again. A fetch session outlives that.

Read from kafka.server.AbstractFetcherThread.processFetchRequest, handleOutOfRangeError and
fetchOffsetAndTruncate, kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange and
earliestOrLatestOffset, and RemoteLeaderEndPoint.fetchOffset, 0.10.2.2, 1.1.1, 2.0.1, 2.3.1, 2.8.2
and 3.6.2.
"""

from dataclasses import replace

from kchaos.checkers.model.broker import follower as following
from kchaos.checkers.model.broker import process
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values import requests
from kchaos.checkers.model.values.replica import (
    FetcherState,
    FetcherThread,
    LastFetchedEpoch,
    OffsetReset,
)

_LOCKED = "nobody takes a partition from a thread that resets its offset"


def asks(
    world: World, broker_id: int, thread: FetcherThread, reset: OffsetReset
) -> requests.PartitionRequest:
    """Return what the thread asks of its partition; ListOffsets has the epoch from version 4 on.

    The inter-broker protocol that brings that version is the one that brings it to
    OffsetForLeaderEpoch, 2.1-IV1 (ReplicaFetcherThread.listOffsetRequestVersion, 2.1.1).
    """
    broker = world.broker(broker_id)
    fetch = thread.fetch(reset.partition)
    assert broker is not None
    assert fetch is not None, _LOCKED
    return requests.PartitionRequest(
        leader_epoch=fetch.leader_epoch,
        carries_leader_epoch=(broker.generation.epoch_request_version or 0) >= 2,
        fetch_offset=fetch.fetch_offset,
        requested_epoch=-1,
        timestamp=reset.timestamp,
    )


def may_handle(world: World, broker_id: int, request: requests.ControlRequest) -> bool:
    """Return whether a broker can handle a request now, and need not wait for a fetcher's map."""
    if isinstance(request, requests.UpdateMetadata):
        return True
    threads = (world.thread(broker_id, leader) for leader in world.leaders(broker_id))
    return all(thread is None or thread.reset is None for thread in threads)


def give_up(world: World, broker_id: int, leader: int) -> None:
    """Let the thread go on without an answer: it fetches from where it did."""
    thread = world.thread(broker_id, leader)
    assert thread is not None
    world.put_thread(broker_id, leader, replace(thread, reset=None))


def handle_answer(world: World, broker_id: int, leader: int, answer: requests.Answer) -> bool:
    """Handle an answered ListOffsets; return whether log, offset or thread changed.

    After the leader's log end the thread asks for the start, unless that end is below its own.
    """
    thread = world.thread(broker_id, leader)
    assert thread is not None
    reset = thread.reset
    assert reset is not None
    if answer.error or not isinstance(answer, requests.OffsetAnswer):
        give_up(world, broker_id, leader)
        if answer.error == "FENCED_LEADER_EPOCH":
            partition, epoch = reset.partition, reset.leader_epoch
            return following.fenced(world, broker_id, leader, partition, epoch)
        return False
    replica = world.known_replica(broker_id, reset.partition)
    own_end = replica.log.log_end_offset
    if reset.timestamp == requests.EARLIEST:
        if answer.offset > own_end:
            following.start_anew(world, broker_id, reset.partition, answer.offset)
        return _fetch_from(world, broker_id, leader, thread, reset, max(answer.offset, own_end))
    if answer.offset >= own_end:
        asking = replace(reset, timestamp=requests.EARLIEST, is_asked=False)
        world.put_thread(broker_id, leader, replace(thread, reset=asking))
        return False
    if _exits(world, broker_id, reset):
        return True
    following.truncate(world, broker_id, reset.partition, answer.offset)
    _fetch_from(world, broker_id, leader, thread, reset, answer.offset)
    return True


def _exits(world: World, broker_id: int, reset: OffsetReset) -> bool:
    """Let a broker that has more than its leader end itself, where its release does.

    An end that hangs closes the broker's sockets, and waits for the thread that called it: nothing
    is written any more, and the process lives on.
    """
    broker = world.broker(broker_id)
    assert broker is not None
    allows_unclean = world.allows_unclean_election(reset.partition.topic, [broker])
    if not broker.generation.exits_on_shorter_leader(allows_unclean):
        return False
    hangs = broker.generation.hangs_at_exit
    process.stop(world, broker_id, is_clean=not hangs)
    ended = world.broker(broker_id)
    assert ended is not None
    world.put_broker(broker_id, replace(ended, has_exited=True, hangs=hangs))
    return True


def _fetch_from(
    world: World,
    broker_id: int,
    leader: int,
    thread: FetcherThread,
    reset: OffsetReset,
    offset: int,
) -> bool:
    """Let the thread fetch from an offset; return whether that is another one than before."""
    fetch = thread.fetch(reset.partition)
    assert fetch is not None, _LOCKED
    stands = replace(
        fetch,
        fetch_offset=offset,
        state=FetcherState.FETCHING,
        last_fetched_epoch=LastFetchedEpoch.KNOWN,
        unnoted_epoch=-1,
    )
    free = replace(thread, reset=None)
    world.put_thread(broker_id, leader, free.with_fetch(reset.partition, stands))
    return fetch.fetch_offset != offset
