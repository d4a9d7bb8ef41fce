"""Availability: for how long a run's partitions, writers and readers had no service.

Everything is measured from the evidence alone. The cluster's decisions, and the acts that ended
processes, say when a partition had no leader that ran, and how many replicas were in sync. What
links in front of brokers saw says when writes were acknowledged, and when records were read. What
no evidence can tell is None, and `Availability.not_measured` has the reason; it is never 0.

For a part of a run, such as one broker's turn in an upgrade, use `Availability.seconds_between`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Literal

from kchaos.checkers.acts import StopBroker, TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.clients import CLIENTS, READ_COMMITTED, ClientLine, client_exchanges
from kchaos.checkers.evidence.dropped import Healthy
from kchaos.checkers.evidence.faults import acted_faults
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.checkers.model.values.events import PartitionState, TopicConfigured, TopicDeleted
from kchaos.checkers.observations import FreeClientsStopped

SHORTEST_S = 0.5
"""A time without an acknowledged write, and a stall, count from so many seconds on."""
_MIN_ISR = "min.insync.replicas"

OutageKind = Literal["no-leader", "no-acknowledged-write", "under-min-isr", "stall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time without a service.

    Attributes:
        kind: "no-leader": the cluster had decided on none, or its process did not run.
            "no-acknowledged-write": from the first write with acks=all that was not acknowledged
            to the next one that was. "under-min-isr": fewer replicas were in the ISR than
            min.insync.replicas. "stall": a consumer did not get a record that was acknowledged.
        began: Seconds since the epoch.
        ended: Likewise; the end of what was seen where it lasted to the end.
        is_over: Whether the service was seen to come back.
        consumer: Of a stall, the consumer in words; else "".
    """

    kind: OutageKind
    topic: str
    partition: int
    began: float
    ended: float
    is_over: bool
    consumer: str = ""

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAvailability:
    """One partition.

    Attributes:
        measured_s: From its first leader to the last snapshot of the run.
        without_leader_s: Seconds without a leader whose process ran.
        under_min_isr_s: Seconds with fewer replicas in the ISR than min.insync.replicas.
        writes: Writes with acks=all that links saw clients send to it; None if nobody could see.
        without_acknowledged_write_s: Seconds in which clients tried to write with acks=all and none
            was acknowledged; None if nobody tried, or nobody could see.
    """

    topic: str
    partition: int
    measured_s: float
    without_leader_s: float
    under_min_isr_s: float
    writes: int | None
    without_acknowledged_write_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAvailability:
    """One consumer: the members of a group together, else the clients of one id and host.

    Attributes:
        records: How many came, each time counted anew.
        longest_stall_s: The longest time in which an acknowledged record was not given to it while
            it read that partition; 0 if all came within `SHORTEST_S`, None if nothing that it read
            was seen to be acknowledged.
        topic: The partition of that stall, with `partition`; "" without one.
    """

    consumer: str
    records: int
    longest_stall_s: float | None
    topic: str = ""
    partition: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAvailability:
    """Effect of one fault on the service as a whole.

    Attributes:
        injected: Seconds since the epoch.
        healed: Likewise; None if it left nothing to heal, or never was.
        is_back: Whether all that was interrupted while it acted was seen to come back.
        service_back_s: From its injection to the end of the last outage that began while it acted;
            0 if none did, None if the service did not come back. A fault that leaves nothing to
            heal acts until the next one.
        together_with: Other faults that were injected while it acted: the seconds are of all.
    """

    name: str
    fault: str
    injected: float
    healed: float | None
    is_back: bool
    service_back_s: float | None
    together_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Measurements of a run's service.

    Attributes:
        outages: Every time without a service, by its beginning.
        not_measured: What could not be measured, and why, a sentence each.
    """

    partitions: tuple[PartitionAvailability, ...] = ()
    consumers: tuple[ConsumerAvailability, ...] = ()
    faults: tuple[FaultAvailability, ...] = ()
    outages: tuple[Outage, ...] = ()
    not_measured: tuple[str, ...] = ()

    def seconds_between(
        self, kind: OutageKind, began: float, ended: float, partition: TopicPartition | None = None
    ) -> float:
        """Return the seconds of a part of the run that were outages of a kind.

        Without a partition, any counts, and a second without two of them counts once.
        """
        chosen = (
            (max(outage.began, began), min(outage.ended, ended))
            for outage in self.outages
            if outage.kind == kind and partition in (None, (outage.topic, outage.partition))
        )
        return _covered_s(span for span in chosen if span[0] < span[1])


def _covered_s(spans: Iterable[tuple[float, float]]) -> float:
    seconds, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        seconds += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return round(seconds, 3)


def measure(evidence: RunEvidence) -> Availability:
    """Measure a run's availability from its evidence.

    Raises:
        CheckError: Evidence cannot be read.
    """
    end = max((snapshot.time for snapshot in evidence.snapshots), default=None)
    if end is None:
        return Availability(not_measured=("availability: the run has no snapshot of its end",))
    decided = _Decided(evidence)
    for timed in sorted(evidence.events, key=lambda timed: timed.time):
        decided.take(timed.time, timed.event)
    outages = [*decided.outages(end)]
    not_measured: list[str] = []
    unseen = _unseen(evidence)
    tried: dict[TopicPartition, int] = {}
    consumers: list[ConsumerAvailability] = []
    if unseen:
        not_measured.append(f"times without an acknowledged write, and stalls of readers: {unseen}")
    elif evidence.clients is not None:
        dated = [operation for operation in evidence.operations if not operation.is_said]
        writes = _Writes(
            dated, [stopped for _, stopped in lines_of(evidence.observed, FreeClientsStopped)]
        )
        tried = {partition: len(sent) for partition, sent in writes.tried.items()}
        outages += writes.outages()
        readers = _Readers(evidence.clients.lines)
        for name in readers.names:
            stalls, is_known = readers.stalls(name, writes, evidence.clients.transactional)
            outages += stalls
            consumers.append(_consumer(name, readers.records[name], stalls, is_known))
    outages.sort(key=lambda outage: (outage.began, outage.kind, outage.topic, outage.partition))
    measured = Availability(outages=tuple(outages))
    return Availability(
        partitions=tuple(
            PartitionAvailability(
                topic=partition.topic,
                partition=partition.partition,
                measured_s=round(max(0.0, end - decided.since[partition]), 3),
                without_leader_s=measured.seconds_between("no-leader", 0, end, partition),
                under_min_isr_s=measured.seconds_between("under-min-isr", 0, end, partition),
                writes=None if unseen else tried.get(partition, 0),
                without_acknowledged_write_s=None
                if partition not in tried
                else measured.seconds_between("no-acknowledged-write", 0, end, partition),
            )
            for partition in evidence.partitions
            if partition in decided.since
        ),
        consumers=tuple(consumers),
        faults=tuple(_faults(evidence, outages, end)),
        outages=measured.outages,
        not_measured=tuple(not_measured),
    )


def _unseen(evidence: RunEvidence) -> str:
    """Return why the clients' reads and writes are unknown, or ""."""
    if evidence.clients is None:
        return "the run has no links in front of its brokers (client_links)"
    if not evidence.files.has(CLIENTS):
        return f"{CLIENTS} is missing"
    return next(iter(evidence.clients.unseen), "")


@dataclass(slots=True)
class _Decided:
    """Follows leaders, ISRs and processes; `outages` has the times without what is needed."""

    evidence: RunEvidence
    healthy: Healthy = field(default_factory=Healthy)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
    since: dict[TopicPartition, float] = field(default_factory=dict)
    of_brokers: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    open: dict[tuple[OutageKind, TopicPartition], float] = field(default_factory=dict)
    done: list[Outage] = field(default_factory=list)

    def take(self, time: float, event: object) -> None:
        self.healthy.failed(event)  # type: ignore[arg-type]
        if isinstance(event, StopBroker):
            # Only the next process, which registers, leads again.
            self.healthy.registered.discard(event.broker)
        elif isinstance(event, PartitionState):
            partition = TopicPartition(event.topic, event.partition)
            self.states[partition] = event
            if event.leader >= 0:
                self.since.setdefault(partition, time)
        elif isinstance(event, TopicDeleted):
            self.states = {
                partition: state
                for partition, state in self.states.items()
                if partition.topic != event.topic
            }
        elif isinstance(event, TopicConfigured):
            given = dict(event.configuration).get(_MIN_ISR, "")
            self.min_isr.pop(event.topic, None)
            if given.isascii() and given.isdigit() and len(given) < 10:
                self.min_isr[event.topic] = int(given)
        now = {*self._lacking()}
        for key in now - self.open.keys():
            self.open[key] = time
        for key in self.open.keys() - now:
            self._close(key, time, is_over=True)

    def outages(self, end: float) -> Sequence[Outage]:
        for key in sorted(self.open):
            if self.open[key] < end:
                self._close(key, end, is_over=False)
        return self.done

    def _close(self, key: tuple[OutageKind, TopicPartition], time: float, is_over: bool) -> None:
        kind, partition = key
        outage = Outage(
            kind=kind,
            topic=partition.topic,
            partition=partition.partition,
            began=self.open.pop(key),
            ended=time,
            is_over=is_over,
        )
        self.done.append(outage)

    def _lacking(self) -> Iterator[tuple[OutageKind, TopicPartition]]:
        for partition, state in self.states.items():
            if partition not in self.since:
                continue
            if state.leader not in self.healthy:
                yield "no-leader", partition
            if len(state.isr) < self._wanted(partition, state.leader):
                yield "under-min-isr", partition

    def _wanted(self, partition: TopicPartition, leader: int) -> int:
        if partition.topic in self.min_isr:
            return self.min_isr[partition.topic]
        if (partition, leader) not in self.of_brokers:
            wanted = self.evidence.min_insync_replicas(partition, leader)
            self.of_brokers[partition, leader] = wanted
        return self.of_brokers[partition, leader]


class _Writes:
    """Writes with acks=all by partition: those that clients tried, and all that was acknowledged.

    kchaos's own writes are no tries, for a scenario may hold one on purpose. One that is
    acknowledged shows that the partition works.

    Args:
        clients: What clients of kchaos's that run freely said of themselves: times in which they
            saw no write acknowledged. So a client that had nobody to send to is seen too.
    """

    def __init__(
        self, operations: Iterable[Operation], clients: Sequence[FreeClientsStopped] = ()
    ) -> None:
        self.clients = clients
        self.tried: dict[TopicPartition, list[Operation]] = {}
        self.acknowledged: dict[TopicPartition, list[tuple[int, float]]] = {}
        for operation in operations:
            if operation.function != "produce" or operation.acks != -1:
                continue
            partition = TopicPartition(operation.topic, operation.partition)
            if operation.client:
                self.tried.setdefault(partition, []).append(operation)
            if operation.outcome == "ok" and operation.ended_at is not None:
                told = (operation.last_offset, operation.ended_at)
                self.acknowledged.setdefault(partition, []).append(told)
        self._readable: dict[TopicPartition, tuple[list[int], list[float]]] = {}
        for partition, each in self.acknowledged.items():
            each.sort()
            earliest = list(accumulate((time for _, time in reversed(each)), min))[::-1]
            self._readable[partition] = ([offset for offset, _ in each], earliest)

    def outages(self) -> Iterator[Outage]:
        for partition, tried in sorted(self.tried.items()):
            good = sorted(time for _, time in self.acknowledged.get(partition, ()))
            last_seen = max(max(each.invoked_at, each.ended_at or 0.0) for each in tried)
            tries = [(operation.invoked_at, last_seen) for operation in tried]
            tries += [
                (wait.began, wait.ended)
                for stopped in self.clients
                for wait in stopped.waits
                if (stopped.topic, wait.partition) == partition
            ]
            spells: dict[float, Outage] = {}
            for began, until in sorted(tries):
                following = bisect_left(good, began)
                is_over = following < len(good)
                ended = until
                if is_over and (until == last_seen or good[following] < until):
                    ended = good[following]
                spell = Outage(
                    kind="no-acknowledged-write",
                    topic=partition.topic,
                    partition=partition.partition,
                    began=began,
                    ended=ended,
                    is_over=is_over,
                )
                spells.setdefault(spell.ended, spell)
            yield from (spell for spell in spells.values() if spell.seconds >= SHORTEST_S)

    def first_unread(self, partition: TopicPartition, position: int, since: float) -> float | None:
        """Return the time of the first acknowledgement from `position` on, at least `since`.

        None where none was.
        """
        offsets, earliest = self._readable.get(partition, ([], []))
        index = bisect_left(offsets, position)
        return max(since, earliest[index]) if index < len(offsets) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A moment at which a consumer asked for a partition's records, or was given some.

    Attributes:
        position: The next offset that it wants.
    """

    time: float
    position: int
    is_given: bool
    is_committed_only: bool


class _Readers:
    """Readers by consumer and partition: each request for records, and each record that came."""

    def __init__(self, lines: Sequence[ClientLine]) -> None:
        groups: dict[tuple[str | None, str], str] = {}
        for line in lines:
            if line.group:
                groups.setdefault((line.client_id, _host(line)), line.group)
        self.records: dict[str, int] = {}
        self._looks: dict[str, dict[TopicPartition, list[_Look]]] = {}
        for asked, answer in client_exchanges(lines):
            if asked.api != "Fetch":
                continue
            name = _name_of(asked, groups)
            for place in asked.partitions:
                if place.topic is not None and place.fetch_offset >= 0:
                    partition = TopicPartition(place.topic, place.partition)
                    self._look(name, partition, asked, asked.time, place.fetch_offset, 0)
            for came in answer.partitions if answer is not None else ():
                batches = [batch for batch in came.batches if batch.payloads]
                if came.topic is not None and came.error_code == 0 and batches:
                    partition = TopicPartition(came.topic, came.partition)
                    records = sum(len(batch.payloads) for batch in batches if not batch.is_control)
                    position = max(batch.last_offset for batch in batches) + 1
                    assert answer is not None
                    self._look(name, partition, asked, answer.time, position, records)

    def _look(
        self,
        name: str,
        partition: TopicPartition,
        asked: ClientLine,
        time: float,
        position: int,
        records: int,
    ) -> None:
        if is_internal(partition.topic):
            return
        self.records[name] = self.records.get(name, 0) + records
        look = _Look(
            time=time,
            position=position,
            is_given=records > 0,
            is_committed_only=asked.isolation_level == READ_COMMITTED,
        )
        self._looks.setdefault(name, {}).setdefault(partition, []).append(look)

    @property
    def names(self) -> Sequence[str]:
        return sorted(self._looks)

    def stalls(
        self, name: str, writes: _Writes, transactional: Mapping[TopicPartition, frozenset[int]]
    ) -> tuple[list[Outage], bool]:
        """Return a consumer's stalls, and whether the evidence excludes any others.

        When a record of a transaction may be read is not followed.
        """
        stalls: list[Outage] = []
        is_known = False
        for partition, seen in sorted(self._looks[name].items()):
            looks = sorted(seen, key=lambda look: look.time)
            if partition in transactional and any(look.is_committed_only for look in looks):
                continue
            is_known = is_known or partition in writes.acknowledged
            for waiting, served in _waits(looks):
                began = writes.first_unread(partition, waiting.position, waiting.time)
                ended = served.time
                if began is not None and ended - began >= SHORTEST_S:
                    stalls.append(
                        Outage(
                            kind="stall",
                            topic=partition.topic,
                            partition=partition.partition,
                            began=began,
                            ended=ended,
                            is_over=served.is_given,
                            consumer=name,
                        )
                    )
        return stalls, is_known


def _waits(looks: Sequence[_Look]) -> Iterator[tuple[_Look, _Look]]:
    """Yield where each wait began and what ended it: records, or the end of the observations."""
    served = [look for look in looks if look.is_given]
    ends = [looks[0], *served, *([looks[-1]] if not looks[-1].is_given else [])]
    yield from pairwise(ends)


def _host(line: ClientLine) -> str:
    return line.address.rpartition(":")[0]


def _name_of(line: ClientLine, groups: Mapping[tuple[str | None, str], str]) -> str:
    group = line.group or groups.get((line.client_id, _host(line)), "")
    return f"group {group!r}" if group else f"client {line.client_id or ''!r} at {_host(line)}"


def _consumer(
    name: str, records: int, stalls: Sequence[Outage], is_known: bool
) -> ConsumerAvailability:
    longest = max(stalls, key=lambda stall: stall.seconds, default=None)
    if longest is None:
        return ConsumerAvailability(
            consumer=name, records=records, longest_stall_s=0.0 if is_known else None
        )
    return ConsumerAvailability(
        consumer=name,
        records=records,
        longest_stall_s=round(longest.seconds, 3),
        topic=longest.topic,
        partition=longest.partition,
    )


def _faults(
    evidence: RunEvidence, outages: Sequence[Outage], end: float
) -> Iterator[FaultAvailability]:
    """Yield the effect of each fault on the service, in the order of the faults."""
    spans = acted_faults(evidence.observed)
    for number, span in enumerate(spans):
        began, heal, fault = span.began, span.healed, span.injected
        following = [other.began for other in spans[number + 1 :]]
        until = end
        if heal is not None:
            until = heal
        elif not fault.lasting and following:
            until = following[0]
        of_it = [outage for outage in outages if began <= outage.began < until]
        is_back = all(outage.is_over for outage in of_it)
        last = max((outage.ended for outage in of_it), default=began)
        yield FaultAvailability(
            name=fault.name,
            fault=fault.fault,
            injected=began,
            healed=heal,
            is_back=is_back,
            service_back_s=round(last - began, 3) if is_back else None,
            together_with=tuple(
                dict.fromkeys(other.injected.name for other in spans if began < other.began < until)
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds that a scenario's expectation may set under "availability", each in seconds.

    Attributes:
        without_leader_s: Of each partition; likewise the next two.
        consumer_stall_s: Of each consumer, its longest stall.
        service_back_s: Of each fault, the time until the service was back.
    """

    without_leader_s: float | None = None
    without_acknowledged_write_s: float | None = None
    under_min_isr_s: float | None = None
    consumer_stall_s: float | None = None
    service_back_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse a bound below 0, which nothing could keep."""
        for name, bound in asdict(self).items():
            if bound is not None and not 0 <= bound < float("inf"):
                raise ShapeError(f"{name} is {bound!r}: a bound is a number of seconds from 0 on")


def bounds_of(expectation: object) -> Bounds | None:
    """Return the bounds in a scenario's expectation, or None if it has none.

    Raises:
        ScenarioDataError: They are not of that form.
    """
    if not isinstance(expectation, Mapping) or "availability" not in expectation:
        return None
    try:
        return from_json(Bounds, expectation["availability"])
    except (ShapeError, TypeError, AttributeError) as error:
        raise ScenarioDataError(f"expectation: availability: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """One value that a bound holds for.

    Attributes:
        bound: A field of `Bounds`.
        seconds: What was measured; None where the service never came back.
        what: It in words, such as "t-0 was without a leader".
    """

    bound: str
    seconds: float | None
    what: str
    topic: str = ""
    partition: int = -1


_OF_PARTITIONS = {
    "without_leader_s": "was without a leader",
    "without_acknowledged_write_s": "had no write acknowledged that clients tried with acks=all",
    "under_min_isr_s": "was under min.insync.replicas",
}


def bounded(availability: Availability) -> Iterator[Bounded]:
    """Yield each measured value that an expectation can bound."""
    for partition in availability.partitions:
        for bound, what in _OF_PARTITIONS.items():
            seconds = getattr(partition, bound)
            if seconds is not None:
                yield Bounded(
                    bound=bound,
                    seconds=seconds,
                    what=f"{partition.topic}-{partition.partition} {what}",
                    topic=partition.topic,
                    partition=partition.partition,
                )
    for consumer in availability.consumers:
        if consumer.longest_stall_s is not None:
            yield Bounded(
                bound="consumer_stall_s",
                seconds=consumer.longest_stall_s,
                what=f"{consumer.consumer} got no acknowledged record of "
                f"{consumer.topic}-{consumer.partition}",
                topic=consumer.topic,
                partition=consumer.partition,
            )
    for fault in availability.faults:
        yield Bounded(
            bound="service_back_s",
            seconds=fault.service_back_s,
            what=f"after {fault.fault} {fault.name!r} the service was not back",
        )


def bounds_not_measured(
    bounds: Bounds, availability: Availability, stood_s: float
) -> Iterator[str]:
    """Yield each bound that the evidence cannot check, for one since the machine stood still.

    Without a fault the time until the service is back is kept.
    """
    asked, measured = asdict(bounds), set()
    for value in bounded(availability):
        measured.add(value.bound)
        bound, seconds = asked[value.bound], value.seconds
        if bound is not None and seconds is not None and bound < seconds <= bound + stood_s:
            yield (
                f"{value.what} for {seconds:g} s; the scenario allows {bound:g} s, and the machine "
                f"stood still for {stood_s:.1f} s"
            )
    for name, bound in asked.items():
        if bound is not None and name not in measured and name != "service_back_s":
            why = "; ".join(availability.not_measured) or "no client wrote or read its partition"
            yield f"the bound {name} was given, and could not be measured: {why}"
