"""Acts on a cluster, a frozen value for each.

A fault emits these values, the links are cut and hold by them, the journal writes them down, and
the model acts upon them (`checkers.model.values.events.Action` has those). Needs nothing but the
standard library, so that every room may use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar, get_args

CutStyle = Literal["silent", "reset"]
"""Whether connections over a cut stay open and nothing passes, or are reset."""
ZooKeeperCutStyle = Literal["silent", "reset", "dropped"]
"""With "dropped" connections that are open are reset, and new ones stay open and nothing passes."""
Direction = Literal["request", "response"]
Manner = Literal["hold", "delay", "skip", "fail"]
"""Fate of a thread at a point: it waits until it is let on, or so long, or turns back."""
ZooKeeperEnd = Literal["stop", "kill", "lose", "pause", "cut"]
"""How a member of ZooKeeper ends: SIGTERM, SIGKILL, the same and without its data, SIGSTOP, cut."""
DiskError = Literal["", "ENOSPC", "EIO"]
"""Name of what the kernel answers where a disk fails; "" where none does."""
Mode = Literal["zookeeper", "kraft"]
"""Where a cluster keeps its metadata."""
Readers = Literal["all", "followers", "consumers"]
CONTROLLER_BROKER_CHANGE = "controller-broker-change"
"""The point at which a controller begins to handle that brokers came or went."""


# As `json_form.SOMETIMES`: a field that is left out where it has its default.
_IF_OTHER = {"sometimes": True}


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """As Kafka writes it, such as "t-0"."""
        return f"{self.topic}-{self.partition}"


FORGED_ERRORS: Mapping[str, int] = {
    "UNKNOWN_SERVER_ERROR": -1,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "NOT_LEADER_FOR_PARTITION": 6,
    "REQUEST_TIMED_OUT": 7,
}
"""The errors that a `ForgeAnswers` may put in an answer, and their codes; every release has them.

FENCED_LEADER_EPOCH is none of them: it does not say that the question failed, and is obeyed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeAnswers:
    """A leader's answers to OffsetForLeaderEpoch do not arrive; an error does, in their place.

    The leader has handled the request. Every partition of the answer gets the error, with epoch
    and end offset -1, as a leader writes it that cannot answer. Cuts and holds come before it.

    Attributes:
        name: Names it for `EndForgery`.
        source: The broker that asks.
        target: The broker whose answers are replaced.
        error: Kafka's name, one of `FORGED_ERRORS`.
    """

    name: str
    source: int
    target: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndForgery:
    """The answers that the `ForgeAnswers` of that name replaced pass unchanged again."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBroker:
    """The broker's process starts.

    Attributes:
        release: The release whose rules it is judged by, such as "1.1.1".
        inter_broker_protocol: `inter.broker.protocol.version` if set, else None.
        message_format: `log.message.format.version` if set, else None.
        unclean_leader_election: `unclean.leader.election.enable`.
        min_insync_replicas: `min.insync.replicas`.
        replica_fetchers: `num.replica.fetchers`; only written down where it is more than 1.
        placed: Of a broker with several log directories, which of them has each replica that it
            found, as (topic, partition, its place in `log.dirs` from 0 on).
        mode: Where its cluster keeps its metadata; read from the evidence, and not written down.
    """

    broker: int
    release: str
    inter_broker_protocol: str | None = None
    message_format: str | None = None
    unclean_leader_election: bool = False
    min_insync_replicas: int = 1
    replica_fetchers: int = field(default=1, metadata=_IF_OTHER)
    placed: tuple[tuple[str, int, int], ...] = field(default=(), metadata=_IF_OTHER)
    mode: Mode = field(default="zookeeper", metadata=_IF_OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBroker:
    """The broker's process ends.

    Attributes:
        clean: True after SIGTERM (log flushed, high watermarks checkpointed), False after SIGKILL.
        checkpointed: What `replication-offset-checkpoint` held once the process was gone, as
            (topic, partition, offset); None, not read, means: as the last clean stop left it.
    """

    broker: int
    clean: bool
    checkpointed: tuple[tuple[str, int, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBrokerToStop:
    """SIGTERM: the broker begins to shut down, and lives until a clean `StopBroker`."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker:
    """SIGSTOP: the broker neither sends nor handles anything until it is resumed."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeBroker:
    """SIGCONT after `PauseBroker`."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseTail:
    """Bytes of a stopped broker's log that no fsync had covered are gone, as after a power loss.

    The first offset that is lost is `log_end_offset`; it must be a batch's base offset.
    """

    broker: int
    topic: str
    partition: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseEpochs:
    """The `leader-epoch-checkpoint` of one partition of a stopped broker is gone."""

    broker: int
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseFile:
    """A file of a stopped broker's log directory is gone, or ends early.

    Attributes:
        file: Its path in the log directory, such as "t-0/partition.metadata".
        kept_bytes: Where it ends now; None if it is gone.
        directory: The place of the log directory in `log.dirs`, from 0 on.
    """

    broker: int
    file: str
    kept_bytes: int | None = None
    directory: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeLogDirectory:
    """A stopped broker's log directory is empty: replicas, epochs and checkpoints are gone."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailLogDirectory:
    """One of a running broker's log directories fails (KIP-112): its replicas there go offline.

    Attributes:
        directory: Its place in `log.dirs`, from 0 on.
        partitions: (topic, partition) of each replica that lies there.
    """

    broker: int
    directory: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLogDirectory:
    """A failed log directory of a stopped broker is there again, with all that was in it."""

    broker: int
    directory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """Nothing passes between two brokers any more: from `source` to `target`, or both ways.

    One way means that nothing *from the source* reaches the target: neither its requests nor its
    answers. A request of the source that the target had in its hands when the cut began may still
    be answered, since answers of the target pass. A request of the target arrives, and its answer
    waits at the cut.

    What waits at a silent cut is delivered, in order, when no cut is in its way any more, if its
    sender still has that connection open then. What a process has sent into a cut and then died,
    or hung up, is delivered to nobody, then or later, with all that follows it on its connection.
    Who has closed its sending direction only counts as one that has hung up: from outside both
    look the same. What had passed before the cut counts. At a cut that resets nothing waits.

    Cuts may overlap: what two of them stop passes when both have healed.

    Attributes:
        style: "silent" (connections stay open, nothing passes, new ones reach nobody) or "reset".
        name: Names the cut for `HealLink`; made from the pair if it is not given, such as "0-1",
            or "0->1" for one way.
    """

    source: int
    target: int
    one_way: bool = False
    style: CutStyle = "silent"
    name: str = ""

    def __post_init__(self) -> None:
        """Make up the name."""
        if not self.name:
            arrow = "->" if self.one_way else "-"
            object.__setattr__(self, "name", f"{self.source}{arrow}{self.target}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealLink:
    """Undoes the `CutLink` of that name, and leaves other cuts of the same pair.

    Attributes:
        name: The cut's; "" in runs from before cuts had names: then every cut between `source`
            and `target` heals, in whichever order the two are named.
    """

    name: str = ""
    source: int | None = None
    target: int | None = None

    def heals(self, cut: CutLink) -> bool:
        """Return whether healing it undoes this cut."""
        if self.name:
            return cut.name == self.name
        return {cut.source, cut.target} == {self.source, self.target}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One kind of request, or of response, between two brokers is kept back.

    What is held is delivered when it is released, also if its sender has gone meanwhile: it was on
    its way. Where it then meets a `CutLink`, that one's rule decides.

    A KRaft controller is named as a broker is. A Fetch of the metadata log is held only where the
    target is a controller, or the topic is `__cluster_metadata`.

    Attributes:
        name: Names the hold for `ReleaseHold`.
        api: Kafka's name of the API, such as "Fetch"; one of `checkers.formats.api_keys.APIS`.
        source: The broker that sends the request, or None for any.
        target: The broker that answers it, or None for any.
        direction: "request" (the target never sees it) or "response" (the target has handled it).
        topic: With `partition`, only requests that concern this partition; None for any.
        partition: See `topic`.
        fetch_offset_at_least: Only Fetch requests whose offset for the partition is this or more.
    """

    name: str
    api: str
    source: int | None = None
    target: int | None = None
    direction: Direction = "request"
    topic: str | None = None
    partition: int | None = None
    fetch_offset_at_least: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHold:
    """The hold of that name is gone; the messages that it kept back pass in order."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPoint:
    """Threads of one broker that come to a named point of Kafka's code do not go on at once.

    What is on its way past the point when the hold begins goes on.

    Attributes:
        name: Names the hold for `ReleasePoint`.
        point: One of those that `clusters.agent.points` lists.
        manner: "hold" (a thread waits until the hold is released), "delay" (each waits so long), or
            "skip" (the method is left undone) or "fail" (it fails), where the point allows that.
        delay_ms: How long each waits with "delay".
        readers: Only reads of followers, or of consumers; where the point tells who reads.
        topic: With `partition`, only reads that concern this partition; None for any.
        partition: See `topic`.
        path: Only what concerns this folder or file of a disk; "" for any.
        error: What a disk fails with.
    """

    name: str
    broker: int
    point: str
    manner: Manner = "hold"
    delay_ms: int = 0
    readers: Readers = "all"
    topic: str | None = None
    partition: int | None = None
    path: str = field(default="", metadata=_IF_OTHER)
    error: DiskError = field(default="", metadata=_IF_OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePoint:
    """The threads that the hold of that name keeps go on, and the hold is gone."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutZooKeeper:
    """Nothing passes between the broker and ZooKeeper; see `CutLink`.

    Attributes:
        style: As for `CutLink`, or "dropped": connections that are open are reset, and new ones get
            no answer. A client pauses for up to a second before it makes a new one, and with
            "dropped" it does so while it is cut off, not after that.
        name: Names the cut for `HealZooKeeper`; made from the broker if it is not given.
    """

    broker: int
    style: ZooKeeperCutStyle = "silent"
    name: str = ""

    def __post_init__(self) -> None:
        """Make up the name."""
        if not self.name:
            object.__setattr__(self, "name", f"{self.broker}-zookeeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealZooKeeper:
    """Undoes the `CutZooKeeper` of that name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndZooKeeper:
    """A member of ZooKeeper, by its number from 1 on, ends, stands still or is cut off."""

    member: int
    manner: ZooKeeperEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class StartZooKeeper:
    """A member of ZooKeeper that ended is started, goes on, or reaches the others again."""

    member: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectNetwork:
    """The broker's own network is taken away; each other broker is cut from it by a `CutLink`."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectNetwork:
    """Undoes `DisconnectNetwork`."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession:
    """The broker's ZooKeeper session is ended from outside."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBroker:
    """The KRaft controller is asked to fence a broker, by a heartbeat in that broker's name.

    Attributes:
        broker_epoch: The one that the heartbeat names.
    """

    broker: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """The KRaft controller is asked to forget a broker's registration."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElection:
    """The controller is asked to make the first replica of the assignment the leader."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveController:
    """The controller is deposed, so that the brokers elect one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptTopicConfiguration:
    """A running broker has taken over a topic's own settings, as (name, value), ascending."""

    broker: int
    topic: str
    configuration: tuple[tuple[str, str], ...]


STALE_CLIENT_ID = "kchaos-stale"
"""The client id of a late request that kchaos delivers: by it the links tell it from others."""
ControlApi = Literal["LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown"]
"""The control requests, and the request with which a broker asks to be shut down (KIP-380)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRequest:
    """A control request arrives that was made for one generation of a broker, perhaps long ago.

    Attributes:
        broker: Whose generation it is about: the receiver of what a controller sends, the sender of
            a ControlledShutdown.
        target: Who gets it: that broker, or the controller.
        version: Of the API.
        generation: The czxid of the broker's registration when the request was made.
        broker_epoch: What the request says of it, -1 for nothing; None where its version cannot.
        controller: The controller when it was made, and its epoch; -1 for a ControlledShutdown.
        states: (topic, partition, leader, leader epoch, ISR, controller epoch, version of the state
            znode, replicas) of each partition that it names.
        deletes: Of a StopReplica.
        live: Of an UpdateMetadata, the brokers that live.
    """

    api: ControlApi
    broker: int
    target: int
    version: int
    generation: int
    broker_epoch: int | None = None
    controller: int = -1
    controller_epoch: int = -1
    states: tuple[tuple[str, int, int, int, tuple[int, ...], int, int, tuple[int, ...]], ...] = ()
    deletes: bool = False
    live: tuple[int, ...] = ()


ClientEffect = Literal["disconnect", "hold", "delay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbClients:
    """Requests of clients to brokers, or the answers to them, do not arrive as they were sent.

    A request that is disconnected reaches no broker. The broker has handled one whose answer is
    disconnected, and the client does not know.

    Attributes:
        name: Names it for `EndDisturbance`.
        api: Kafka's name of the API, such as "Produce"; None for each.
        client_id: The beginning of the clients' ids; "" for all clients.
        broker: Who serves them; None for any.
        direction: "request" or "response".
        effect: "disconnect", the connection is reset when such a message comes; "hold", it is kept
            back until the end, and with it all that follows on the connection; "delay", it is late.
        delay_ms: By how much it is late, in milliseconds.
        topic: With `partition`, only a message that names this partition; None for any.
        partition: See `topic`.
    """

    name: str
    api: str | None = None
    client_id: str = ""
    broker: int | None = None
    direction: Direction = "response"
    effect: ClientEffect = "disconnect"
    delay_ms: int = 0
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDisturbance:
    """The disturbance of that name is over; what it held passes in order."""

    name: str


ModelledAct = (
    StartBroker
    | StopBroker
    | AskBrokerToStop
    | PauseBroker
    | ResumeBroker
    | LoseTail
    | LoseEpochs
    | WipeLogDirectory
    | FailLogDirectory
    | RestoreLogDirectory
    | CutLink
    | HealLink
    | Hold
    | ReleaseHold
    | ForgeAnswers
    | EndForgery
    | AdoptTopicConfiguration
    | StaleRequest
    | HoldPoint
    | ReleasePoint
)
"""Those upon which the model acts."""
Act = (
    ModelledAct
    | CutZooKeeper
    | HealZooKeeper
    | DisturbClients
    | EndDisturbance
    | LoseFile
    | EndZooKeeper
    | StartZooKeeper
    | DisconnectNetwork
    | ReconnectNetwork
    | ExpireSession
    | FenceBroker
    | UnregisterBroker
    | PreferredElection
    | MoveController
)
"""Any of them. What acts on metadata alone is seen in ZooKeeper's log, or in the controllers', and
the effect on clients at their links."""

_Kind = TypeVar("_Kind", bound=Act)


def act_of(kind: type[_Kind], value: Any) -> _Kind:
    """Return the act of this kind made from the fields of `value` that the kind has."""
    return kind(**{field.name: getattr(value, field.name) for field in fields(kind)})


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an act, or of a similar value, as plain JSON values by name."""
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields(value)
        if field.metadata != _IF_OTHER or getattr(value, field.name) != field.default
    }


def unknown_style(cut: CutLink | CutZooKeeper) -> str:
    """Return why there is no such cut, or ""."""
    styles = get_args(ZooKeeperCutStyle if isinstance(cut, CutZooKeeper) else CutStyle)
    known = " or ".join(map(repr, styles))
    return "" if cut.style in styles else f"style is {cut.style!r}; use {known}"


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
