"""Replicas and fetcher threads: what is on disk, and what a running process knows of it."""

from dataclasses import dataclass
from enum import StrEnum

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.values.epoch_cache import Entries, EpochsOfLog
from kchaos.checkers.model.values.log import EMPTY_LOG, Log
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.requests import Answer, PartitionRequest


class Role(StrEnum):
    """Role that a replica believes to have."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"
    """Its log directory has failed."""


class FetcherState(StrEnum):
    """State of a partition at the fetcher thread that it was given to."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"


class LastFetchedEpoch(StrEnum):
    """A fetcher thread's knowledge of the epoch of the last batch in a follower's log."""

    KNOWN = "known"
    FORGOTTEN_NEXT = "forgotten next"
    """It is known, and the next answer without records makes the thread forget it."""
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerView:
    """A leader's knowledge of one follower.

    Attributes:
        log_end_offset: Offset of its last fetch, -1 before the first.
        is_caught_up: Whether its last fetch reached the leader's end; within
            `replica.lag.time.max.ms` such a follower counts although it is outside the ISR.
        last_leader_end_offset: The leader's log end offset at the fetch before.
        may_join_isr: Whether at any time in this leader epoch it was far enough for the ISR.
        asks_to_join: The same, since it was last taken out of the ISR.
        replica_epoch: The broker epoch of its last fetch, -1 if that named none; None before the
            first.
    """

    log_end_offset: int = -1
    is_caught_up: bool = False
    last_leader_end_offset: int = 0
    may_join_isr: bool = False
    asks_to_join: bool = False
    replica_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedIsr:
    """The ISR that a leader asks its controller for and has no answer about (KIP-497).

    Attributes:
        isr: Ascending.
        is_asked: Whether a request with it was seen to arrive.
    """

    isr: tuple[int, ...]
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedIsr:
    """The ISR that a KRaft controller's answer has, and its partition epoch."""

    isr: tuple[int, ...]
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingProduce:
    """A produce with acks=all that waits for the high watermark."""

    operation: str
    base_offset: int
    required_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica on one broker: what is on disk, and what the running process knows.

    Attributes:
        log: On disk.
        entries: The leader epoch cache, on disk.
        high_watermark: In memory; -1 where the release does not know it (`UNKNOWN` there).
        leader: Whom it follows, itself when it leads, None before the first LeaderAndIsr.
        leader_epoch: Of the last LeaderAndIsr, -1 before the first.
        topic_id: In partition.metadata, and in memory; "" for none.
        partition_epoch: With KRaft, of the last state that it took up; -1 before the first.
        is_hosted: Whether a LeaderAndIsr has named it since the process began: only such replicas
            are in the checkpoint of high watermarks when it is written anew.
        isr: What a leader believes the ISR to be.
        maximal_isr: From KIP-497 on, that and who is asked into it; else the same as `isr`.
        epoch_start_offset: Log end offset at which a leader's epoch began.
        views: (follower, what the leader knows of it), ascending.
        believed_local_start: Where the process believes its local log to begin, at least, where
            that is not where it begins: up to 3.6 after a rebuild from the remote tier
            (KAFKA-15695); and believed_local_until, where at most.
        epochs_before_move: Where the process goes on with the epochs of the log before a move
            between log directories: these; else None.
    """

    log: Log = EMPTY_LOG
    entries: Entries = ()
    high_watermark: int = 0
    role: Role = Role.NONE
    leader: int | None = None
    leader_epoch: int = -1
    topic_id: str = ""
    partition_epoch: int = -1
    is_hosted: bool = False
    isr: tuple[int, ...] = ()
    maximal_isr: tuple[int, ...] = ()
    epoch_start_offset: int = 0
    views: tuple[tuple[int, FollowerView], ...] = ()
    pending: tuple[PendingProduce, ...] = ()
    believed_local_start: int | None = None
    believed_local_until: int = 0
    epochs_before_move: EpochsOfLog | None = None

    @property
    def epochs(self) -> EpochsOfLog:
        """Return the leader epochs with which it asks, answers and truncates."""
        return self.epochs_before_move or EpochsOfLog(self.entries, self.log.log_end_offset)

    def offline(self) -> "Replica":
        """Return it as a running broker has it whose log directory for it has failed."""
        return replace(self, role=Role.OFFLINE, leader=None, isr=(), maximal_isr=(), views=())

    def view(self, follower: int) -> FollowerView | None:
        """Return what the leader knows of a follower, None if it knows none of that id."""
        return next((view for broker, view in self.views if broker == follower), None)

    def views_with(self, follower: int, view: FollowerView) -> tuple[tuple[int, FollowerView], ...]:
        """Return the views with this one in place of the follower's."""
        return tuple(sorted({**dict(self.views), follower: view}.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchState:
    """One partition on a fetcher thread.

    Attributes:
        fetch_offset: The next offset to fetch; before truncation the initial offset.
        leader_epoch: The epoch under which the partition was added.
        last_fetched_epoch: Known in all releases but 3.5.1 to 3.6.2 (`rules.kafka_15510`).
        unnoted_epoch: Of the last fetched batch that has one, where the epoch cache has none or an
            older one, as in an old message format; else -1.
        topic_id: Of the LeaderAndIsr with which the partition was added, "" for none.
        asks_below: The next question is about epochs below this one, -1 for the last one; only
            proposals go on like that without truncating first.
    """

    fetch_offset: int
    state: FetcherState
    leader_epoch: int
    last_fetched_epoch: LastFetchedEpoch = LastFetchedEpoch.KNOWN
    unnoted_epoch: int = -1
    asks_below: int = -1
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """State of a fetcher thread after OFFSET_OUT_OF_RANGE: it asks with ListOffsets.

    Attributes:
        partition: Which one is out of range.
        leader_epoch: Under which the Fetch asked.
        timestamp: What it asks for next, or waits for: the leader's log end, then its start.
        is_asked: Whether that question was sent.
        rest: (partition, what was asked, the answer) of the same Fetch that come after this.
    """

    partition: TopicPartition
    leader_epoch: int
    timestamp: int
    is_asked: bool = False
    rest: tuple[tuple[TopicPartition, PartitionRequest, Answer], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherThread:
    """A thread that fetches from one leader (`values.fetchers`).

    Attributes:
        partitions: (partition, how it stands), ascending.
        is_dead: An exception ended it; it stays in the map while it has partitions.
        session: The partitions of its fetch session (KIP-227); None without one, then the next
            Fetch is full.
        reset: What it is at, if it is not free to fetch.
    """

    partitions: tuple[tuple[TopicPartition, FetchState], ...] = ()
    is_dead: bool = False
    session: frozenset[TopicPartition] | None = None
    reset: OffsetReset | None = None

    def fetch(self, partition: TopicPartition) -> FetchState | None:
        """Return how a partition stands, None if it is not on this thread."""
        return next((fetch for other, fetch in self.partitions if other == partition), None)

    def with_fetch(self, partition: TopicPartition, fetch: FetchState | None) -> "FetcherThread":
        """Return the thread with that state of the partition, or without the partition.

        Without it the thread waits for no answer about it either. Kafka lets nobody take it away
        meanwhile; here a log directory that fails does.
        """
        partitions = {**dict(self.partitions), partition: fetch}
        kept = tuple(sorted((key, value) for key, value in partitions.items() if value is not None))
        is_away = fetch is None and self.reset is not None and self.reset.partition == partition
        return replace(self, partitions=kept, reset=None if is_away else self.reset)
