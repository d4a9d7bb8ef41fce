"""Whether replication goes on during a run: who stays out of an ISR although no fault acts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.dropped import Healthy
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.events import Event, PartitionState, TopicCreated

BOUND_S = 14.0
"""From how many seconds on it is told: beyond a follower's time-outs and pauses by default."""


def out_of_sync(evidence: RunEvidence) -> Iterator[Finding]:
    """Yields a note for each replica that stayed out of the ISR for `BOUND_S` or longer.

    Counted is the time in which the replica's broker and the leader's were registered and ran, and
    no fault acted on the cluster: any fault may be what keeps a replica out.

    **Verifies**: every partition that is judged, from ZooKeeper's log, the acts, and the faults in
    observations.jsonl, up to the last snapshot.
    **Does not verify**: that a replica could have been quicker, for it may have had much to fetch.
    """
    progress = _Progress(assigned=dict.fromkeys(evidence.partitions, ()))
    happened: list[tuple[float, Event | Observed]] = [
        *((one.time, one.event) for one in evidence.events),
        *((one.time, one) for one in evidence.observed if one.kind in ("injected", "healed")),
    ]
    for time, what in sorted(happened, key=lambda pair: pair[0]):
        progress.take(what)
        yield from progress.looked(time)
    yield from progress.looked(max((one.time for one in evidence.snapshots), default=0.0), end=True)


@dataclass(slots=True)
class _Progress:
    """What holds at one moment, and since when each replica is out of its ISR for no reason."""

    assigned: dict[TopicPartition, tuple[int, ...]]
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    healthy: Healthy = field(default_factory=Healthy)
    acting: set[str] = field(default_factory=set)
    since: dict[tuple[TopicPartition, int], float] = field(default_factory=dict)

    def take(self, what: Event | Observed) -> None:
        if isinstance(what, Observed):
            if what.kind == "healed":
                self.acting.discard(what.text("name"))
            elif what.detail.get("lasting"):
                self.acting.add(what.text("name"))
            return
        self.healthy.failed(what)
        if isinstance(what, PartitionState):
            self.states[TopicPartition(what.topic, what.partition)] = what
        elif isinstance(what, TopicCreated):
            for number, replicas in enumerate(what.assignment):
                self.assigned[TopicPartition(what.topic, number)] = replicas

    def looked(self, time: float, *, end: bool = False) -> Iterator[Finding]:
        """Yields who was out of sync for too long, of those who are so no more."""
        out = set() if end else set(self._out())
        for one in out - self.since.keys():
            self.since[one] = time
        for one in self.since.keys() - out:
            begun = self.since.pop(one)
            if time - begun >= BOUND_S:
                yield _finding(*one, begun, time)

    def _out(self) -> Iterator[tuple[TopicPartition, int]]:
        if self.acting:
            return
        for about, replicas in self.assigned.items():
            state = self.states.get(about)
            if state is None or state.leader not in self.healthy:
                continue
            for broker in set(replicas) - set(state.isr):
                if broker in self.healthy:
                    yield about, broker


def _finding(about: TopicPartition, broker: int, begun: float, ended: float) -> Finding:
    seconds: dict[str, Any] = {"from": begun, "to": ended, "bound_s": BOUND_S}
    return Finding(
        kind="out-of-sync",
        topic=about.topic,
        partition=about.partition,
        brokers=(broker,),
        message=f"broker {broker} was out of the ISR of {about.topic}-{about.partition} for "
        f"{ended - begun:.1f} s while it and the leader ran and no fault acted; {BOUND_S:g} s is "
        "where that is told",
        evidence=seconds,
    )
