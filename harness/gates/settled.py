"""Outcome of settling, collected while it goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.harness.gates.settle_bound import LEAST_S


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
