"""Events: what happens to a cluster, in the model's own vocabulary.

A timeline is a sequence of events in the order in which they happened. *Actions* are what the
scenario did: those of `checkers.acts` upon which the model acts, what clients produced, and what
was looked at. *Decisions* are what the cluster wrote to ZooKeeper, in zxid order, or to KRaft's
metadata log, where the offset stands for the zxid; the model follows those of ZooKeeper, and
separately checks that its rules allow each one. Between two events the model lets every
follower fetch until nothing changes any more, except where a cut or a hold stands in the way.

Events are frozen values with a JSON form: `event_to_json` and `event_from_json`.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import ModelledAct, TopicPartition, fields_of
from kchaos.checkers.json_form import SOMETIMES, from_json
from kchaos.checkers.model.values.producers import ProducerMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One ProduceRequest with one batch of known records reaches one broker.

    Attributes:
        operation: Names the operation in history and prediction.
        broker: The broker that it was sent to (it may be a zombie).
        records: The records' values.
        keys: Their keys, one for each record; empty means that all are null.
        acks: 1 or -1 (all).
        codec: "none" or a codec of Kafka's; with magic below 2 it decides between one entry a
            record and one wrapper.
        is_digested: Whether `records` are the payload digests of records that somebody else sent.
        producer: What the batch says of its producer, if that has an id.
    """

    operation: str
    broker: int
    topic: str
    partition: int
    records: tuple[str, ...]
    acks: int
    codec: str = "none"
    keys: tuple[str, ...] = ()
    is_digested: bool = field(default=False, metadata=SOMETIMES)
    producer: ProducerMark | None = field(default=None, metadata=SOMETIMES)

    def __post_init__(self) -> None:
        """Raise ValueError unless each record has a key, or none has."""
        if self.keys and len(self.keys) != len(self.records):
            raise ValueError(f"{len(self.keys)} keys for {len(self.records)} records")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleaned:
    """A running broker's log cleaner has gone over one log: what it left was looked at.

    The model lets a record go only if the same log has a later one with the same key below
    `cleaned_until`; whatever else is missing stays in the prediction.

    Attributes:
        cleaned_until: The first offset that it did not look at, as `cleaner-offset-checkpoint` has
            it (exclusive).
        kept: Ranges of offsets below it at which the disk still has records, as (first, last),
            both inclusive.
    """

    broker: int
    topic: str
    partition: int
    cleaned_until: int
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkObserved:
    """The `replication-offset-checkpoint` of a running broker held this high watermark.

    A file only moves forward to what memory held later, so the model drops every older value from
    what the file may still hold, and reports one that it does not allow at that moment.
    """

    broker: int
    topic: str
    partition: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCopy:
    """A broker wrote to the metadata topic that it copies a segment, or that it has copied it.

    Attributes:
        is_finished: Whether the copy has ended.
        end_offset: Inclusive.
        leader_epochs: (leader epoch, its first offset in the segment), ascending.
    """

    partition: TopicPartition
    segment_id: str
    broker: int
    is_finished: bool
    start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMoved:
    """A broker replaced a replica with its copy in another log directory, by its log (KIP-113)."""

    broker: int
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """A client asks a leader to delete the records below an offset (KIP-107).

    Attributes:
        broker: Whom it asks.
        before_offset: The first offset that is to stay.
    """

    broker: int
    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartObserved:
    """The log of a running broker was seen to begin at an offset, or later.

    Its first segment or its `log-start-offset-checkpoint` says so; memory may be ahead of both.
    """

    broker: int
    topic: str
    partition: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRead:
    """A consumer begins to read a tiered log from one broker: the model says what that log is.

    Attributes:
        operation: Names the read in the evidence and in the prediction.
        manner: "in sequence", or "descending": one Fetch for each offset.
        first_offset: Where the broker said that its log begins, inclusive.
        end_offset: Its high watermark as it said, exclusive.
        local_start_offset: Where it said that what is local begins.
        source: What the broker is of the partition: "leader", or "follower".
    """

    operation: str
    broker: int
    topic: str
    partition: int
    manner: str
    first_offset: int
    end_offset: int
    local_start_offset: int
    source: str = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Every replica's files were copied now; the model predicts what they hold."""

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """`/brokers/topics/T` was written.

    Attributes:
        assignment: Replica ids per partition, preferred replica first; index is the partition.
    """

    topic: str
    assignment: tuple[tuple[int, ...], ...]
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentified:
    """`/brokers/topics/T` has this id from now on, with or after its creation (KIP-516).

    A controller that knows the topic by then goes on with the id that it had.
    """

    topic: str
    topic_id: str
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """`/brokers/topics/T` was removed: every replica had been deleted."""

    topic: str
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigured:
    """`/config/topics/T` was written.

    Brokers that run go on with what they had until they adopt it.

    Attributes:
        configuration: (name, value) of every setting of the topic's own.
    """

    topic: str
    configuration: tuple[tuple[str, str], ...]
    zxid: int = -1


NO_LEADER = -1
"""In place of a broker: a partition has no leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The partition's state znode was created or set.

    Attributes:
        leader: Broker id, or -1.
        isr: In the order in which it was written.
        version: The znode's version after the write.
        written_by: The broker whose session wrote it, or None if unknown.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    written_by: int | None = None
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """`/brokers/ids/N` was created; its czxid is the broker epoch of KIP-380.

    In a KRaft cluster a process registered; `czxid` is the broker epoch that it was given.
    """

    broker: int
    czxid: int
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """`/brokers/ids/N` was deleted, or its session ended; with KRaft somebody had it removed."""

    broker: int
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerElected:
    """`/controller` was created by this broker; with KRaft this node leads the quorum now."""

    broker: int
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChanged:
    """A KRaft controller takes a registered broker for alive, for away, or for one that stops.

    Attributes:
        is_fenced: Whether it takes no part; each registration begins so.
        is_shutting_down: Whether its controlled shutdown was granted.
    """

    broker: int
    is_fenced: bool
    is_shutting_down: bool
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibleReplicas:
    """A KRaft controller wrote who may lead a partition besides its ISR (KIP-966).

    Attributes:
        eligible: The eligible leader replicas: outside the ISR, with all that is committed.
        last_known: The last known leader, once neither ISR nor eligible replicas have a member.
    """

    topic: str
    partition: int
    eligible: tuple[int, ...]
    last_known: tuple[int, ...]
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """A KRaft cluster has a feature at a level from now on (KIP-584), such as metadata.version."""

    name: str
    level: int
    zxid: int = -1


Action = (
    ModelledAct
    | Produce
    | LogCleaned
    | DeleteRecords
    | LogStartObserved
    | HighWatermarkObserved
    | Snapshot
    | TierRead
)
Decision = (
    TopicCreated
    | TopicIdentified
    | TopicDeleted
    | TopicConfigured
    | PartitionState
    | BrokerRegistered
    | BrokerUnregistered
    | ControllerElected
    | BrokerRegistrationChanged
    | EligibleReplicas
    | FeatureLevelSet
)
Event = Action | Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One decision, in the order of ZooKeeper's log.

    Attributes:
        time: In seconds since the epoch, cut to milliseconds.
    """

    what: Decision
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletion:
    """A topic that was deleted, or is to be.

    Attributes:
        asked: The zxid at which somebody wished it; `zxid` if nobody did.
        zxid: At which its znode was removed, `asked` while it is still there.
        time: When it was removed, in seconds since the epoch; infinite while it is still there.
        is_gone: Whether nobody has made the topic anew since.
    """

    topic: str
    asked: int
    zxid: int
    time: float
    is_gone: bool = False


EVENTS: Mapping[str, type[Any]] = {
    event.__name__: event for event in (*typing.get_args(Action), *typing.get_args(Decision))
}


def event_to_json(event: Event) -> dict[str, Any]:
    """Return the event as a plain object: its class name under "event", then its fields."""
    return {"event": type(event).__name__} | fields_of(event)


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_json` wrote.

    Raises:
        ValueError: No such event, or fields that it does not have or that have another type.
    """
    name = data.get("event")
    if not isinstance(name, str) or name not in EVENTS:
        raise ValueError(f"no event is named {name!r}; known: {', '.join(EVENTS)}")
    arguments = {key: value for key, value in data.items() if key != "event"}
    event: Event = from_json(EVENTS[name], arguments)
    return event
