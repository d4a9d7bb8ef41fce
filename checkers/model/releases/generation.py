"""A generation: what one broker does, as a value, at the points where releases differ.

Each decision point is a pure function. What the first release does is in `rules.first_release`;
every other function stands in the module of the KIP or fix that brought it, under `rules`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kchaos.checkers.acts import Mode, TopicPartition
from kchaos.checkers.model.releases.proposed import AS_RELEASED, Proposed
from kchaos.checkers.model.releases.versions import Version
from kchaos.checkers.model.values.epoch_cache import Entries, EntriesOnDisk, EpochEnd
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.producers import ProducerMark, ProducerState
from kchaos.checkers.model.values.replica import FetcherThread, FetchState, Replica
from kchaos.checkers.model.values.requests import FetchAnswer, PartitionRequest, RemoteSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions that a broker's generation is composed from.

    Attributes:
        release: The binary, as four numbers: 1.1.1 is (1, 1, 1, 0), 0.10.2.2 is (0, 10, 2, 2).
        inter_broker_protocol: Four numbers, the last one the IV: "2.7-IV1" is (2, 7, 0, 1).
        magic: 0, 1 or 2, from the message format.
        mode: Where the cluster keeps its metadata. With KRaft the inter-broker protocol is the
            metadata version.
    """

    release: Version
    inter_broker_protocol: Version
    magic: int
    mode: Mode = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationState:
    """A follower's reaction to an epoch's end: the offset to truncate to, and whether that is all.

    Attributes:
        asks_below: As in `FetchState`, for the round after one that is not completed.
    """

    offset: int
    completed: bool
    asks_below: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLog:
    """The part of a follower's log that its truncation rule looks at.

    Attributes:
        end_of_epoch: The follower's own answer to an epoch, from its own cache.
        log: The follower's own.
        fetch_offset: The fetcher's offset for the partition; at first as `Generation.first_fetch`
            has it, later where a round of truncation left it.
        high_watermark: The replica's present high watermark.
        entries: The follower's own epochs.
        asks_below: As in `FetchState`.
    """

    end_of_epoch: Callable[[int], EpochEnd]
    log: Log
    fetch_offset: int
    high_watermark: int
    entries: Entries = ()
    asks_below: int = -1

    @property
    def log_end_offset(self) -> int:
        """Return the end of the follower's own log, exclusive."""
        return self.log.log_end_offset


Replicas = tuple[int, ...]
"""Ids of brokers."""
Failed = frozenset[TopicPartition]
"""The partitions of a broker that fetch no more."""


class Stopped(NamedTuple):
    """State of a fetcher thread after something stopped, and partitions that fetch no more."""

    thread: FetcherThread
    failed: Failed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generation:
    """Behaviour of one broker, one field a decision point.

    Attributes:
        name: Release, then what differs from that release's own protocol and format.
        versions: What it was composed from.
        rules: Names of the rules that changed it, in the order in which they did.
        proposed: What all releases decide alike, and documents otherwise.

    The leader epoch cache:

    Attributes:
        loaded_entries: (entries on disk) to what a starting broker takes over.
        recovers_epoch: (leader epoch of a batch) to whether recovery after an unclean stop may put
            it back into the cache.
        assign_epoch: (entries, epoch, offset) to the entries with that epoch's start.
        entries_of_new_leader: (entries, leader epoch, log end offset) to the entries with which a
            leader begins.
        entries_after_old_batch: (entries) to the entries after a batch without a leader epoch, in
            magic 0 or 1, was appended.
        entries_after_truncation: (entries, target offset, whether the log became shorter) to the
            entries that are left.
        keeps_epochs_over_moves: Whether a replica that moves between log directories goes on with
            the epochs and the end of the log before, until its process ends.
        file_may_hold: (entries in the file, entries) to whether a running broker's
            leader-epoch-checkpoint may hold the former.

    A leader, towards its followers:

    Attributes:
        sees_leader_epoch: (what is asked) to whether the leader gets to see the leader epoch.
        refuse_epoch: (leader epoch of the request, own leader epoch) to Kafka's error, or "".
        answer_epoch: (entries, requested epoch, log end offset) to where that epoch ends.
        tells_epoch: (version of OffsetForLeaderEpoch) to whether the answer names its epoch.
        answer_diverging: (end of the last fetched epoch, what is asked, replica) to the answer in
            place of records, None where the logs agree.
        counts_fetch: (answer) to whether the fetch tells the follower's log end offset.
        forgets_end_of_refused: Whether a fetch that fails makes that offset unknown.
        advances_after_fetch: (that log end offset before, now) to whether the fetch may move the
            high watermark.
        answers_with_moved_high_watermark: Whether the answer to a fetch that moves the high
            watermark has it as it is then, and not as it was when the log was read.
        counts_before_next_read: Whether a leader counts how far a follower is in one partition of
            a fetch before it reads the next one.

    A leader, its ISR and its high watermark:

    Attributes:
        high_watermark_beyond_log: (log) to where a new leader's high watermark begins that lay
            beyond its log.
        answers_nothing_at_once: Whether a Fetch that finds nothing may be answered at once.
        tells_high_watermark_once: Whether a fetch session leaves a high watermark out that it has
            told before.
        may_refuse_while_told: Whether a Fetch in an epoch that a LeaderAndIsr begins or ends may be
            refused, while that is handled, as if the broker did not lead.
        fails_on_waiting_fetch: Whether a LeaderAndIsr may fail because of a Fetch that has waited
            since before a replica was deleted.
        effective_min_isr: (`min.insync.replicas`, number of replicas) to how many members the ISR
            needs for produces with acks=all.
        enough_after_append: (replica) to the brokers that are counted for whether the ISR is large
            enough, when the high watermark has reached a produce with acks=all.
        may_advance: (ISR, how many it needs) to whether the high watermark may move.
        waits_outside_isr: (follower, brokers in the leader's metadata cache) to whether the high
            watermark waits for a follower that has caught up and is not in the ISR.
        needed_for_isr: (replica) to the log end offset that a follower needs to join the ISR.
        may_join_isr: (follower, brokers in the leader's metadata cache) to whether it may join.
        falls_out_of_isr: (log end offset of a follower that has not fetched for
            `replica.lag.time.max.ms`, the leader's) to whether it is taken out of the ISR.
        counts_election_as_fetch: Whether a leader that goes on in a new epoch takes the election
            for the last fetch of followers outside the ISR, too: who then asks from where the
            leader's log ended has caught up.
        asks_controller_for_isr: Whether a leader lets the controller write its ISR.
        gives_up_failed_isr: Whether a leader goes back to the ISR that it had once the controller
            has failed to write another.
        moves_high_watermark_with_isr: Whether the high watermark moves when a leader learns of
            its ISR.

    A leader, towards producers with ids:

    Attributes:
        remembered_batches: How many batches of a producer a log knows, to tell duplicates.
        refuse_sequence: (what the log knows of the producer, what its batch says) to Kafka's error,
            or "".
        forgets_fenced_producers: Whether a broker that starts forgets a producer of whose epoch its
            log has a marker alone.
        verifies_transactions: Whether the coordinator is asked before a transaction begins in a
            log.

    A log that begins later than it did:

    Attributes:
        deletes_beyond_high_watermark: Whether retention deletes also what is not below the high
            watermark.
        learns_log_start: Whether a Fetch answer tells a follower where its leader's log begins.
        keeps_high_watermark_in_log: Whether a follower's high watermark is never below its log
            start once it was told one, and a leader fails whose high watermark is below it.
        high_watermark_of_restarted: (high watermark, where the log was started anew) to the high
            watermark of a follower whose log was emptied to begin there.
        restarts_empty_log: Whether a follower whose log is empty starts it again at a batch that
            begins below its log start.

    A follower, until it fetches:

    Attributes:
        skips_known_leader: (same leader, known epoch, new epoch) to whether a LeaderAndIsr leaves
            the follower as it is.
        truncation_at_once: (replica) to where a new follower cuts its log before anything else,
            None where it does not.
        first_fetch: (replica) to how the partition begins on the fetcher thread.
        epoch_request_version: Version of OffsetForLeaderEpoch that the follower sends, None if it
            sends none.
        asks_for_epoch: (last epoch, -1 for none) to whether the follower asks where that ends.
        truncate: (answer, follower) to what the follower does with the leader's answer.
        high_watermark_after_truncation: (high watermark, log end offset) to the high watermark.
        takes_epoch_answer: (leader epoch under which it was asked, now) to whether the answer to
            an OffsetForLeaderEpoch counts.

    A follower that fetches:

    Attributes:
        sends_leader_epoch: Whether Fetch has the current leader epoch (version 9 and later).
        sends_topic_id: Whether Fetch names topics by their ids (version 13 and later).
        last_fetched_epoch: (fetch state, entries) to what a Fetch says, -1 for none.
        remembers_fetched_epoch: Whether a fetcher knows the epoch of what it fetched last although
            the epoch cache does not.
        takes_fetch_answer: (leader epoch under which it was asked, now) to whether the answer to a
            Fetch counts.
        drops_newer_epochs: Whether a follower leaves out the first batch of an answer whose leader
            epoch is above its own, with all behind it.
        takes_fetch_answer_before_truncating: Whether it counts for a partition that is yet to
            truncate, too, where that fetches from the same offset. If it has records, nothing is
            truncated then.
        high_watermark_at_divergence: (replica, answer) to the high watermark with which the
            follower truncates after a diverging answer.
        fetch_after_append: (fetch state, number of batches) to the fetch state after the batches of
            an answer, or none, were appended; its offset is set elsewhere.
        stop_after_failed_append: (thread, failed partitions, partition) to what becomes of both
            when an append fails.
        stop_when_fenced: (thread, failed partitions, partition, leader epoch under which it was
            asked) to what becomes of both at a FENCED_LEADER_EPOCH.
        exits_on_shorter_leader: (whether unclean elections are on) to whether a broker ends itself
            when a leader's log is shorter than its own.
        hangs_at_exit: Whether it waits for its own fetcher thread then, and its process never ends.

    A replica of a tiered log (KIP-405):

    Attributes:
        highest_remote_offset: (entries, log end offset, segments whose copies have ended) to the
            last offset that a leader takes to be in the remote tier already, -1 for none.
        counts_failed_copies: Whether a leader counts copies that failed towards `retention.bytes`.
        sets_local_start: Whether a replica that builds on the remote tier knows then where its
            local log begins.

    A controller, and a broker towards it:

    Attributes:
        tells_topic_id: Whether a controller's LeaderAndIsr and UpdateMetadata tell topic ids.
        refuses_topic_id: (replica, the id that a LeaderAndIsr tells, "" for none) to whether the
            broker refuses it for another id.
        takes_topic_id: (replica, the id that a LeaderAndIsr tells) to the id of the replica after
            it, where that was taken.
        loses_refused_replica: Whether a broker takes a replica offline whose first LeaderAndIsr
            it refuses for another topic id.
        reads_metadata_log: Whether brokers read decisions in the metadata log, and no controller
            sends requests.
        ignores_leaders_in_shutdown: Whether a broker that shuts down takes up no state of a
            partition in which another broker leads.
        checks_replica_epoch: Whether a leader takes into the ISR only a follower whose last fetch
            names the broker epoch of its registration, or none.
        refuses_stale_replica: Whether a leader refuses a fetch with an older broker epoch.
        replaces_strays: Whether a broker that starts makes a log for a topic that was made again
            while it was away.
        counts_unregistered: Whether a leader takes a broker without a registration for one that may
            join the ISR.
        isr_without: (ISR, a member that has gone, whether unclean elections are on) to the ISR that
            a controller leaves where it elects nobody.
        elects_all_again: Whether a controller whose election has failed for some partitions elects
            for all of that attempt once more.
        removes_offline_at_start: Whether a new controller takes the replicas of brokers that are
            not registered out of the ISRs before it elects.
        sees_bounce: (czxid of a registration that was seen, now) to whether a controller takes the
            broker for one that came back.
        tells_broker_epoch: Whether a controller's requests name the generation of the broker that
            they are for, and a broker's ControlledShutdown its own.
        error_of_broker_epoch: (broker epoch of a control request, -1 for none; own) to Kafka's
            error, or "".
        tells_epoch_to_stop: Whether a controller's StopReplica names the leader epoch.
        refuses_stop: (leader epoch of a StopReplica, below 0 for none; own) to whether the broker
            refuses to stop fetching.
        refuses_shutdown: (broker epoch of a ControlledShutdown, -1 for none; the one that the
            controller has seen) to whether the controller refuses.

    A KRaft controller:

    Attributes:
        elects_uncleanly_by_setting: Whether unclean.leader.election.enable is looked at.
        ends_reassignment: (replicas that are added, that are removed, that stay or come, members of
            the ISR among these) to whether a reassignment is over.
        counts_written_isr: Whether a new leader epoch begins for who leaves the ISR only if that
            ISR is written.
        cleans_up_at_registration: Whether a process that registers first leaves all ISRs.
        looks_whether_last_known_lives: Whether the last known leader is elected only while its
            broker is active.
        last_known_leader: (leader before; that of the record, -2 for none; who was the last known
            leader; ISR of the record) to who is now, None for no change.
        keeps_eligible_of_assigned: Whether a partition keeps its eligible leader replicas as a
            broker tells in which directory it lies.
    """

    name: str
    versions: Versions
    rules: tuple[str, ...] = ()
    proposed: Proposed = AS_RELEASED

    loaded_entries: Callable[[Entries], Entries]
    recovers_epoch: Callable[[int], bool]
    assign_epoch: Callable[[Entries, int, int], Entries]
    entries_of_new_leader: Callable[[Entries, int, int], Entries]
    entries_after_old_batch: Callable[[Entries], Entries]
    entries_after_truncation: Callable[[Entries, int, bool], Entries]
    keeps_epochs_over_moves: bool = True
    file_may_hold: Callable[[EntriesOnDisk, Entries], bool]

    sees_leader_epoch: Callable[[PartitionRequest], bool]
    refuse_epoch: Callable[[int, int], str]
    answer_epoch: Callable[[Entries, int, int], EpochEnd]
    tells_epoch: Callable[[int], bool]
    answer_diverging: Callable[[EpochEnd, PartitionRequest, Replica], FetchAnswer | None]
    counts_fetch: Callable[[FetchAnswer], bool]
    forgets_end_of_refused: bool = True
    advances_after_fetch: Callable[[int, int], bool]
    answers_with_moved_high_watermark: bool = False
    counts_before_next_read: bool = False

    high_watermark_beyond_log: Callable[[Log], int]
    effective_min_isr: Callable[[int, int], int]
    enough_after_append: Callable[[Replica], tuple[int, ...]]
    may_advance: Callable[[tuple[int, ...], int], bool]
    answers_nothing_at_once: bool = False
    tells_high_watermark_once: bool = False
    may_refuse_while_told: bool = False
    fails_on_waiting_fetch: bool = False
    waits_outside_isr: Callable[[int, frozenset[int]], bool]
    needed_for_isr: Callable[[Replica], int]
    may_join_isr: Callable[[int, frozenset[int]], bool]
    falls_out_of_isr: Callable[[int, int], bool]
    counts_election_as_fetch: bool
    asks_controller_for_isr: bool = False
    gives_up_failed_isr: bool = False
    moves_high_watermark_with_isr: bool

    remembered_batches: int = 1
    refuse_sequence: Callable[[ProducerState, ProducerMark], str]
    forgets_fenced_producers: bool = False
    verifies_transactions: bool = False

    deletes_beyond_high_watermark: bool = True
    learns_log_start: bool = False
    keeps_high_watermark_in_log: bool = False
    high_watermark_of_restarted: Callable[[int, int], int]
    restarts_empty_log: bool = False

    skips_known_leader: Callable[[bool, int, int], bool]
    truncation_at_once: Callable[[Replica], int | None]
    first_fetch: Callable[[Replica], FetchState]
    epoch_request_version: int | None
    asks_for_epoch: Callable[[int], bool]
    truncate: Callable[[EpochEnd, FollowerLog], TruncationState]
    high_watermark_after_truncation: Callable[[int, int], int]
    takes_epoch_answer: Callable[[int, int], bool]

    sends_leader_epoch: bool = False
    sends_topic_id: bool = False
    last_fetched_epoch: Callable[[FetchState, Entries], int]
    remembers_fetched_epoch: bool = False
    takes_fetch_answer: Callable[[int, int], bool]
    drops_newer_epochs: bool = False
    takes_fetch_answer_before_truncating: bool = False
    high_watermark_at_divergence: Callable[[Replica, FetchAnswer], int]
    fetch_after_append: Callable[[FetchState, int], FetchState]
    stop_after_failed_append: Callable[[FetcherThread, Failed, TopicPartition], Stopped]
    stop_when_fenced: Callable[[FetcherThread, Failed, TopicPartition, int], Stopped]
    exits_on_shorter_leader: Callable[[bool], bool]
    hangs_at_exit: bool = False

    highest_remote_offset: Callable[[Entries, int, tuple[RemoteSegment, ...]], int]
    counts_failed_copies: bool = True
    sets_local_start: bool = False

    tells_topic_id: bool = False
    refuses_topic_id: Callable[[Replica, str], bool]
    takes_topic_id: Callable[[Replica, str], str]
    loses_refused_replica: bool = False
    reads_metadata_log: bool = False
    ignores_leaders_in_shutdown: bool = False
    checks_replica_epoch: bool = False
    refuses_stale_replica: bool = False
    replaces_strays: bool = False
    counts_unregistered: bool = False
    isr_without: Callable[[tuple[int, ...], int, bool], tuple[int, ...]]
    elects_all_again: bool = False
    removes_offline_at_start: bool = False
    sees_bounce: Callable[[int, int], bool]
    tells_broker_epoch: bool = False
    error_of_broker_epoch: Callable[[int, int], str]
    tells_epoch_to_stop: bool = False
    refuses_stop: Callable[[int, int], bool]
    refuses_shutdown: Callable[[int, int], bool]

    elects_uncleanly_by_setting: bool = False
    ends_reassignment: Callable[[Replicas, Replicas, Replicas, Replicas], bool]
    counts_written_isr: bool = False
    cleans_up_at_registration: bool = False
    looks_whether_last_known_lives: bool = False
    last_known_leader: Callable[[int, int, Replicas, Replicas | None], Replicas | None]
    keeps_eligible_of_assigned: bool = False
