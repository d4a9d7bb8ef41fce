"""Generations of brokers (KIP-380), and the control requests that came too late for theirs.

A broker's generation is one registration in ZooKeeper; the czxid of `/brokers/ids/N` is its epoch.
A control request is *late* if the generation for which it was meant is over when it reaches its
receiver. For which it was meant is known in three ways:

- the request says so, from 2.2 on (`broker_epoch`);
- kchaos made it itself, and `actions.jsonl` says for which generation (`StaleRequest`);
- it was sent before the broker registered again, and a hold or a cut kept it;
- it repeats, first on a new connection, a request that got no answer: so the controller's
  RequestSendThread does until it is answered, and it was made before the first of them was sent.

A ControlledShutdown is about its sender, every other control request about its receiver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import STALE_CLIENT_ID, StaleRequest, StartBroker, TopicPartition
from kchaos.checkers.errors import ModelError, ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.links import ARRIVED, LinkMessage
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.releases.composition import generation_of
from kchaos.checkers.model.values.events import BrokerRegistered, BrokerUnregistered

_APIS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown")
_CLOCKS_S = 0.015
"""ZooKeeper's times are cut to milliseconds, and a link writes before it sends."""
_LEARNS_S = 1.0
"""Seconds for which a process that registers again may act in its last generation (KAFKA-9839).

ZooKeeper has the new registration before its answer gets to the broker.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerGeneration:
    """One registration of a broker.

    Attributes:
        czxid: Its broker epoch.
        since: Seconds since the epoch, of ZooKeeper's clock.
        until: When it was gone; None if it still was there at the end.
    """

    broker: int
    czxid: int
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """One answered control request at a link, with the epoch that it carried and that in force.

    Attributes:
        broker: Whose generation it is about.
        target: Who answered it.
        broker_epoch: What it said of the generation, -1 for nothing; None where its version
            cannot say it.
        meant_for: The czxid of the generation for which it was made, as far as that is known.
        in_force: The czxid of the broker's generation when it arrived; -1 before the first.
        error_code: Of the answer as a whole.
        is_late: Whether the generation for which it was made was over then, for sure.
        partitions: (topic, partition, error code) of each that it names.
        predicted_error_code: What the target's release answers to such an epoch: 77, -1, or 0 where
            the epoch is no reason to refuse.
        is_made: Whether kchaos made it.
        time: When it arrived, in seconds since the epoch.
        source: Where the request is, such as "links.jsonl:12".
    """

    api: str
    version: int
    broker: int
    target: int
    broker_epoch: int | None
    meant_for: int
    in_force: int
    error_code: int
    is_late: bool = False
    partitions: tuple[tuple[str, int, int], ...] = ()
    predicted_error_code: int = 0
    is_made: bool = False
    time: float = 0.0
    source: str = ""

    def error_for(self, partition: TopicPartition) -> int:
        """Return the error code of one partition's response."""
        for topic, number, error_code in self.partitions:
            if (topic, number) == partition:
                return self.error_code or error_code
        return self.error_code

    def in_words(self) -> str:
        """Describe the request and its response for people."""
        told = {None: "which names no broker epoch", -1: "broker epoch -1"}.get(
            self.broker_epoch, f"broker epoch {self.broker_epoch}"
        )
        answer = {
            0: "accepted",
            ErrorCode.STALE_BROKER_EPOCH: "refused, STALE_BROKER_EPOCH (77)",
        }.get(self.error_code, f"answered with error {self.error_code}")
        made = ", made by kchaos" if self.is_made else ""
        return (
            f"{self.api} v{self.version} to broker {self.target} ({told}{made}) was made for "
            f"generation {self.meant_for} of broker {self.broker}, which was {self.in_force} by "
            f"then; {answer}"
        )


def generations(events: Iterable[TimedEvent]) -> tuple[BrokerGeneration, ...]:
    """Return every registration of every broker, in order."""
    registrations: list[BrokerGeneration] = []
    open_: dict[int, int] = {}
    for timed in events:
        match timed.event:
            case BrokerRegistered(broker=broker, czxid=czxid):
                _close(registrations, open_.pop(broker, None), timed.time)
                open_[broker] = len(registrations)
                registrations.append(BrokerGeneration(broker=broker, czxid=czxid, since=timed.time))
            case BrokerUnregistered(broker=broker):
                _close(registrations, open_.pop(broker, None), timed.time)
            case _:
                pass
    return tuple(registrations)


def control_requests(
    messages: Iterable[LinkMessage], events: Sequence[TimedEvent]
) -> tuple[ControlRequest, ...]:
    """Return every answered control request at the links, in the order of the responses.

    Raises:
        ScenarioDataError: A message lacks a documented field.

    **Does not verify**: requests whose version the links could not read, and those without an
    answer.
    """
    try:
        return tuple(_Reader(events).requests(messages))
    except (AttributeError, KeyError, TypeError) as error:
        raise ScenarioDataError(
            f"links.jsonl has a control request without the documented fields: {error!r}"
        ) from error


def never_informed(
    requests: Sequence[ControlRequest] | None,
    events: Sequence[TimedEvent],
    partition: TopicPartition,
    brokers: Iterable[int],
) -> tuple[int, ...]:
    """Return the registered brokers whose process got no LeaderAndIsr of the partition.

    One that was refused as a whole does not count. Nothing is said without links, or where they saw
    no LeaderAndIsr at all.
    """
    if not any(request.api == "LeaderAndIsr" for request in requests or ()):
        return ()
    assert requests is not None
    started: dict[int, float] = {}
    for timed in events:
        if isinstance(timed.event, StartBroker):
            started[timed.event.broker] = timed.time if timed.began is None else timed.began
    registered = {
        registration.broker for registration in generations(events) if registration.until is None
    }
    told = {
        request.target
        for request in requests
        if request.api == "LeaderAndIsr"
        and not request.error_code
        and any((topic, number) == partition for topic, number, _ in request.partitions)
        and (request.time >= started.get(request.target, 0.0) or _is_first(events, request.target))
    }
    return tuple(sorted((set(brokers) & registered) - told))


def _is_first(events: Sequence[TimedEvent], broker: int) -> bool:
    # The first start of a broker is written down when it is ready, which may be later.
    starts = (timed.event for timed in events if isinstance(timed.event, StartBroker))
    return sum(start.broker == broker for start in starts) < 2


def _close(registrations: list[BrokerGeneration], index: int | None, time: float) -> None:
    if index is not None:
        generation = registrations[index]
        registrations[index] = BrokerGeneration(
            broker=generation.broker, czxid=generation.czxid, since=generation.since, until=time
        )


@dataclass(slots=True)
class _Sent:
    message: LinkMessage
    detail: Mapping[str, Any]
    made_at: float
    arrived_at: float
    waited: bool


@dataclass(slots=True)
class _Reader:
    events: Sequence[TimedEvent]
    made: list[StaleRequest] = field(init=False)
    registered: dict[int, list[BrokerGeneration]] = field(init=False)
    starts: dict[int, list[tuple[TimedEvent, StartBroker]]] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = {}
        for timed in self.events:
            if isinstance(timed.event, StartBroker):
                self.starts.setdefault(timed.event.broker, []).append((timed, timed.event))
        self.made = [timed.event for timed in self.events if isinstance(timed.event, StaleRequest)]
        self.registered = {}
        for registration in generations(self.events):
            self.registered.setdefault(registration.broker, []).append(registration)

    def requests(self, messages: Iterable[LinkMessage]) -> Iterator[ControlRequest]:
        sent: dict[tuple[int, int], _Sent] = {}
        unanswered: list[_Sent] = []
        connections: set[int] = set()
        for message in messages:
            if message.api not in _APIS or message.detail is None or message.target is None:
                continue
            number = (message.connection, message.correlation_id)
            if message.direction == "request":
                if number not in sent:
                    repeated = None
                    if message.connection not in connections:
                        newest = reversed(unanswered)
                        same = (before for before in newest if _is_same(before, message))
                        repeated = next(same, None)
                    sent[number] = _sent(message, message.detail, repeated)
                    unanswered.append(sent[number])
                    connections.add(message.connection)
                sent[number].arrived_at = message.wall_time_s
            elif number in sent:
                answered = sent.pop(number)
                asked = answered.message
                unanswered = [other for other in unanswered if not _is_same(other, asked)]
                yield self._answered(answered, message, message.detail)

    def _generation(self, broker: int, time: float) -> int:
        """Return the czxid of the broker's newest registration at a time, -1 before the first."""
        czxid = -1
        for registration in self.registered.get(broker, ()):
            if registration.since <= time:
                czxid = registration.czxid
        return czxid

    def _known(self, broker: int, time: float) -> int:
        """Return the broker's generation as a living process is sure to know it."""
        czxid, before = -1, -1.0
        starts = [
            timed.time if timed.began is None else timed.began
            for timed, _ in self.starts.get(broker, ())
        ]
        for registration in self.registered.get(broker, ()):
            # The first start is written down when the broker is ready.
            is_again = before >= 0 and not any(
                before < time < registration.since for time in starts[1:]
            )
            if registration.since + (_LEARNS_S if is_again else _CLOCKS_S) <= time:
                czxid = registration.czxid
            before = registration.since
        return czxid

    def _answered(
        self, sent: _Sent, answer: LinkMessage, answered: Mapping[str, Any]
    ) -> ControlRequest:
        message, arrived_at = sent.message, sent.arrived_at
        api, target = message.api, message.target
        assert api is not None
        assert target is not None
        broker = int(sent.detail["broker_id"]) if api == "ControlledShutdown" else target
        told = sent.detail.get("broker_epoch")
        in_force = self._generation(broker, arrived_at + _CLOCKS_S)
        meant_for = in_force
        is_made = self._is_made(message, api)
        if is_made:
            meant_for = self.made.pop(0).generation
        elif told is not None and told >= 0:
            meant_for = told
        elif sent.waited:
            meant_for = self._generation(broker, sent.made_at + _CLOCKS_S)
        known = self._known(broker, arrived_at)
        error_code = answered.get("error_code") or 0
        predicted = self._predicted(api, target, told, in_force, arrived_at)
        if predicted != error_code:
            predicted = self._predicted(api, target, told, known, arrived_at)
        return ControlRequest(
            api=api,
            version=-1 if message.api_version is None else message.api_version,
            broker=broker,
            target=target,
            broker_epoch=told,
            meant_for=meant_for,
            in_force=in_force,
            error_code=error_code,
            is_late=0 <= meant_for < known,
            partitions=tuple(_partitions(sent.detail, answered)),
            predicted_error_code=predicted,
            is_made=is_made,
            time=arrived_at,
            source=message.read_at,
        )

    def _is_made(self, message: LinkMessage, api: str) -> bool:
        if not self.made:
            return False
        if message.client_id == STALE_CLIENT_ID:
            return True
        # The one header without a client id, which only protocols below 0.9 have besides.
        first = self.made[0]
        is_bare = message.client_id is None and api == "ControlledShutdown"
        return is_bare and (first.api, first.version) == (api, message.api_version)

    def _predicted(
        self, api: str, target: int, told: int | None, in_force: int, time: float
    ) -> int:
        """Answer about the epoch by the release that the target ran then."""
        latest_start: StartBroker | None = None
        read_at = ""
        for timed, start in self.starts.get(target, ()):
            if latest_start is None or timed.time <= time:
                latest_start, read_at = start, timed.read_at
        if latest_start is None:
            return 0
        try:
            generation = generation_of(latest_start)
        except ModelError as error:
            raise ScenarioDataError(f"{read_at}: {error}") from error
        epoch = -1 if told is None else told
        if api == "ControlledShutdown":
            return (
                ErrorCode.STALE_BROKER_EPOCH if generation.refuses_shutdown(epoch, in_force) else 0
            )
        return ErrorCode[generation.error_of_broker_epoch(epoch, in_force) or "NONE"]


def _sent(message: LinkMessage, detail: Mapping[str, Any], before: _Sent | None) -> _Sent:
    """Return a request at its first observation.

    `before` is an equal, unanswered request on another connection, which this one may repeat; a
    controller that reconnects to a broker numbers its requests anew.
    """
    made_at = message.wall_time_s
    if before is not None and before.message.correlation_id < message.correlation_id:
        made_at = before.made_at
    waited = message.fate not in ARRIVED or made_at < message.wall_time_s
    return _Sent(message, detail, made_at, message.wall_time_s, waited)


def _is_same(sent: _Sent, message: LinkMessage) -> bool:
    """Return whether one sender says the same to one receiver once more."""
    before = sent.message
    return (
        (before.target, before.api) == (message.target, message.api)
        and (before.client_id, before.api_version) == (message.client_id, message.api_version)
        and before.detail == message.detail
    )


def _partitions(
    asked: Mapping[str, Any], answered: Mapping[str, Any]
) -> Iterator[tuple[str, int, int]]:
    errors = {
        (partition.get("topic"), partition.get("partition")): partition.get("error_code") or 0
        for partition in answered.get("partitions", ())
    }
    for partition in asked.get("partitions", ()):
        if partition.get("topic") is not None:
            name = (partition["topic"], partition["partition"])
            yield (*name, errors.get(name, 0))
