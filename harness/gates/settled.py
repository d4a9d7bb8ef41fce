"""Outcome of settling, and for how long nothing may change before a partition counts as stalled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.settings import OUTLASTS, WAITS_MS

LEAST_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleBound:
    """Seconds for which nothing may change.

    Attributes:
        seconds: Above 0.
        source: What it follows from, or who said so, for people.
        needed_s: What the configured time-outs need; less than that may be too short.
    """

    seconds: float
    source: str
    needed_s: float


def settle_bound(
    brokers: Iterable[Mapping[str, str]], wanted_s: float | None = None
) -> SettleBound:
    """Return a bound beyond the longest timeout of these brokers, or the wanted one.

    Args:
        brokers: The properties of each.
        wanted_s: What somebody set; None for what the time-outs need.
    """
    waits_ms = [
        (int(properties.get(name, default)), name)
        for properties in brokers
        for name, default in WAITS_MS.items()
    ]
    longest_ms, name = max(waits_ms, default=(0, ""))
    needed_s = max(LEAST_S, OUTLASTS * longest_ms / 1000)
    if wanted_s is not None:
        source = f"set for this run; its brokers' time-outs need {needed_s:g} s"
        return SettleBound(seconds=wanted_s, source=source, needed_s=needed_s)
    source = f"{OUTLASTS:g} times the longest time-out, {name}={longest_ms}"
    if needed_s == LEAST_S:
        source = f"the least there is; the longest time-out is {name}={longest_ms}"
    return SettleBound(seconds=needed_s, source=source, needed_s=needed_s)


@dataclass(slots=True)
class Settled:
    """Result of settling one run.

    Attributes:
        state: "converged", "failed" or "stalled"; the worst over all partitions.
        reasons: Findings in the making: kind, broker, topic, partition, detail.
        partitions: Those that were there and that nobody was deleting.
        bound_s: How long nothing may change before it counts as stalled.
        bound_from: What the bound follows from, or that it was set.
        probes: The probe writes and what came back.
        last_seen: State znode, log ends and fetcher evidence of each partition.
    """

    state: str = "converged"
    reasons: list[dict[str, Any]] = field(default_factory=list)
    partitions: Sequence[TopicPartition] = ()
    bound_s: float = LEAST_S
    bound_from: str = ""
    probes: list[observations.SettleProbe] = field(default_factory=list)
    last_seen: dict[str, Any] = field(default_factory=dict)

    def told(self) -> observations.SettleOutcome:
        """Return the part that is written down."""
        return observations.SettleOutcome(
            state=self.state,
            reasons=tuple(self.reasons),
            bound_s=self.bound_s,
            bound_from=self.bound_from,
            probes=tuple(self.probes),
            last_seen=self.last_seen,
        )

    def add(self, kind: str, partition: TopicPartition | None, broker: int, detail: str) -> None:
        """Add a reason for not settling, without a partition if it concerns the whole cluster."""
        place = {} if partition is None else partition._asdict()
        self.reasons.append({"kind": kind, "broker": broker, **place, "detail": detail})

    def worsen(self, state: str) -> None:
        """Keep the worst state of all partitions."""
        order = ("converged", "failed", "stalled")
        self.state = max(self.state, state, key=order.index)

    def seen(self, partition: TopicPartition) -> Mapping[str, Any]:
        """Return the last observation of a partition."""
        seen: Mapping[str, Any] = self.last_seen[f"{partition.name}"]
        return seen
