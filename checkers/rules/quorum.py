"""Decisions of KRaft controllers that they could not take (`model.controller.quorum`)."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

from kchaos.checkers.acts import PreferredElection, StartBroker, TopicPartition
from kchaos.checkers.errors import ModelError, ScenarioDataError
from kchaos.checkers.evidence.about import number_in
from kchaos.checkers.evidence.links import ARRIVED, LinkMessage
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_image import MetadataImage
from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.checkers.metadata_log import LeaderChange, LogEntry
from kchaos.checkers.model.controller import quorum as controller
from kchaos.checkers.model.controller.quorum import (
    Assignment,
    Changes,
    Election,
    Fields,
    IsrAnswer,
    IsrProposal,
    Place,
    Quorum,
)
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.observations import Act

_CHANGE, _CREATED = "PartitionChangeRecord", "PartitionRecord"
_BALANCED_S = 300
"""So often controllers elect preferred replicas by themselves, in seconds, where nothing is set."""
_CLOCKS_S = 1.0
"""By so much the times of links and of the metadata log may differ."""
_OF_ANY_NODE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors that tell nothing of the metadata: also of a node that does not lead the quorum."""
_Request = TypeVar("_Request")
_OF_FENCED = "election of a fenced broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One event of a controller, as far as it is about partitions or who may lead them.

    Attributes:
        kind: What happened, such as "fenced"; "" where nothing explains it.
        offset: Of the record in the metadata log that shows it.
        place: The partition, for what is about one.
        written: What its record sets; None where there is no record.
        expected: What it might have set instead, by what happened.
    """

    kind: str
    offset: int
    place: Place | None = None
    written: Fields | None = None
    expected: Sequence[tuple[str, Fields]] = ()


def quorum_decisions(evidence: RunEvidence) -> Iterator[Decision]:
    """Yield each decision of the controllers about partitions, explained or not.

    None where the release of the controllers is one that the model does not know.

    Raises:
        ScenarioDataError: A message at a link does not say what it should.
    """
    quorum = _quorum(evidence)
    if quorum is None:
        return
    outside, rolled = _outside(evidence), _rolled(evidence)
    logs = evidence.metadata_logs
    known_until = 0 if logs.first_snapshot is None else logs.first_snapshot.end_offset
    for _, batch in groupby(logs.entries, key=lambda entry: entry.batch):
        entries = list(batch)
        if isinstance(entries[0].record, LeaderChange):
            quorum = replace(quorum, generation=rolled(entries[0]) or quorum.generation)
        if entries[0].offset < known_until:
            for entry in entries:
                _apply(quorum.image, entry)
        else:
            yield from _Batch(quorum=quorum, outside=outside, entries=entries).decisions()


def decisions_of_controllers(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield a finding for each decision that no event explains, or that elects a fenced broker.

    What one batch of the metadata log has is applied at once, so a broker may be elected by the
    batch that unfences or fences it. Up to 4.0.2 controllers elect others too (KAFKA-19522).

    **Verifies**: every field of each record about a partition, by the rules of the controllers'
    release and the feature levels of the cluster. With links also that a leader asked for its ISR,
    and that a broker asked to be unfenced or to shut down.
    Preferred replicas are elected where an act asked for it, or a timer may have.
    **Does not verify**: which replicas and directories somebody chose; that a session had ended;
    the state that a snapshot has of before the log.
    """
    names = {name: topic for topic, ids in evidence.topic_ids.items() for name in ids}
    for decision in quorum_decisions(evidence):
        if decision.kind not in ("", _OF_FENCED):
            continue
        topic, partition = "", -1
        if decision.place is not None:
            topic, partition = names[decision.place[0]], decision.place[1]
        expected = [{"event": event, "record": dict(fields)} for event, fields in decision.expected]
        written = None if decision.written is None else dict(decision.written)
        leader = (decision.written or {}).get("Leader", -1)
        yield Finding(
            kind="fenced-leader" if decision.kind else "decision-not-allowed",
            topic=topic,
            partition=partition,
            brokers=(leader,) if leader >= 0 else (),
            message=f"offset {decision.offset} of the metadata log: {_told(decision)}",
            evidence={"offset": decision.offset, "written": written, "expected": expected},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A broker's AlterPartition or AssignReplicasToDirs for one partition, and the answer to it.

    Attributes:
        begun: When links saw the request.
        ended: When they saw the answer.
        read_at: Of the answer.
    """

    api: str
    broker: int
    place: Place
    asks: IsrProposal | Assignment
    answer: IsrAnswer
    begun: float
    ended: float
    read_at: str


def answers_of_controllers(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield a finding for each answer to a broker that no controller could give then.

    Brokers ask with AlterPartition for an ISR, with AssignReplicasToDirs for a replica's directory.

    A controller answers by its own log alone, and once all of that is committed
    (QuorumController.appendWriteEvent). Which record was the last, nobody saw: it lies between the
    request and the answer.

    **Verifies**: the error of each partition, and the ISR and partition epoch where there is none.
    **Does not verify**: an answer that no link saw, or that a link forged.
    """
    quorum, waiting = _quorum(evidence), _answered(evidence)
    if quorum is None or not waiting:
        return
    rolled = _rolled(evidence)
    possible: dict[str, list[IsrAnswer]] = {each.read_at: [] for each in waiting}
    entries = evidence.metadata_logs.entries
    for entry, later in zip(entries, (*entries[1:], None), strict=True):
        if isinstance(entry.record, LeaderChange):
            quorum = replace(quorum, generation=rolled(entry) or quorum.generation)
        _apply(quorum.image, entry)
        ends = math.inf if later is None else later.time_ms / 1000
        for each in waiting:
            if entry.time_ms / 1000 - _CLOCKS_S <= each.ended and each.begun - _CLOCKS_S <= ends:
                possible[each.read_at].append(_answer_to(quorum, each))
    names = {name: topic for topic, ids in evidence.topic_ids.items() for name in ids}
    for each in waiting:
        answers = possible[each.read_at]
        if answers and each.answer not in answers and each.answer.error not in _OF_ANY_NODE:
            ways = " or ".join(dict.fromkeys(map(_answer_in_words, answers)))
            yield Finding(
                kind="decision-not-allowed",
                topic=names.get(each.place[0], ""),
                partition=each.place[1],
                brokers=(each.broker,),
                message=f"{each.read_at}: a controller answered the {each.api} of broker "
                f"{each.broker} with {_answer_in_words(each.answer)}; possible was {ways}",
            )


def _answer_to(quorum: Quorum, asked: _Asked) -> IsrAnswer:
    if isinstance(asked.asks, Assignment):
        return IsrAnswer(controller.answer_to_assignment(quorum, asked.place, asked.asks))
    return controller.answer_to(quorum, asked.place, asked.asks)


def _answer_in_words(answer: IsrAnswer) -> str:
    if answer.error or not answer.isr:
        return answer.error.name
    return f"the ISR {list(answer.isr)} at partition epoch {answer.partition_epoch}"


def _answered(evidence: RunEvidence) -> list[_Asked]:
    """Return each partition of a request that links saw answered, in the answers' order."""
    asked: dict[tuple[int, int], LinkMessage] = {}
    answered: list[_Asked] = []
    for message in evidence.links or ():
        if message.api not in _ASKED_IN or message.detail is None:
            continue
        key = message.connection, message.correlation_id
        if message.direction == "request":
            if message.fate in ARRIVED:
                asked[key] = message
        elif message.fate != "forged" and (request := asked.pop(key, None)) is not None:
            answered += _pairs(request, message)
    return answered


def _pairs(request: LinkMessage, message: LinkMessage) -> Iterator[_Asked]:
    detail = message.detail or {}
    api = request.api or ""
    try:
        entries = {(each["topic_id"], each["partition"]): each for each in detail["partitions"]}
        for place, asks in _ASKED_IN[api](request):
            entry = entries.get(place, {})
            error = ErrorCode(detail["error_code"] or entry["error_code"])
            yield _Asked(
                api=api,
                broker=(request.detail or {})["broker_id"],
                place=place,
                asks=asks,
                answer=IsrAnswer(error)
                if error or isinstance(asks, Assignment)
                else IsrAnswer(error, tuple(entry["isr"]), entry["partition_epoch"]),
                begun=request.wall_time_s,
                ended=message.wall_time_s,
                read_at=f"{message.read_at} ({place[0]}-{place[1]})",
            )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ScenarioDataError(
            f"{message.read_at} answers {api} without the documented fields: {error!r}"
        ) from error


def _told(decision: Decision) -> str:
    if decision.kind:
        return f"broker {(decision.written or {})['Leader']} was elected while it was fenced"
    ways = [f"{_fields(fields)} ({event})" for event, fields in decision.expected if fields]
    expected = " or ".join(dict.fromkeys(ways))
    if decision.place is None:
        return f"{expected}: the broker had not asked for that"
    if decision.written is None:
        return f"nothing was written of the partition, and it should have been: {expected}"
    said = f"the controller wrote {_fields(decision.written)}"
    return f"{said}, which no event explains; possible was {expected or 'no change'}"


def _fields(fields: Fields) -> str:
    values = (
        f"{name} {list(value) if isinstance(value, tuple) else value}"
        for name, value in sorted(fields.items())
    )
    return ", ".join(values)


# -- what came from outside ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside:
    """What came to the controllers, as far as links saw it; None where there were none.

    Attributes:
        proposals: What leaders asked for, by partition.
        previous_epochs: By incarnation the broker epoch that its process tells of the one before.
        heartbeats: Broker epoch, whether the broker wants to be fenced, whether to shut down.
        assignments: The directories that brokers told of, by partition.
        asked: By election the partitions of which somebody may have asked for it; None for any.
    """

    proposals: Mapping[Place, Sequence[IsrProposal]] | None
    previous_epochs: Mapping[str, int]
    heartbeats: Collection[tuple[int, bool, bool]] | None
    assignments: Mapping[Place, Sequence[Assignment]] | None
    asked: Mapping[Election, Collection[Place] | None]


def _outside(evidence: RunEvidence) -> _Outside:
    arrived = [
        message
        for message in evidence.links or ()
        if message.direction == "request" and message.fate in (*ARRIVED, "forged")
    ]
    asked = [message for message in arrived if message.api == "AlterPartition"]
    told = [message for message in arrived if message.api == "BrokerHeartbeat"]
    assigned = [message for message in arrived if message.api == "AssignReplicasToDirs"]
    try:
        return _Outside(
            proposals=_by_place(asked, _proposals_in) if _are_seen(evidence, asked) else None,
            assignments=_by_place(assigned, _assignments_in)
            if _are_seen(evidence, assigned)
            else None,
            previous_epochs=_previous_epochs(arrived),
            heartbeats=_heartbeats(told) if _are_seen(evidence, told) else None,
            asked=_asked(evidence),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ScenarioDataError(
            f"links.jsonl has a message to a controller without the documented fields: {error!r}"
        ) from error


def _asked(evidence: RunEvidence) -> Mapping[Election, Collection[Place] | None]:
    """Return who may have asked: the preferred replica is elected by a controller's timer too."""
    unclean, ids = evidence.asked_unclean, evidence.topic_ids
    preferred = {
        TopicPartition(seen.act.topic, seen.act.partition)
        for _, seen in lines_of(evidence.observed, Act)
        if isinstance(seen.act, PreferredElection)
    }
    named: Mapping[Election, Collection[TopicPartition] | None] = {
        Election.PREFERRED: None if unclean is None or _may_balance(evidence) else preferred,
        Election.UNCLEAN: unclean,
    }
    return {
        election: places
        if places is None
        else {(topic_id, number) for topic, number in places for topic_id in ids.get(topic, ())}
        for election, places in named.items()
    }


def _may_balance(evidence: RunEvidence) -> bool:
    properties = evidence.scenario.cluster.properties
    times_ms = [entry.time_ms for entry in evidence.metadata_logs.entries] or [0]
    interval_s = number_in(properties, "leader.imbalance.check.interval.seconds") or _BALANCED_S
    is_on = properties.get("auto.leader.rebalance.enable", "true").lower() == "true"
    return is_on and times_ms[-1] - times_ms[0] >= 1000 * interval_s


def _are_seen(evidence: RunEvidence, messages: Sequence[LinkMessage]) -> bool:
    """Return whether links saw all of the brokers' messages, and could read them."""
    return evidence.links is not None and all(message.detail is not None for message in messages)


def _by_place(
    messages: Sequence[LinkMessage],
    asked_in: Callable[[LinkMessage], Iterator[tuple[Place, _Request]]],
) -> Mapping[Place, list[_Request]]:
    asked: dict[Place, list[_Request]] = {}
    for message in messages:
        for place, each in asked_in(message):
            asked.setdefault(place, []).append(each)
    return asked


def _proposals_in(message: LinkMessage) -> Iterator[tuple[Place, IsrProposal]]:
    detail = message.detail or {}
    for asked in detail["partitions"]:
        members = asked.get("new_isr_with_epochs")
        isr = (
            tuple((broker, -1) for broker in asked["new_isr"])
            if members is None
            else tuple((member["broker_id"], member["broker_epoch"]) for member in members)
        )
        proposal = IsrProposal(
            leader=detail["broker_id"],
            broker_epoch=detail["broker_epoch"],
            leader_epoch=asked["leader_epoch"],
            partition_epoch=asked["partition_epoch"],
            isr=isr,
            is_recovering=asked.get("leader_recovery_state") == 1,
        )
        yield (asked["topic_id"], asked["partition"]), proposal


def _assignments_in(message: LinkMessage) -> Iterator[tuple[Place, Assignment]]:
    detail = message.detail or {}
    for told in detail["partitions"]:
        assignment = Assignment(
            broker=detail["broker_id"],
            broker_epoch=detail["broker_epoch"],
            directory=told["directory"],
        )
        yield (told["topic_id"], told["partition"]), assignment


_ASKED_IN: Mapping[
    str, Callable[[LinkMessage], Iterator[tuple[Place, IsrProposal | Assignment]]]
] = {"AlterPartition": _proposals_in, "AssignReplicasToDirs": _assignments_in}


def _previous_epochs(messages: Sequence[LinkMessage]) -> Mapping[str, int]:
    """Return the previous epochs by incarnation, which BrokerRegistration has from version 3 on."""
    return {
        message.detail["incarnation_id"]: message.detail.get("previous_broker_epoch", -1)
        for message in messages
        if message.api == "BrokerRegistration" and message.detail is not None
    }


def _heartbeats(messages: Sequence[LinkMessage]) -> Collection[tuple[int, bool, bool]]:
    return {
        (detail["broker_epoch"], detail["want_fence"], detail["want_shut_down"])
        for message in messages
        if (detail := message.detail) is not None
    }


def _quorum(evidence: RunEvidence) -> Quorum | None:
    """Return a run's controllers, on the newest release that a broker was first started with."""
    try:
        releases = [broker.judged_as for broker in evidence.description.brokers.values()]
        generation = generation_for(max(releases, key=parse_version))
    except (ModelError, ValueError):
        return None
    properties = evidence.scenario.cluster.properties
    return Quorum(image=MetadataImage(), generation=generation, properties=properties)


def _rolled(evidence: RunEvidence) -> Callable[[LogEntry], Generation | None]:
    """Return a function of a leader's first entry: its release's rules, None if never restarted.

    Raises:
        ScenarioDataError: A controller was started with a release that nobody knows.
    """
    starts: dict[int, list[tuple[float, Generation]]] = {}
    for timed in evidence.actions:
        start = timed.event
        if isinstance(start, StartBroker) and start.broker not in evidence.description.brokers:
            begun = timed.time if timed.began is None else timed.began
            try:
                generation = generation_for(start.release)
            except ModelError as error:
                raise ScenarioDataError(f"controller {start.broker}: {error}") from error
            starts.setdefault(start.broker, []).append((begun, generation))

    def rolled(entry: LogEntry) -> Generation | None:
        assert isinstance(entry.record, LeaderChange)
        known = [
            generation
            for begun, generation in starts.get(entry.record.leader, ())
            if begun * 1000 <= entry.time_ms
        ]
        return known[-1] if known else None

    return rolled


def _apply(image: MetadataImage, entry: LogEntry) -> None:
    if isinstance(entry.record, LeaderChange):
        image.quorum_leader = entry.record.leader
    else:
        image.apply(entry.record, controller_epoch=entry.leader_epoch)


# -- one batch ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """An event that has a record of its own, and what may change by it.

    Attributes:
        comes_last: Whether its record is written behind the changes.
        ways: One, or two where nobody saw whether a process had ended in order.
        is_asked_for: Whether the broker may have asked for it.
    """

    broker: int
    kind: str
    comes_last: bool
    ways: tuple[Changes, ...]
    is_asked_for: bool = True


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The records of one batch: some events, one after the other, each with all its records.

    Attributes:
        at: The record that comes next; all before it are in the image.
        blamed: Partitions of which something was not explained.
        elected: By partition the offset of the last election, and what its record sets.
    """

    quorum: Quorum
    outside: _Outside
    entries: Sequence[LogEntry]
    at: int = 0
    blamed: set[Place] = field(default_factory=set)
    elected: dict[Place, tuple[int, Fields]] = field(default_factory=dict)

    def decisions(self) -> Iterator[Decision]:
        """Yield each decision; what comes of a record is taken before the next one is looked at."""
        brokers = self.quorum.image.brokers
        unfenced = {broker for broker, known in brokers.items() if not known.is_fenced}
        while self.at < len(self.entries):
            record = self.entries[self.at].record
            if not isinstance(record, MetadataRecord):
                self._take()
            elif record.name == _CHANGE:
                yield from self._changes()
            elif record.name == _CREATED:
                yield self._created(record.fields)
            else:
                yield from self._event()
        unfenced |= {broker for broker, known in brokers.items() if not known.is_fenced}
        for place, (offset, written) in self.elected.items():
            if written["Leader"] not in unfenced:
                yield Decision(kind=_OF_FENCED, offset=offset, place=place, written=written)

    def _take(self, count: int = 1) -> None:
        for entry in self.entries[self.at : self.at + count]:
            _apply(self.quorum.image, entry)
            record = entry.record
            if not isinstance(record, MetadataRecord) or record.name != _CHANGE:
                continue
            if record.fields["Leader"] >= 0:
                written = controller.said_by(record.fields)
                self.elected[_place(record.fields)] = entry.offset, written
        self.at += count

    def _written(self) -> dict[Place, Fields]:
        """Return the next changes with no other record between them and no partition twice."""
        written: dict[Place, Fields] = {}
        for entry in self.entries[self.at :]:
            record = entry.record
            if not isinstance(record, MetadataRecord) or record.name != _CHANGE:
                break
            place = _place(record.fields)
            if place in written:
                break
            written[place] = controller.said_by(record.fields)
        return written

    def _changes(self) -> Iterator[Decision]:
        """Yield what explains the next change, alone or with the event that ends a few of them."""
        written, offset = self._written(), self.entries[self.at].offset
        event = self._event_at(self.at + len(written))
        if event is not None and not event.comes_last:
            event = None
        if event is not None and written in event.ways:
            self._take(len(written) + 1)
            yield Decision(kind=event.kind, offset=offset)
            return
        place, fields = next(iter(written.items()))
        proposals, asked = self.outside.proposals, self.outside.asked
        assignments = self.outside.assignments
        ways = controller.alone(
            self.quorum,
            place,
            fields,
            None if proposals is None else proposals.get(place, ()),
            asked=[each for each, of in asked.items() if of is None or place in of],
            assignments=None if assignments is None else assignments.get(place, ()),
        )
        of_event = (
            []
            if event is None
            else [(event.kind, way[place]) for way in event.ways if place in way]
        )
        yield self._of_partition(offset, place, fields, [*of_event, *ways])
        self._take()

    def _event(self) -> Iterator[Decision]:
        """Yield whether the next record is written with all that changes by its event."""
        event, offset = self._event_at(self.at), self.entries[self.at].offset
        self._take()
        if event is None:
            return
        if not event.is_asked_for:
            yield Decision(
                kind="", offset=offset, expected=[(event.kind, {"Broker": event.broker})]
            )
        left = {} if event.comes_last else self._written()
        way = dict(next((way for way in event.ways if not way), event.ways[0]))
        for place, written in left.items():
            if place not in way:
                break
            expected = [(event.kind, way.pop(place))]
            yield self._of_partition(self.entries[self.at].offset, place, written, expected)
            self._take()
        missing = way.keys() - self.blamed
        for place in sorted(missing):
            yield self._of_partition(offset, place, None, [(event.kind, way[place])])
        if not missing:
            yield Decision(kind=event.kind, offset=offset)

    def _of_partition(
        self, offset: int, place: Place, written: Fields | None, ways: Sequence[tuple[str, Fields]]
    ) -> Decision:
        # A record that changes nothing is never written.
        kind = next((kind for kind, fields in ways if fields and fields == written), "")
        if not kind:
            self.blamed.add(place)
        return Decision(kind=kind, offset=offset, place=place, written=written, expected=ways)

    def _created(self, said: Fields) -> Decision:
        expected = controller.created(self.quorum, said["Replicas"])
        written = {name: said[name] for name in expected if name in said}
        offset = self.entries[self.at].offset
        self._take()
        return self._of_partition(offset, _place(said), written, [("topic created", expected)])

    def _event_at(self, at: int) -> _Event | None:
        """Return the event of a record that is about a broker, by the image as it is now."""
        record = self.entries[at].record if at < len(self.entries) else None
        if not isinstance(record, MetadataRecord):
            return None
        said = record.fields
        match record.name:
            case "FenceBrokerRecord":
                return self._fenced(said["Id"])
            case "UnfenceBrokerRecord":
                return self._unfenced(said["Id"])
            case "BrokerRegistrationChangeRecord":
                return self._registration_changed(said)
            case "RegisterBrokerRecord":
                return self._registered(said)
            case "UnregisterBrokerRecord":
                broker = said["BrokerId"]
                ways = (controller.unregistered(self.quorum, broker),)
                return _Event(broker=broker, kind="unregistered", comes_last=True, ways=ways)
        return None

    def _registration_changed(self, said: Fields) -> _Event | None:
        broker = said["BrokerId"]
        if said["Fenced"] == 1:
            return self._fenced(broker)
        if said["Fenced"] == -1:
            return self._unfenced(broker)
        if said.get("InControlledShutdown", 0) == 1:
            ways = (controller.fenced(self.quorum, broker),)
            asked = self._has_asked(broker, to_shut_down=True)
            return _Event(
                broker=broker, kind="shutdown", comes_last=False, ways=ways, is_asked_for=asked
            )
        if said.get("LogDirs"):
            gone = {*self.quorum.image.brokers[broker].directories} - {*said["LogDirs"]}
            ways = (controller.failed(self.quorum, broker, gone),)
            return _Event(broker=broker, kind="directory failed", comes_last=True, ways=ways)
        return None

    def _fenced(self, broker: int) -> _Event:
        ways = (controller.fenced(self.quorum, broker),)
        return _Event(broker=broker, kind="fenced", comes_last=True, ways=ways)

    def _unfenced(self, broker: int) -> _Event:
        ways = (controller.unfenced(self.quorum, broker),)
        asked = self._has_asked(broker, to_shut_down=False)
        return _Event(
            broker=broker, kind="unfenced", comes_last=False, ways=ways, is_asked_for=asked
        )

    def _registered(self, said: Fields) -> _Event:
        broker, incarnation = said["BrokerId"], said["IncarnationId"]
        previous = self.outside.previous_epochs.get(incarnation)
        known = self.quorum.image.brokers.get(broker)
        was_clean = known is not None and previous == known.epoch
        ways = tuple(
            controller.registered(self.quorum, broker, incarnation, is_clean=is_clean)
            for is_clean in ((True, False) if previous is None else (was_clean,))
        )
        return _Event(broker=broker, kind="registered", comes_last=True, ways=ways)

    def _has_asked(self, broker: int, *, to_shut_down: bool) -> bool:
        """Return whether a process may have asked to shut down, or else to be unfenced."""
        told, epoch = self.outside.heartbeats, self.quorum.image.brokers[broker].epoch
        return told is None or any(
            of == epoch and (shuts_down if to_shut_down else not fences)
            for of, fences, shuts_down in told
        )


def _place(said: Fields) -> Place:
    return said["TopicId"], said["PartitionId"]
