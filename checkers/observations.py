"""Observations: what kchaos did and saw while it played a run, a frozen value for each kind.

Who sees something makes such a value, the recorder writes it as a line of `observations.jsonl`, and
`checkers.evidence.observed` reads it back. Steps and faults of somebody's own have `Noted`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform, get_args

from kchaos.checkers import acts
from kchaos.checkers.json_form import SOMETIMES, ShapeError, from_json, to_json

_OF_THE_LINE = frozenset({"time", "step", "kind"})
KINDS: dict[str, type[Any]] = {}
"""The observations of kchaos's own, by the kind that a line has."""
_NAMES: dict[type[Any], str] = {}
_T = TypeVar("_T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def _kind(name: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class a frozen dataclass that is read and written as lines of that kind."""

    def register(of: type[_T]) -> type[_T]:
        KINDS[name] = made = dataclass(frozen=True, slots=True, kw_only=True)(of)
        _NAMES[made] = name
        return made

    return register


class Observation:
    """Base of all observations."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPartition(Observation):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfReplica(_OfPartition):
    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """State of a partition; the version is that of its znode, -1 with KRaft."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int | None = field(default=None, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen(Observation):
    """One broker at one moment.

    Attributes:
        pid: Its process, or None.
        czxid: Broker epoch (KIP-380): czxid of `/brokers/ids/N`, or where the KRaft controller
            registered it; None while it is not registered, or fenced.
        session_id: Owner of that znode, -1 with KRaft; None while it is not registered.
        znode: The znode's text, or what a broker of KRaft registered with; else None.
    """

    broker: int
    pid: int | None
    czxid: int | None
    session_id: int | None
    znode: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return to_json(self)


@_kind("act")
class Act(Observation):
    """An act begins. Its fields stand beside its name in the line.

    Attributes:
        zxid: The last zxid before it; with KRaft the last offset.
    """

    act: acts.Act
    zxid: int


@_kind("addresses-given")
class AddressesGiven(Observation):
    """Somebody asked for the addresses at which brokers serve clients."""

    to: str


@_kind("after-timeout")
class AfterTimeout(_OfPartition):
    """A producer went on after its transaction had timed out; `error` is Kafka's name, or ""."""

    operation: str
    error: str


@_kind("asked")
class Asked(_OfReplica):
    """A broker answered a reader that had an offset and a leader epoch.

    Attributes:
        records: Offset and value of each that a Fetch got.
        diverging: Leader epoch and end offset that a Fetch was told to go back to, if it was.
        answered: Leader epoch and end offset of an OffsetForLeaderEpoch.
    """

    operation: str
    offset: int
    leader_epoch: int
    request: str
    error_code: int
    records: tuple[tuple[int, str], ...] | None = field(default=None, metadata=SOMETIMES)
    diverging: tuple[int, int] | None = field(default=None, metadata=SOMETIMES)
    answered: tuple[int, int] | None = field(default=None, metadata=SOMETIMES)


@_kind("broker")
class Broker(BrokerSeen):
    """A broker was looked at: when the run began, or for the reason `why`."""

    why: str = field(default="", metadata=SOMETIMES)


@_kind("broker-gone")
class BrokerGone(Observation):
    """A broker's process has ended."""

    broker: int
    exit_code: int | None


@_kind("broker-registered")
class BrokerRegistered(BrokerSeen):
    """A broker registered again."""


@_kind("broker-started")
class BrokerStarted(BrokerSeen):
    """A broker started again, and is registered.

    Attributes:
        release: "" where the run is too old to say it, as is `build`.
        build: Its name if it is a build of somebody's own, else "".
        recovery: Lines of its server.log about the logs that it found.
    """

    release: str = field(default="", metadata=SOMETIMES)
    build: str | None = field(default=None, metadata=SOMETIMES)
    recovery: tuple[str, ...] | None = field(default=None, metadata=SOMETIMES)


@_kind("consumed")
class ConsumerEnded(_OfPartition):
    """Kafka's own consumer ended.

    Attributes:
        records: Offset and value of each that it got.
        error: The exception, or "".
        said: Its last lines.
    """

    operation: str
    offset: int
    leader_epoch: int
    records: tuple[tuple[int, str], ...]
    error: str
    exit_code: int | None
    said: tuple[str, ...]


@_kind("delivered")
class Delivered(Observation):
    """A broker has handled the LeaderAndIsr, or the metadata, with this state."""

    broker: int
    state: LeaderAndIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A time in which nothing was acknowledged of what such a client wrote to a partition.

    Attributes:
        began: When it handed on the first record that waited, in seconds since the epoch.
        ended: When one was acknowledged, or when it stopped.
    """

    client: str
    partition: int
    began: float
    ended: float


@_kind("free-clients-stopped")
class FreeClientsStopped(Observation):
    """Clients that never wait ended: what each did, and who had to be ended."""

    name: str
    topic: str
    clients: tuple[Mapping[str, Any], ...]
    waits: tuple[Wait, ...]
    not_ended: tuple[str, ...]


@_kind("healed")
class Healed(Observation):
    """The fault that was injected under that name is healed."""

    name: str


@_kind("held")
class Held(Observation):
    """A hold keeps these messages, or threads, each in words."""

    name: str
    messages: tuple[str, ...]


@_kind("high-watermark")
class HighWatermark(_OfPartition):
    """Checkpoints of brokers hold what a gate waited for.

    After the last step that is the last high watermark.
    """

    seen: Mapping[int, int]


@_kind("high-watermark-forgotten")
class HighWatermarkForgotten(_OfReplica):
    """A broker's checkpoint was written without the partition; `left` are those that it has."""

    left: tuple[tuple[str, int], ...]


@_kind("high-watermark-kept")
class HighWatermarkKept(_OfPartition):
    """The checkpoints of these brokers held a value for as long as a step looked."""

    brokers: tuple[int, ...]
    value: int


@_kind("injected")
class Injected(Observation):
    """A fault is injected, and its effect was seen.

    Attributes:
        name: By which it is healed.
        fault: Its class.
        lasting: Whether it acts until it is healed.
        before: What it acts on, as it was; the fields are the fault's own, as in `effect`.
    """

    name: str
    fault: str
    lasting: bool
    before: Mapping[str, Any]
    effect: Mapping[str, Any]


@_kind("late-batch")
class LateBatch(_OfPartition):
    """A batch came after its transaction was over; `error` is Kafka's name, or ""."""

    operation: str
    error: str
    base_offset: int


@_kind("link-healed")
class LinkHealed(Observation):
    """A cut is gone; how many messages passed each way, such as "0->1", before and during it."""

    name: str
    source: int
    target: int
    messages_passed_before: Mapping[str, int]
    messages_passed: Mapping[str, int]


@_kind("log")
class LogLines(Observation):
    """Lines that a gate waited for in a broker's server.log."""

    broker: int
    lines: tuple[str, ...]


@_kind("log-end")
class LogEnd(_OfPartition):
    """Log end offset of each replica."""

    ends: Mapping[int, int]


@_kind("message")
class MessagesSeen(Observation):
    """Messages that a gate waited for at a link, each in words."""

    messages: tuple[str, ...]


@_kind("metadata-read")
class MetadataRead(Observation):
    """A broker of KRaft fetched metadata up to `position`; `offsets` are those it asked for."""

    broker: int
    position: int
    offsets: tuple[int, ...]


@_kind("not-possible")
class StepNotPossible(Observation):
    """A step that was only tried was not possible; how long that took."""

    name: str
    reason: str
    seconds: float


@_kind("reassigned-again")
class ReassignedAgain(_OfPartition):
    """A reassignment was lost, and is requested again."""

    replicas: tuple[int, ...]


@_kind("records-deleted")
class RecordsDeleted(_OfReplica):
    """A leader answered a DeleteRecords."""

    before_offset: int
    error_code: int
    low_watermark: int


@_kind("disturbed")
class Disturbed(Observation):
    """A disturbance of clients is over; so many messages met it."""

    name: str
    messages: int


@_kind("released")
class Released(Observation):
    """A hold is gone; the messages, or threads, that it kept, each in words."""

    name: str
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleProbe:
    """A write by which settling asked whether replication goes on.

    Attributes:
        operation: As the history has it.
        error: Kafka's code, 0 for none; or in words why no answer came.
    """

    operation: str
    acknowledged: bool
    error: int | str


@_kind("settled")
class SettleOutcome(Observation):
    """Settling ended; `outcome.json` says the same of the run as a whole.

    Attributes:
        state: "converged", "failed" or "stalled".
        reasons: Each with the finding's "kind" and the "broker", and the partition if it has one.
        bound_s: How long nothing had to change.
        bound_from: What that follows from.
        last_seen: By the partition's name, such as "t-0".
    """

    state: str
    reasons: tuple[Mapping[str, Any], ...]
    bound_s: float | None = None
    bound_from: str = ""
    probes: tuple[SettleProbe, ...] = ()
    last_seen: Mapping[str, Any] | None = None


@_kind("stale-request")
class StaleRequestAnswered(Observation):
    """A late control request was answered; the act before it says what it was.

    Attributes:
        in_force: The czxid of the broker's registration before it; None without one.
        answer: By Kafka's names of its fields, "error_code" among them.
    """

    in_force: int | None
    answer: Mapping[str, Any]


@_kind("stale-request-lost")
class StaleRequestLost(Observation):
    """A late control request had nobody to go to, or was not late."""

    target: int
    api: str


@_kind("state")
class AwaitedState(_OfPartition):
    """State of a partition that a gate waited for."""

    state: LeaderAndIsr | None


@_kind("step")
class StepBegun(Observation):
    """A step begins; its class, or that of the step that is tried."""

    name: str


@_kind("throttled")
class FollowerThrottled(_OfPartition):
    """A follower's replication is throttled, and stands at an offset."""

    follower: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredSegment:
    """A copied segment, as the metadata topic says: `end_offset` is inclusive."""

    segment_id: str
    broker: int
    state: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]


@_kind("tiered")
class Tiered(_OfPartition):
    """Segments of a partition that are in the remote store."""

    segments: tuple[TieredSegment, ...]


@_kind("told")
class LeaderTold(Observation):
    """A client asked a broker who leads, and was answered there.

    Attributes:
        leader: Of the answer, None for none; so is `error_code`.
        fetch_error_code: Answer to a read at that leader, None where nobody could be asked.
        produce_error_code: Answer to a write there.
    """

    operation: str
    number: int
    by: int
    leader: int | None
    brokers: tuple[int, ...]
    error_code: int | None
    fetch_error_code: int | None = field(default=None, metadata=SOMETIMES)
    produce_error_code: int | None = field(default=None, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which the machine let nothing run; began and ended in seconds since the epoch.

    Attributes:
        seconds: For how long of that a thread that could run waited for a processor.
    """

    began: float
    ended: float
    seconds: float


@_kind("stood-still")
class StoodStill(Observation):
    """Every time in which the machine let nothing run, noted when the run ends."""

    times: tuple[Standstill, ...]


@_kind("topic-deleted")
class TopicDeleted(Observation):
    """A topic is gone."""

    topic: str


@_kind("unclean-election-asked")
class UncleanElectionAsked(_OfPartition):
    """A client is about to ask the controller for an unclean election."""


@_kind("unknown")
class GaveUp(Observation):
    """The run ended early, and is unknown."""

    reason: str


@_kind("waited-in-vain")
class WaitedInVain(Observation):
    """A condition did not hold in time, and the run goes on without it."""

    detail: str


@_kind("wrote-where-told")
class WroteWhereTold(Observation):
    """A client that asks who leads was acknowledged, or gave up."""

    operation: str
    acknowledged: bool
    tries: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Observation):
    """An observation of somebody's own step or fault: nothing is judged by it.

    A witness can ask for it by its kind and fields, as for every observation.

    Attributes:
        kind: None of kchaos's own.
        fields: Plain JSON values by name; none is named "time", "step" or "kind".
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would be read as another observation."""
        if self.kind in KINDS:
            raise ValueError(f"kchaos itself observes {self.kind!r}: note another kind")
        if taken := _OF_THE_LINE & self.fields.keys():
            raise ValueError(f"every line has {', '.join(sorted(taken))}: use another name")


_ACTS: Mapping[str, type[Any]] = {act.__name__: act for act in get_args(acts.Act)}


def kind_of(what: Observation) -> str:
    """Return the kind of the observation's line."""
    return what.kind if isinstance(what, Noted) else _NAMES[type(what)]


def fields_of(what: Observation) -> dict[str, Any]:
    """Return the values of the observation's line besides time, step and kind, for `json.dumps`."""
    match what:
        case Noted():
            return dict(what.fields)
        case Act():
            name = type(what.act).__name__
            return {"act": name, "zxid": what.zxid, **acts.fields_of(what.act)}
        case _:
            return to_json(what)


def observation_in(line: Mapping[str, Any]) -> Observation:
    """Return the observation in a line, ignoring fields that its kind does not have.

    Raises:
        ShapeError: A field is missing or has another type, or the act has no such field.
    """
    kind = line.get("kind")
    if not isinstance(kind, str):
        raise ShapeError(f"kind is no text, but {kind!r}")
    if kind not in KINDS:
        rest = {name: value for name, value in line.items() if name not in _OF_THE_LINE}
        return Noted(kind=kind, fields=rest)
    given = {}
    if kind == "act":
        name = line.get("act")
        if not isinstance(name, str) or name not in _ACTS:
            raise ShapeError(f"no act is named {name!r}")
        more = (*_OF_THE_LINE, "act", "zxid")
        given["act"] = from_json(
            _ACTS[name], {field: value for field, value in line.items() if field not in more}
        )
    observation: Observation = from_json(KINDS[kind], line, allow_more=True, **given)
    return observation
