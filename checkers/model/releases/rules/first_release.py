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
from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kafka_15241 import highest_of_latest_epoch
from kchaos.checkers.model.releases.rules.producer_sequences import refuse_unless_next
from kchaos.checkers.model.values.epoch_cache import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Entries,
    EntriesOnDisk,
    EpochEnd,
    truncate_from_end,
)
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.replica import FetcherState, FetcherThread, FetchState, Replica
from kchaos.checkers.model.values.requests import FetchAnswer, PartitionRequest

# -- the leader epoch cache ---------------------------------------------------------------------


def load_no_entries(entries: Entries) -> Entries:
    """Return no entries: there is no epoch cache."""
    return ()


def recover_every_epoch(leader_epoch: int) -> bool:
    """Put every epoch back, from 0 on (kafka.log.LogSegment.recover, 0.11.0.3)."""
    return leader_epoch >= 0


def keep_no_epoch(entries: Entries, epoch: int, offset: int) -> Entries:
    """Return the entries as they are: there is no epoch cache, or an election is not noted."""
    return entries


def keep_entries(entries: Entries) -> Entries:
    """Return the entries as they are."""
    return entries


def entries_after_truncation(entries: Entries, offset: int, is_shorter: bool) -> Entries:
    """Drop what begins at the new end, if the log was cut at all (kafka.log.Log.truncateTo)."""
    return truncate_from_end(entries, offset) if is_shorter else entries


def file_holds_entries(file_entries: EntriesOnDisk, entries: Entries) -> bool:
    """Tell whether the file is what memory has: every change is written at once."""
    return file_entries == entries


# -- a leader -----------------------------------------------------------------------------------


def see_no_leader_epoch(asked: PartitionRequest) -> bool:
    """No request carries a leader epoch."""
    return False


def refuse_no_epoch(asked_leader_epoch: int, leader_epoch: int) -> str:
    """Answer a follower of every epoch."""
    return ""


def know_no_epoch(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    """Return an undefined end."""
    return UNDEFINED


def tell_no_epoch(version: int) -> bool:
    """No answer names an epoch."""
    return False


def answer_without_divergence(
    end: EpochEnd, asked: PartitionRequest, replica: Replica
) -> FetchAnswer | None:
    """Look for no divergence: whatever a follower says that it has, it gets records."""
    return None


def count_unless_refused(answer: FetchAnswer) -> bool:
    """Take the offset of every fetch without an error for the follower's log end offset."""
    return not answer.error


def advance_after_every_fetch(before: int, now: int) -> bool:
    """Try to move the high watermark, also where the follower is where it was before."""
    return True


def forget_beyond_log(log: Log) -> int:
    """Return -1: a new leader does not know a high watermark that lay beyond its log.

    kafka.cluster.Replica.convertHWToLocalOffsetMetadata, 0.10.2.2 and 1.0.1.
    """
    return -1


def always_advance(isr: tuple[int, ...], min_insync_replicas: int) -> bool:
    """Let the high watermark move however small the ISR is."""
    return True


def as_configured(min_insync_replicas: int, replicas: int) -> int:
    """Return `min.insync.replicas` as it is set, also if there are not so many replicas."""
    return min_insync_replicas


def count_isr(replica: Replica) -> tuple[int, ...]:
    """Return the ISR, as the leader knows it."""
    return replica.isr


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


def skip_known_leader(is_same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    """Skip a LeaderAndIsr that names the same leader, although epochs may have been missed."""
    return is_same_leader


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


def ask_for_no_epoch(last_epoch: int) -> bool:
    """Ask no leader for an epoch's end."""
    return False


def truncate(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate to the high watermark, whatever was answered."""
    return TruncationState(offset=follower.high_watermark, completed=True)


def keep_high_watermark(high_watermark: int, log_end_offset: int) -> int:
    """Leave the high watermark where it is, even beyond the log."""
    return high_watermark


def take_every_answer(asked_leader_epoch: int, leader_epoch: int) -> bool:
    """Take an answer, whatever epoch it was asked for under."""
    return True


def fetch_without_epoch(fetch: FetchState, entries: Entries) -> int:
    """Say no last fetched epoch."""
    return UNDEFINED_EPOCH


def own_high_watermark(replica: Replica, answer: FetchAnswer) -> int:
    """Return the follower's own high watermark: a diverging answer says nothing about it."""
    return replica.high_watermark


def fetch_on(fetch: FetchState, batches: int) -> FetchState:
    """Return the fetch state as it is, whether records came or not."""
    return fetch


def end_thread(thread: FetcherThread, failed: Failed, partition: TopicPartition) -> Stopped:
    """End the whole thread with every partition on it (AbstractFetcherThread.processFetchRequest).

    It stays in the manager's map, where new partitions are still added to it.
    """
    return Stopped(replace(thread, is_dead=True), failed)


def ask_again_when_fenced(
    thread: FetcherThread, failed: Failed, partition: TopicPartition, asked_leader_epoch: int
) -> Stopped:
    """Stop nothing, as at any other error of a leader."""
    return Stopped(thread, failed)


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


def see_no_bounce(seen_czxid: int, czxid: int) -> bool:
    """Take a broker that came back between two looks for one that never left."""
    return False


def take_every_broker_epoch(told: int, own: int) -> str:
    """Obey control requests that were meant for an earlier generation of the broker."""
    return ""


def keep_high_watermark_of_restarted(high_watermark: int, log_start_offset: int) -> int:
    """Keep the high watermark, also below the new log start (KAFKA-9491)."""
    return high_watermark


def stop_whatever_is_told(told: int, own: int) -> bool:
    """Refuse no StopReplica for its leader epoch."""
    return False


def take_every_shutdown(told: int, cached: int) -> bool:
    """Obey a ControlledShutdown that an earlier generation of the broker sent."""
    return False


def refuse_no_topic_id(replica: Replica, told: str) -> bool:
    """Obey a LeaderAndIsr whatever topic of that name is meant."""
    return False


def keep_topic_id(replica: Replica, told: str) -> str:
    """Leave the replica's topic id as it is: nobody writes one."""
    return replica.topic_id


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
        file_may_hold=file_holds_entries,
        sees_leader_epoch=see_no_leader_epoch,
        refuse_epoch=refuse_no_epoch,
        answer_epoch=know_no_epoch,
        tells_epoch=tell_no_epoch,
        answer_diverging=answer_without_divergence,
        counts_fetch=count_unless_refused,
        advances_after_fetch=advance_after_every_fetch,
        high_watermark_beyond_log=forget_beyond_log,
        enough_after_append=count_isr,
        may_advance=always_advance,
        effective_min_isr=as_configured,
        waits_outside_isr=whether_alive_or_not,
        needed_for_isr=high_watermark_is_enough,
        may_join_isr=whether_alive_or_not,
        falls_out_of_isr=fall_out_by_time,
        counts_election_as_fetch=True,
        refuse_sequence=refuse_unless_next,
        moves_high_watermark_with_isr=True,
        high_watermark_of_restarted=keep_high_watermark_of_restarted,
        skips_known_leader=skip_known_leader,
        truncation_at_once=cut_at_high_watermark,
        first_fetch=fetch_from_log_end,
        epoch_request_version=None,
        asks_for_epoch=ask_for_no_epoch,
        truncate=truncate,
        high_watermark_after_truncation=keep_high_watermark,
        takes_epoch_answer=take_every_answer,
        last_fetched_epoch=fetch_without_epoch,
        takes_fetch_answer=take_every_answer,
        high_watermark_at_divergence=own_high_watermark,
        fetch_after_append=fetch_on,
        stop_after_failed_append=end_thread,
        stop_when_fenced=ask_again_when_fenced,
        exits_on_shorter_leader=exit_unless_unclean,
        hangs_at_exit=True,
        highest_remote_offset=highest_of_latest_epoch,
        refuses_topic_id=refuse_no_topic_id,
        takes_topic_id=keep_topic_id,
        isr_without=leave_isr,
        sees_bounce=see_no_bounce,
        error_of_broker_epoch=take_every_broker_epoch,
        refuses_stop=stop_whatever_is_told,
        refuses_shutdown=take_every_shutdown,
        ends_reassignment=end_with_added_in_sync,
        last_known_leader=remember_leader_of_empty_isr,
    )


HIGH_WATERMARK = Rule(
    name="truncation to the high watermark",
    since=("0.10.2.0",),
    until=("0.11.0.0",),
    source="kafka.server.ReplicaManager",
    tag="0.10.2.2",
    meaning=(
        "A replica that becomes a follower of another leader cuts its log at its high watermark "
        "at once, under the LeaderAndIsr."
    ),
    probes=(
        Probe(
            file="ReplicaManager",
            within=r"private def makeFollowers\(",
            present=r"logManager\.truncateTo\(.{0,120}highWatermark",
        ),
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
    source="kafka.cluster.Replica",
    tag="0.10.2.2",
    meaning=(
        "A new leader whose high watermark is not inside its log begins with an unknown one, -1."
    ),
    probes=(
        Probe(
            file="Replica",
            within=r"def convertHWToLocalOffsetMetadata\(",
            absent=r"getOrElse",
        ),
    ),
    followed="elsewhere",
)
"""It is where all begin: `forget_beyond_log`, until KAFKA-3978."""
