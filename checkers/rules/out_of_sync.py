"""Liveness during a run: brokers that stay out of an ISR although no fault acts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.dropped import Healthy
from kchaos.checkers.evidence.given_settings import given_settings
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.events import Event, PartitionState, TopicCreated
from kchaos.checkers.observations import Healed, Injected
from kchaos.checkers.settings import OUTLASTS, WAITS_MS

LEAST_S = 14.0
"""From how many seconds on it is a finding, where no time-out of the brokers is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutOfSync:
    """A time in which a replica was out of the ISR for no reason."""

    partition: TopicPartition
    broker: int
    begun: float
    ended: float


def out_of_sync(evidence: RunEvidence) -> Iterator[tuple[Finding, float]]:
    """Yield each replica that stayed out of the ISR without a reason for at least `bound_s`.

    With it the seconds of standstill that may explain it, 0.0 if they do not.

    Counted is the time in which the replica's broker and the leader's were registered and ran, and
    no fault acted on the cluster: any fault may be what keeps a replica out. Time in which the
    machine let nothing run does not count. Where settling says why a partition is not at rest, that
    is the finding.

    **Verifies**: every partition that is judged, from ZooKeeper's log, the acts, and the faults in
    observations.jsonl, up to the last snapshot.
    **Does not verify**: that a replica could have been quicker, for it may have had much to fetch.
    """
    bound = bound_s(evidence)
    for out in _every(evidence):
        seconds = out.ended - out.begun
        stood = evidence.stood_still_s(out.begun, out.ended)
        if seconds >= bound and not evidence.outcome.gives_reason(out.broker, out.partition):
            yield _finding(out, bound), 0.0 if seconds - stood >= bound else stood


def _every(evidence: RunEvidence) -> Iterator[_OutOfSync]:
    progress = _Progress(assigned=dict.fromkeys(evidence.partitions, ()))
    happened: list[tuple[float, Event | Injected | Healed]] = [
        *((event.time, event.event) for event in evidence.events),
        *((line.time, fault) for line, fault in lines_of(evidence.observed, Injected)),
        *((line.time, fault) for line, fault in lines_of(evidence.observed, Healed)),
    ]
    for time, what in sorted(happened, key=lambda pair: pair[0]):
        progress.take(what)
        yield from progress.looked(time)
    end = max((snapshot.time for snapshot in evidence.snapshots), default=0.0)
    yield from progress.looked(end, end=True)


def bound_s(evidence: RunEvidence) -> float:
    """Return the least seconds to report, more than a broker may wait silently for a response."""
    given = [setting for setting in given_settings(evidence) if setting.name in WAITS_MS]
    everywhere = {setting.name for setting in given if setting.owner == "every broker"}
    waits = [int(setting.value) for setting in given if setting.value.strip().isdecimal()]
    waits += [default for name, default in WAITS_MS.items() if name not in everywhere]
    return max(LEAST_S, OUTLASTS * max(waits, default=0) / 1000)


@dataclass(slots=True)
class _Progress:
    """State at one moment, and since when each replica is out of its ISR for no reason."""

    assigned: dict[TopicPartition, tuple[int, ...]]
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    healthy: Healthy = field(default_factory=Healthy)
    acting: set[str] = field(default_factory=set)
    since: dict[tuple[TopicPartition, int], float] = field(default_factory=dict)

    def take(self, what: Event | Injected | Healed) -> None:
        if isinstance(what, Healed):
            self.acting.discard(what.name)
            return
        if isinstance(what, Injected):
            if what.lasting:
                self.acting.add(what.name)
            return
        self.healthy.failed(what)
        if isinstance(what, PartitionState):
            self.states[TopicPartition(what.topic, what.partition)] = what
        elif isinstance(what, TopicCreated):
            for number, replicas in enumerate(what.assignment):
                self.assigned[TopicPartition(what.topic, number)] = replicas

    def looked(self, time: float, *, end: bool = False) -> Iterator[_OutOfSync]:
        """Yield the replicas that returned to the ISR, and at the end all that are out of it."""
        out = set() if end else set(self._out())
        for replica in out - self.since.keys():
            self.since[replica] = time
        for partition, broker in sorted(self.since.keys() - out):
            begun = self.since.pop((partition, broker))
            yield _OutOfSync(partition=partition, broker=broker, begun=begun, ended=time)

    def _out(self) -> Iterator[tuple[TopicPartition, int]]:
        if self.acting:
            return
        for partition, replicas in self.assigned.items():
            state = self.states.get(partition)
            if state is None or state.leader not in self.healthy:
                continue
            for broker in set(replicas) - set(state.isr):
                if broker in self.healthy:
                    yield partition, broker


def _finding(out: _OutOfSync, bound: float) -> Finding:
    seconds: dict[str, Any] = {"from": out.begun, "to": out.ended, "bound_s": bound}
    return Finding(
        kind="out-of-sync",
        topic=out.partition.topic,
        partition=out.partition.partition,
        brokers=(out.broker,),
        message=f"broker {out.broker} was out of the ISR of {out.partition.name} "
        f"for {out.ended - out.begun:.1f} s while it and the leader ran and "
        f"no fault acted. No time-out explains {bound:g} s",
        evidence=seconds,
    )
