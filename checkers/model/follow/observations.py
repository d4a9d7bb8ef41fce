"""Observations of a run, in the model's words: messages at links, answers to clients, files.

Observations choose from what is possible; none of them is fed into the prediction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TypeGuard

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.controller.knowledge import RecordedDecisions
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.fetchers import source_of
from kchaos.checkers.model.values.requests import StopReplica

Number = tuple[int, int]
"""Which request at the links: its connection, and its correlation id there."""


NOT_LEADING = (
    "NOT_LEADER_FOR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
)
"""Errors of a broker that does not lead, or has not heard so: nothing was appended.

With acks=all it may have been, and the broker stopped leading before the high watermark covered it
(kafka.cluster.Partition.checkEnoughReplicasReachOffset, 1.1.1 and 2.8.2).
"""


class Fate(StrEnum):
    """Fate of a message at a link."""

    WAITS = "waits"
    """A cut or a hold keeps it: its sender has sent it."""
    ARRIVES = "arrives"
    ABANDONED = "abandoned"
    """It reached nobody."""
    REPLACED = "replaced"
    """A link had it and put an answer of its own in its place, which comes next."""
    FORGED = "forged"
    """An answer arrives that the leader did not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAsked:
    """One partition of a Fetch request; None where the version has no such field.

    Attributes:
        topic_id: By which it names the topic, from version 13 on; "" before.
    """

    fetch_offset: int
    leader_epoch: int | None
    last_fetched_epoch: int | None
    log_start_offset: int | None = None
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAsked:
    """One partition of an OffsetForLeaderEpoch request."""

    requested_epoch: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAsked:
    """One partition of a ListOffsets request; `leader_epoch` None before version 4."""

    timestamp: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """One partition of a Fetch response.

    Attributes:
        last_offset: Of the last batch, inclusive; None without batches.
        first_leader_epoch: Of the first batch; None without batches, or where it was not read.
        diverging: (epoch, end offset), or None.
        log_start_offset: Where the leader's log begins; None where the answer does not say.
        rest: Of the batches that a link read while the rest of a large answer passed: first offset,
            last offset, inclusive, and leader epoch.
    """

    error_code: int
    high_watermark: int
    base_offset: int | None
    last_offset: int | None
    first_leader_epoch: int | None = None
    last_leader_epoch: int | None = None
    diverging: tuple[int, int] | None = None
    log_start_offset: int | None = None
    rest: tuple[tuple[int, int, int | None], ...] = ()

    @property
    def has_news(self) -> bool:
        """Whether no leader waits with it: it has records, a diverging epoch or an error."""
        return self.last_offset is not None or self.diverging is not None or self.error_code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAnswered:
    """One partition of an OffsetForLeaderEpoch response; `leader_epoch` None in version 0."""

    error_code: int
    leader_epoch: int | None
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswered:
    """One partition of a ListOffsets response; `offset` None where there is none."""

    error_code: int
    offset: int | None


PartitionAsked = FetchAsked | EpochAsked | OffsetAsked
PartitionAnswered = FetchAnswered | EpochAnswered | OffsetAnswered


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSeen:
    """A request of a fetcher thread at a link.

    Attributes:
        is_full: Whether a Fetch names every partition that it is about (no fetch session).
        forgotten: Partitions that leave the fetch session.
        version: Of the request, None where that was not seen.
        fetcher: Number of the follower's thread for that leader.
        replica_epoch: The broker epoch of the follower, -1 if the request does not say.
    """

    number: Number
    fate: Fate
    api: str
    follower: int
    leader: int
    partitions: Mapping[TopicPartition, PartitionAsked]
    is_full: bool = True
    forgotten: frozenset[TopicPartition] = frozenset()
    version: int | None = None
    fetcher: int = 0
    replica_epoch: int = -1

    @property
    def source(self) -> int:
        """The source of the thread that asks (`values.fetchers`)."""
        return source_of(self.leader, self.fetcher)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSeen:
    """The answer to a `RequestSeen` at a link.

    Attributes:
        error_code: Of the answer as a whole: the leader did not look at its log.
        answers_others: Whether it has records, a diverging epoch or an error of an internal topic
            too, with which no leader waits; `partitions` leaves those out.
        carries_others: Whether it has records of those, which may leave no room for others.
        has_room: Whether it has so few records that none was left out for want of room.
        fetcher: As in `RequestSeen`.
        is_whole: Whether all of it was read; of a large answer links read the beginning.
    """

    number: Number
    fate: Fate
    api: str
    follower: int
    leader: int
    partitions: Mapping[TopicPartition, PartitionAnswered]
    error_code: int = 0
    answers_others: bool = False
    carries_others: bool = False
    has_room: bool = False
    fetcher: int = 0
    is_whole: bool = True

    @property
    def source(self) -> int:
        """As in `RequestSeen`."""
        return source_of(self.leader, self.fetcher)


METADATA_LOG = "MetadataLog"
"""Stands for the API of what a broker reads in the metadata log of a KRaft cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSent:
    """A control request that reached a broker, or a delta of the metadata log (`METADATA_LOG`).

    Attributes:
        broker_epoch: The generation of the broker that it is meant for; -1 if it does not say.
        states: Of a LeaderAndIsr.
        left_out: Of those, the partitions of which the broker is none of the replicas named.
        new: Of a LeaderAndIsr, the partitions whose replica is a new one.
        live: Of an UpdateMetadata, as far as it was read.
        registered: Of a delta of the metadata log, the brokers with a registration, fenced or not.
        epochs: (broker, broker epoch) of those that are not fenced.
        told: Of an UpdateMetadata, the partitions that it tells of.
        deleted: Of those, the ones whose topic is being deleted.
        topic_ids: Of a LeaderAndIsr and an UpdateMetadata, the topics whose id it tells.
        stopped: Of a StopReplica, one value for each partition.
        replicas: Of a delta of the metadata log, who holds each partition of `states`.
    """

    number: Number
    api: str
    controller: int
    controller_epoch: int
    broker: int
    broker_epoch: int = -1
    states: tuple[events.PartitionState, ...] = ()
    left_out: frozenset[TopicPartition] = frozenset()
    new: frozenset[TopicPartition] = frozenset()
    live: frozenset[int] | None = None
    registered: frozenset[int] = frozenset()
    epochs: frozenset[tuple[int, int]] = frozenset()
    told: frozenset[TopicPartition] = frozenset()
    deleted: frozenset[TopicPartition] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    stopped: tuple[StopReplica, ...] = ()
    replicas: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAnswered:
    """A broker's answer to a control request, as it left the broker.

    With KRaft it is a heartbeat that shows that the broker has published a delta.

    Attributes:
        is_alone: Whether that shows that the next delta was not published with it.
    """

    number: Number
    api: str
    broker: int
    error_code: int
    errors: Mapping[TopicPartition, int]
    is_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrWanted:
    """The ISR that a leader asks for, and the leader epoch in which it made up its mind."""

    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAsked:
    """A leader asks the controller to change ISRs (AlterPartition)."""

    leader: int
    isrs: Mapping[TopicPartition, IsrWanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAnswered:
    """The controller's answer reached the leader.

    Attributes:
        isrs: Those of the partitions without an error.
        versions: The partition epochs that these have now.
        refused: Partitions of which the controller says that nothing was changed and that the
            leader knows the present state (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED).
        failed: Partitions with an error after which the leader tries to ask again.
    """

    leader: int
    isrs: Mapping[TopicPartition, tuple[int, ...]]
    versions: Mapping[TopicPartition, int] = field(default_factory=dict)
    refused: frozenset[TopicPartition] = frozenset()
    failed: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswered:
    """A client's produce has ended.

    Attributes:
        outcome: "ok", "fail" (it had no effect) or "info" (nobody knows).
        base_offset: As the answer names it, else -1.
        error: Kafka's name of the error, or "" where no answer came.
    """

    operation: str
    outcome: str
    base_offset: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Content of one replica's files in a snapshot.

    Attributes:
        batches: (base offset, last offset, leader epoch, magic) of each batch.
        epoch_entries: Of leader-epoch-checkpoint; None where there is none that can be read.
        local_start: Where the first segment begins; None where there is none.
        topic_id: In partition.metadata; "" where there is none.
        payloads: Digest of each batch's records; None where they were not decoded.
    """

    batches: tuple[tuple[int, int, int, int], ...]
    epoch_entries: tuple[tuple[int, int], ...] | None
    local_start: int | None = None
    topic_id: str = ""
    payloads: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBegun:
    """From now on one broker's files were copied; at one moment they were what was copied."""

    label: str
    broker: int
    files: tuple[tuple[TopicPartition, Files], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEnded:
    """One broker's files have been copied."""

    label: str
    broker: int


Observation = (
    RequestSeen
    | ResponseSeen
    | ControlSent
    | ControlAnswered
    | IsrAsked
    | IsrAnswered
    | ClientAnswered
    | CopyBegun
    | CopyEnded
    | events.RemoteCopy
    | events.ReplicaMoved
)


def is_action(what: object) -> TypeGuard[events.Action]:
    """Return whether an item is an action, not an observation."""
    return not isinstance(what, Observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One item of a run's record, in the order of the process that played it.

    Attributes:
        time: Seconds since the epoch, of the clock that all processes of the run share.
        zxid: The last transaction before it, of an action; it follows all up to that.
        number: Index in the record, for findings.
        source: Where it was read, such as "links.jsonl:12".
    """

    what: events.Action | Observation
    time: float
    zxid: int = -1
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that was seen of a run: two orders, and times that say how they may interleave.

    Attributes:
        deleting: Topics of which brokers may delete what is old or too much.
        remote_deleted: By partition the offset below which its leader's log may begin since remote
            segments were deleted (exclusive).
        is_compacted: Whether brokers compact a topic that has no cleanup.policy of its own.
        lag_s: The shortest replica.lag.time.max.ms of the brokers, in seconds.
        fetch_timeout_s: The shortest time after which a follower gives up a request, in seconds.
        behind: Of produces that a client sent without waiting, those of the request before on the
            same connection.
        decisions: All decisions, internal topics included, with what bears on their writers; None
            where that is not known.
    """

    seen: tuple[Seen, ...]
    decided: tuple[events.Decided, ...]
    deleting: frozenset[str] = frozenset()
    remote_deleted: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_compacted: bool = False
    lag_s: float = inf
    fetch_timeout_s: float = inf
    behind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decisions: RecordedDecisions | None = None
