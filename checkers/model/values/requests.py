"""Requests and answers in flight, as values: those of fetcher threads and those of controllers."""

from dataclasses import dataclass
from enum import StrEnum

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.values.epoch_cache import UNDEFINED, Entries, EpochEnd
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.prediction import PredictedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """Content of a request about one partition.

    Attributes:
        leader_epoch: Under which the follower asks; it knows that whatever the request carries.
        carries_leader_epoch: Whether the request has it.
        is_incremental: Whether it is a Fetch within a fetch session.
        requested_epoch: The follower's last epoch, -1 for none or where the request has no such
            field.
        ends: As in `EpochQuestion`.
        timestamp: Of a ListOffsets, `LATEST` or `EARLIEST`; None of any other request.
        topic_id: By which a Fetch names the topic; "" where it says the name.
    """

    leader_epoch: int
    carries_leader_epoch: bool
    fetch_offset: int
    requested_epoch: int
    is_incremental: bool = False
    ends: tuple[EpochEnd, ...] = ()
    timestamp: int | None = None
    topic_id: str = ""


LATEST = -1
"""The timestamp in a ListOffsets that asks for the leader's log end."""
EARLIEST = -2
"""The one that asks for its log start, which of a tiered log may be remote."""

MOVED_TO_TIER = "OFFSET_MOVED_TO_TIERED_STORAGE"
"""A leader's answer to a follower that asks for offsets in the remote tier only (KIP-405)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A segment in the remote tier.

    Attributes:
        end_offset: Inclusive.
        leader_epochs: Those inside it, each with its first offset there.
        chain: Every epoch up to its end, as its leader epoch checkpoint has them.
        is_finished: Whether its copy has ended: nobody looks at it before.
        copied_in: The leader epoch in which a leader began to copy it; -1 where nobody asks.
    """

    segment_id: str
    start_offset: int
    end_offset: int
    leader_epochs: Entries
    chain: Entries
    batches: tuple[PredictedBatch, ...]
    is_finished: bool = False
    copied_in: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """A leader's answer to a Fetch for one partition.

    Attributes:
        noted: Of how many of the batches the follower has noted the epochs, and not yet written
            them (`follower.note_epochs`).
    """

    error: str = ""
    batches: tuple[PredictedBatch, ...] = ()
    high_watermark: int = -1
    log_start_offset: int = 0
    diverging: EpochEnd | None = None
    noted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAnswer:
    """A leader's answer to an OffsetForLeaderEpoch for one partition."""

    error: str = ""
    end: EpochEnd = UNDEFINED


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswer:
    """A leader's answer to a ListOffsets for one partition."""

    error: str = ""
    offset: int = -1


Answer = FetchAnswer | EpochAnswer | OffsetAnswer


class Stage(StrEnum):
    """Progress of a fetcher thread's request."""

    SENT = "sent"
    """It is on its way; a cut or a hold may keep it."""
    ARRIVED = "arrived"
    """The leader has it and has not looked at its log."""
    READ = "read"
    """The leader has looked at its log, and has not counted how far the follower is."""
    WAITING = "waiting"
    """The leader found nothing new and lets the Fetch wait (DelayedFetch)."""
    ANSWERED = "answered"
    """The answer is on its way; a cut or a hold may keep it."""
    DELIVERED = "delivered"
    """The follower has the answer and has not handled it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a fetcher thread, and the answer to it.

    Attributes:
        api: Kafka's name of the API: "Fetch", "OffsetForLeaderEpoch" or "ListOffsets".
        asked: (partition, what is asked of it), ascending.
        answers: In `Stage.READ`, and from `Stage.ANSWERED` on. In `Stage.READ` some partitions may
            have none yet.
        is_awaited: Whether the thread still waits: not after its time-out, restart or end.
        error: With which the leader answers the whole of a Fetch, or "".
        holds: Names of the holds that keep it.
        refused: Partitions of a Fetch that the leader's metadata cache did not have; the rest of it
            goes on.
        counted: Partitions of a Fetch in `Stage.READ` of which the leader has counted the
            follower already, and not of the others.
        was_paused: Whether its sender stood still while it waited: when it goes on the time may be
            over, and it asks anew although the answer is there.
        looked_at: How often `replica.lag.time.max.ms` had passed when the leader looked at its log,
            and where that ended, in a machine where the former is counted.
        number: Which request at the links it is, as (connection, correlation id), where a run is
            followed.
        replica_epoch: The broker epoch that a Fetch names, -1 for none (KIP-903).
    """

    api: str
    asked: tuple[tuple[TopicPartition, PartitionRequest], ...]
    stage: Stage = Stage.SENT
    answers: tuple[tuple[TopicPartition, Answer], ...] = ()
    error: str = ""
    is_awaited: bool = True
    holds: tuple[str, ...] = ()
    refused: frozenset[TopicPartition] = frozenset()
    counted: frozenset[TopicPartition] = frozenset()
    was_paused: bool = False
    looked_at: tuple[int, int] = (0, 0)
    number: tuple[int, int] | None = None
    replica_epoch: int = -1

    @property
    def is_at_leader(self) -> bool:
        """Whether the leader has the request and has not answered it."""
        return self.stage in (Stage.ARRIVED, Stage.READ, Stage.WAITING)

    @property
    def is_at_links(self) -> bool:
        """Whether it is on its way in a run that is followed by its links."""
        return self.number is not None and self.stage in (Stage.SENT, Stage.ANSWERED)

    @property
    def is_unread(self) -> bool:
        """Whether its answer, in such a run, reached a sender that stood still.

        It can still read that when it goes on, also if its leader has ended meanwhile.
        """
        return self.number is not None and self.stage is Stage.DELIVERED and self.was_paused


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """The controller tells a broker the state of partitions.

    Attributes:
        is_left_out: Whether the broker is none of the replicas that are named. A reassignment tells
            those that it leaves out once more.
        is_new: Whether the controller made the replica just now (isNew in the request).
        topic_id: The id of the states' topic, "" where none is told.
        registered: In a delta of the metadata log, the brokers with a registration, fenced or not.
        replicas: In a delta of the metadata log, who holds the partition; None elsewhere.
    """

    states: tuple[PartitionState, ...]
    is_left_out: bool = False
    is_new: bool = False
    topic_id: str = ""
    registered: frozenset[int] = frozenset()
    replicas: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadata:
    """The controller tells a broker who is alive, which partitions there are, and which go.

    Attributes:
        topic_ids: (topic, id) of those that it tells of.
        live: With KRaft the brokers that are neither fenced nor shutting down.
        registered: In a delta of the metadata log, the brokers with a registration, fenced or not.
        epochs: (broker, broker epoch) of those that are not fenced.
    """

    live: frozenset[int]
    registered: frozenset[int] = frozenset()
    epochs: frozenset[tuple[int, int]] = frozenset()
    told: frozenset[TopicPartition] = frozenset()
    deleted: frozenset[TopicPartition] = frozenset()
    topic_ids: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """The controller lets a broker stop fetching a partition.

    Attributes:
        is_stray: With KRaft, whether a broker that starts finds a replica of a topic that was
            deleted and made again meanwhile.
        leader_epoch: The one that the controller knows; below 0 where it says none, since its
            version has no such field (-1), or its topic is being deleted (-2).
    """

    partition: TopicPartition
    deletes: bool = False
    leader_epoch: int = -1
    is_stray: bool = False


ControlRequest = LeaderAndIsr | UpdateMetadata | StopReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A control request that a broker has.

    Attributes:
        number: Which request it is: at the links, or its controller's and the connection's.
        broker_epoch: The czxid of the registration that it is meant for; -1 where its version has
            no such field.
        errors: What it answers, (partition or None for the whole, error), once it was handled.
    """

    number: tuple[int, int]
    controller_epoch: int
    request: ControlRequest
    broker_epoch: int = -1
    errors: tuple[tuple[TopicPartition | None, str], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Control requests to one broker, oldest first; one is in flight at a time.

    Attributes:
        is_unanswered: Whether the broker has the first one, or its answer is still on its way.
            Nothing more is sent until then.
        held_by: Names of the holds that keep the first request, or its answer.
        connection: The czxid of the registration for which the controller connected.
    """

    requests: tuple[ControlRequest, ...] = ()
    is_unanswered: bool = False
    held_by: tuple[str, ...] = ()
    connection: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Belief of one controller.

    Attributes:
        broker: Whose process it is part of.
        seen: (broker, czxid) as it last saw the registrations.
    """

    broker: int
    seen: tuple[tuple[int, int], ...] = ()
