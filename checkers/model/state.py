"""The state of the modelled cluster. It changes in place while a timeline is replayed."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from checkers.model.epoch_cache import UNDEFINED, Entries, EpochEnd
from checkers.model.events import (
    CutLink,
    Hold,
    PartitionState,
    Produce,
    StartBroker,
    TopicPartition,
)
from checkers.model.generation import Generation
from checkers.model.log import Log
from checkers.model.prediction import (
    DisallowedDecision,
    EpochRound,
    ImpossibleHighWatermark,
    PredictedBatch,
    PredictedProduce,
    Truncation,
)


class Role(StrEnum):
    """What a replica believes to be."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


class FetcherState(StrEnum):
    """How a partition stands with the fetcher thread that it was given to."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class FollowerView:
    """What a leader knows of one follower.

    Attributes:
        log_end_offset: Offset of its last fetch, -1 before the first.
        is_caught_up: Whether its last fetch reached the leader's end; within
            `replica.lag.time.max.ms` such a follower counts although it is outside the ISR.
        last_leader_end_offset: The leader's log end offset at the fetch before.
        may_join_isr: Whether at any time in this leader epoch it was far enough for the ISR.
        asks_to_join: The same, since it was last taken out of the ISR.
    """

    log_end_offset: int = -1
    is_caught_up: bool = False
    last_leader_end_offset: int = 0
    may_join_isr: bool = False
    asks_to_join: bool = False


@dataclass(slots=True, kw_only=True)
class PendingProduce:
    """A produce with acks=all that waits for the high watermark."""

    operation: str
    base_offset: int
    required_offset: int


@dataclass(slots=True, kw_only=True)
class Replica:
    """One replica on one broker: what is on disk, and what the running process knows.

    Attributes:
        log: On disk.
        entries: The leader epoch cache, on disk.
        checkpointed: The high watermark in `replication-offset-checkpoint` as far as it is known.
        high_watermark: In memory.
        high_watermarks: The values that it had since `checkpointed` was last known, oldest first:
            the checkpoint file holds one of them.
        is_checkpoint_observed: Whether the running broker's checkpoint file was looked into.
        leader: Whom it follows, itself when it leads, None before the first LeaderAndIsr.
        leader_epoch: Of the last LeaderAndIsr, -1 before the first.
        isr: What a leader believes the ISR to be.
        epoch_start_offset: Log end offset at which a leader's epoch began.
    """

    log: Log = field(default_factory=Log)
    entries: Entries = ()
    checkpointed: int = 0
    high_watermark: int = 0
    high_watermarks: list[int] = field(default_factory=lambda: [0])
    is_checkpoint_observed: bool = False
    role: Role = Role.NONE
    leader: int | None = None
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    epoch_start_offset: int = 0
    views: dict[int, FollowerView] = field(default_factory=dict)
    pending: list[PendingProduce] = field(default_factory=list)

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark and remember the value for the checkpoint file."""
        self.high_watermark = offset
        if self.high_watermarks[-1] != offset:
            self.high_watermarks.append(offset)

    def observe_checkpointed(self, offset: int) -> bool:
        """Note what the checkpoint file held; return False if it cannot have held that.

        Of a value that came more than once, the file may have held the first.
        """
        if offset not in self.high_watermarks:
            return False
        self.high_watermarks = self.high_watermarks[self.high_watermarks.index(offset) :]
        self.checkpointed = offset
        self.is_checkpoint_observed = True
        return True

    def forget(self) -> None:
        """Drop what only a running process knows."""
        self.role = Role.NONE
        self.leader = None
        self.leader_epoch = -1
        self.isr = ()
        self.views = {}
        self.pending = []


@dataclass(slots=True, kw_only=True)
class FetchState:
    """One partition on a fetcher thread.

    Attributes:
        fetch_offset: The next offset to fetch; before truncation the initial offset.
        leader_epoch: The epoch under which the partition was added.
    """

    fetch_offset: int
    state: FetcherState
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request says of one partition.

    Attributes:
        leader_epoch: Under which the follower asks; it knows that whatever the request carries.
        carries_leader_epoch: Whether the request's version has a field for it.
        requested_epoch: The follower's last epoch, -1 for none or where the request has no such
            field.
    """

    leader_epoch: int
    carries_leader_epoch: bool
    fetch_offset: int
    requested_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What a leader answers to a Fetch for one partition."""

    error: str = ""
    batches: tuple[PredictedBatch, ...] = ()
    high_watermark: int = -1
    log_start_offset: int = 0
    diverging: EpochEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAnswer:
    """What a leader answers to an OffsetForLeaderEpoch for one partition."""

    error: str = ""
    end: EpochEnd = UNDEFINED


Answer = FetchAnswer | EpochAnswer


@dataclass(slots=True, kw_only=True)
class InFlight:
    """A request that a hold keeps back; the thread that sent it waits.

    Attributes:
        answers: None while the request itself is held.
    """

    api: str
    holds: set[str]
    asked: dict[TopicPartition, Asked]
    answers: dict[TopicPartition, Answer] | None = None


@dataclass(slots=True, kw_only=True)
class FetcherThread:
    """The thread that fetches from one leader (num.replica.fetchers=1).

    Attributes:
        is_dead: An exception ended it; it stays in the map while it has partitions.
    """

    partitions: dict[TopicPartition, FetchState] = field(default_factory=dict)
    is_dead: bool = False
    in_flight: InFlight | None = None


@dataclass(slots=True, kw_only=True)
class Broker:
    """One broker: its process and its disk.

    Attributes:
        has_exited: The process ended itself (KAFKA-7414).
        failed: Partitions that fetch no more (KIP-461).
        delayed_produces: What reached it while it was paused.
    """

    broker: int
    generation: Generation
    configuration: StartBroker
    is_running: bool = True
    is_paused: bool = False
    was_stopped_cleanly: bool = True
    has_exited: bool = False
    replicas: dict[TopicPartition, Replica] = field(default_factory=dict)
    threads: dict[int, FetcherThread] = field(default_factory=dict)
    failed: set[TopicPartition] = field(default_factory=set)
    delayed_produces: list[Produce] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Outbox:
    """LeaderAndIsr requests that the controller has queued for one broker, oldest first."""

    states: deque[PartitionState] = field(default_factory=deque)
    held_by: set[str] = field(default_factory=set)


class Promise(NamedTuple):
    """One batch that was acknowledged with acks=all."""

    partition: TopicPartition
    base_offset: int
    payload: str


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Everything.

    Attributes:
        registered: Broker id to the czxid of its znode.
        seen: The same as the controller last saw it.
        partition_states: What ZooKeeper holds.
        promises: What was acknowledged with acks=all, in that order.
        impossible: Observed high watermarks that no checkpoint file could hold.
    """

    brokers: dict[int, Broker] = field(default_factory=dict)
    assignments: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    registered: dict[int, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    controller: int | None = None
    outboxes: dict[int, Outbox] = field(default_factory=dict)
    cuts: dict[str, CutLink] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    produces: dict[str, PredictedProduce] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    rounds: list[EpochRound] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)
    impossible: list[ImpossibleHighWatermark] = field(default_factory=list)
    disallowed: list[DisallowedDecision] = field(default_factory=list)

    def passes(self, source: int, target: int) -> bool:
        """Tell whether bytes get from one broker to another: both run, and no cut is between."""
        for broker in (self.brokers.get(source), self.brokers.get(target)):
            if broker is None or not broker.is_running or broker.is_paused:
                return False
        return not any(
            (cut.source, cut.target) == (source, target)
            or (not cut.one_way and (cut.target, cut.source) == (source, target))
            for cut in self.cuts.values()
        )
