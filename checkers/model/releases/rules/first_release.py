"""0.10.2 at every decision point: the generation from which all others are made.

A replica that becomes a follower of another leader cuts its log at its own high watermark, which it
learns one fetch late (KAFKA-1211, KAFKA-3919); leader epochs are neither kept nor sent. Read from
kafka.server.ReplicaManager.makeFollowers, kafka.server.AbstractFetcherThread,
kafka.server.ReplicaFetcherThread and kafka.cluster.Partition, 0.10.2.2.
"""

from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.releases.generation import (
    Failed,
    FollowerLog,
    Generation,
    Stopped,
    TruncationState,
    Versions,
)
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kafka_15241 import highest_of_latest_epoch
from kchaos.checkers.model.releases.rules.producer_sequences import refuse_unless_next
from kchaos.checkers.model.values import epoch_cache
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.replica import FetcherState, FetcherThread, FetchState, Replica
from kchaos.checkers.model.values.requests import FetchAnswer

# -- the leader epoch cache ---------------------------------------------------------------------


def load_no_entries(entries: epoch_cache.Entries) -> epoch_cache.Entries:
    """Return no entries: there is no epoch cache."""
    return ()


def recover_every_epoch(leader_epoch: int) -> bool:
    """Put every epoch back, from 0 on (kafka.log.LogSegment.recover, 0.11.0.3)."""
    return leader_epoch >= 0


def keep_no_epoch(entries: epoch_cache.Entries, epoch: int, offset: int) -> epoch_cache.Entries:
    """Return the entries as they are: there is no epoch cache, or an election is not noted."""
    return entries


def keep_entries(entries: epoch_cache.Entries) -> epoch_cache.Entries:
    """Return the entries as they are."""
    return entries


def entries_after_truncation(
    entries: epoch_cache.Entries, offset: int, is_shorter: bool
) -> epoch_cache.Entries:
    """Drop what begins at the new end, if the log was cut at all (kafka.log.Log.truncateTo)."""
    return epoch_cache.truncate_from_end(entries, offset) if is_shorter else entries


# -- a leader -----------------------------------------------------------------------------------


def forget_beyond_log(log: Log) -> int:
    """Return -1: a new leader does not know a high watermark that lay beyond its log.

    kafka.cluster.Replica.convertHWToLocalOffsetMetadata, 0.10.2.2 and 1.0.1.
    """
    return -1


def whether_alive_or_not(follower: int, live: frozenset[int]) -> bool:
    """Let every follower count and join, alive in the metadata cache or not."""
    return True


def high_watermark_is_enough(replica: Replica) -> int:
    """Return the leader's high watermark (kafka.cluster.Partition.maybeExpandIsr)."""
    return replica.high_watermark


def fall_out_by_time(follower_end_offset: int, leader_end_offset: int) -> bool:
    """Take a follower out for the time alone (kafka.cluster.Partition.getOutOfSyncReplicas)."""
    return True


# -- a follower ---------------------------------------------------------------------------------


def cut_at_high_watermark(replica: Replica) -> int | None:
    """Return the high watermark: a new follower cuts its log there before it fetches."""
    return replica.high_watermark


def fetch_from_log_end(replica: Replica) -> FetchState:
    """Fetch from the log end offset at once."""
    return FetchState(
        fetch_offset=replica.log.log_end_offset,
        state=FetcherState.FETCHING,
        leader_epoch=replica.leader_epoch,
    )


def truncate(answer: epoch_cache.EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate to the high watermark, whatever was answered."""
    return TruncationState(offset=follower.high_watermark, completed=True)


def take_every_answer(asked_leader_epoch: int, leader_epoch: int) -> bool:
    """Take an answer, whatever epoch it was asked for under."""
    return True


def own_high_watermark(replica: Replica, answer: FetchAnswer) -> int:
    """Return the follower's own high watermark: a diverging answer says nothing about it."""
    return replica.high_watermark


def end_thread(thread: FetcherThread, failed: Failed, partition: TopicPartition) -> Stopped:
    """End the whole thread with every partition on it (AbstractFetcherThread.processFetchRequest).

    It stays in the manager's map, where new partitions are still added to it.
    """
    return Stopped(replace(thread, is_dead=True), failed)


def exit_unless_unclean(allows_unclean_election: bool) -> bool:
    """End the broker unless unclean elections are on.

    kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange, 0.10.2.2.
    """
    return not allows_unclean_election


# -- control ------------------------------------------------------------------------------------


def leave_isr(isr: tuple[int, ...], broker: int, is_unclean: bool) -> tuple[int, ...]:
    """Return the ISR without the broker; the last member stays unless elections may be unclean."""
    others = tuple(member for member in isr if member != broker)
    return others if others or is_unclean else isr


def keep_high_watermark_of_restarted(high_watermark: int, log_start_offset: int) -> int:
    """Keep the high watermark, also below the new log start (KAFKA-9491)."""
    return high_watermark


def end_with_added_in_sync(
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
) -> bool:
    """End a reassignment once all replicas that it adds are in sync.

    org.apache.kafka.controller.PartitionChangeBuilder.completeReassignmentIfNeeded, 3.3.1.
    """
    return {*adding} <= {*isr}


def remember_leader_of_empty_isr(
    leader: int, written: int, last_known: tuple[int, ...], isr: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Remember the leader as an ISR becomes empty, and nobody while somebody leads.

    org.apache.kafka.controller.PartitionChangeBuilder.maybeUpdateLastKnownLeader, 4.0.0.
    """
    if isr == () and last_known != (leader,):
        return (leader,)
    leads = written >= 0 or NO_LEADER not in (leader, written)
    return () if leads and last_known else None


def first_generation(name: str, versions: Versions) -> Generation:
    """Return what 0.10.2 does; a yes-or-no field that is not named here is no."""
    return Generation(
        name=name,
        versions=versions,
        loaded_entries=load_no_entries,
        recovers_epoch=recover_every_epoch,
        assign_epoch=keep_no_epoch,
        entries_of_new_leader=keep_no_epoch,
        entries_after_old_batch=keep_entries,
        entries_after_truncation=entries_after_truncation,
        # Tell whether the file is what memory has: every change is written at once.
        file_may_hold=lambda file_entries, entries: file_entries == entries,
        # No request carries a leader epoch.
        sees_leader_epoch=lambda asked: False,
        # Answer a follower of every epoch.
        refuse_epoch=lambda asked_leader_epoch, leader_epoch: "",
        # Return an undefined end.
        answer_epoch=lambda entries, requested_epoch, log_end_offset: epoch_cache.UNDEFINED,
        # No answer names an epoch.
        tells_epoch=lambda version: False,
        # Look for no divergence: whatever a follower says that it has, it gets records.
        answer_diverging=lambda end, asked, replica: None,
        # Take the offset of every fetch without an error for the follower's log end offset.
        counts_fetch=lambda answer: not answer.error,
        # Try to move the high watermark, also where the follower is where it was before.
        advances_after_fetch=lambda before, now: True,
        high_watermark_beyond_log=forget_beyond_log,
        # Return the ISR, as the leader knows it.
        enough_after_append=lambda replica: replica.isr,
        # Let the high watermark move however small the ISR is.
        may_advance=lambda isr, min_insync_replicas: True,
        # Return `min.insync.replicas` as it is set, also if there are not so many replicas.
        effective_min_isr=lambda min_insync_replicas, replicas: min_insync_replicas,
        waits_outside_isr=whether_alive_or_not,
        needed_for_isr=high_watermark_is_enough,
        may_join_isr=whether_alive_or_not,
        falls_out_of_isr=fall_out_by_time,
        counts_election_as_fetch=True,
        refuse_sequence=refuse_unless_next,
        moves_high_watermark_with_isr=True,
        high_watermark_of_restarted=keep_high_watermark_of_restarted,
        # Skip a LeaderAndIsr that names the same leader, although epochs may have been missed.
        skips_known_leader=lambda is_same_leader, known_epoch, new_epoch: is_same_leader,
        truncation_at_once=cut_at_high_watermark,
        first_fetch=fetch_from_log_end,
        epoch_request_version=None,
        # Ask no leader for an epoch's end.
        asks_for_epoch=lambda last_epoch: False,
        truncate=truncate,
        # Leave the high watermark where it is, even beyond the log.
        high_watermark_after_truncation=lambda high_watermark, log_end_offset: high_watermark,
        takes_epoch_answer=take_every_answer,
        # Say no last fetched epoch.
        last_fetched_epoch=lambda fetch, entries: epoch_cache.UNDEFINED_EPOCH,
        takes_fetch_answer=take_every_answer,
        high_watermark_at_divergence=own_high_watermark,
        # Return the fetch state as it is, whether records came or not.
        fetch_after_append=lambda fetch, batches: fetch,
        stop_after_failed_append=end_thread,
        # Stop nothing, as at any other error of a leader.
        stop_when_fenced=lambda thread, failed, partition, asked_leader_epoch: Stopped(
            thread, failed
        ),
        exits_on_shorter_leader=exit_unless_unclean,
        hangs_at_exit=True,
        highest_remote_offset=highest_of_latest_epoch,
        # Obey a LeaderAndIsr whatever topic of that name is meant.
        refuses_topic_id=lambda replica, told: False,
        # Leave the replica's topic id as it is: nobody writes one.
        takes_topic_id=lambda replica, told: replica.topic_id,
        isr_without=leave_isr,
        # Take a broker that came back between two looks for one that never left.
        sees_bounce=lambda seen_czxid, czxid: False,
        # Obey control requests that were meant for an earlier generation of the broker.
        error_of_broker_epoch=lambda told, own: "",
        # Refuse no StopReplica for its leader epoch.
        refuses_stop=lambda told, own: False,
        # Obey a ControlledShutdown that an earlier generation of the broker sent.
        refuses_shutdown=lambda told, cached: False,
        ends_reassignment=end_with_added_in_sync,
        last_known_leader=remember_leader_of_empty_isr,
    )


HIGH_WATERMARK = Rule(
    name="truncation to the high watermark",
    since=("0.10.2.0",),
    until=("0.11.0.0",),
    source="kafka.server.ReplicaManager, 0.10.2.2",
    meaning=(
        "A replica that becomes a follower of another leader cuts its log at its high watermark "
        "at once, under the LeaderAndIsr."
    ),
    change=lambda known: replace(
        known,
        truncation_at_once=cut_at_high_watermark,
        first_fetch=fetch_from_log_end,
        truncate=truncate,
    ),
)

UNKNOWN_HIGH_WATERMARK = Rule(
    name="unknown high watermark of a new leader",
    since=("0.10.2.0",),
    until=("1.0.2", "1.1.0"),
    source="kafka.cluster.Replica, 0.10.2.2",
    meaning=(
        "A new leader whose high watermark is not inside its log begins with an unknown one, -1."
    ),
    followed="elsewhere",
)
"""It is where all begin: `forget_beyond_log`, until KAFKA-3978."""
