"""A broker that is slow to read its log for those who fetch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kchaos.checkers import acts
from kchaos.checkers.acts import Readers
from kchaos.clusters.agent.points import FETCH_READ, FETCH_REQUEST, LOG_READ
from kchaos.faults.api import ClusterView
from kchaos.faults.jvm.holding import AtPoint, unholdable

Where = Literal["request", "read", "log"]
_POINTS: Mapping[str, str] = {"request": FETCH_REQUEST, "read": FETCH_READ, "log": LOG_READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowFetchReads(AtPoint):
    """Reads for Fetch requests wait, all of them or those of followers or of consumers only.

    The request has arrived. Where it waits decides what else waits (KIP-501): at "request" a
    handler thread has it in hand and has not looked at it; at "read" it is about to read, and holds
    no lock; at "log" it is inside the read of one partition's log. From 2.1 on a read at "log"
    holds that partition's leaderIsrUpdateLock for reading meanwhile, so that the ISR cannot shrink
    (kafka.cluster.Partition.readRecords). Producers finish waiting fetches too and may be kept.
    As many held reads as `num.io.threads` stop the broker.

    Attributes:
        readers: Whose.
        where: See above.
        delay_ms: How long each read waits; None for until it is healed.
        topic: With `partition`, only reads that concern this partition; not at "request".
    """

    broker: int
    readers: Readers = "followers"
    where: Where = "read"
    delay_ms: int | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """The point where reads wait; none for a place that `available` refuses."""
        return {self.broker: (_POINTS[self.where],) if self.where in _POINTS else ()}

    def available(self, view: ClusterView) -> str:
        """Check that the broker has the point."""
        if self.where not in _POINTS:
            return f"where is {self.where!r}; use {' or '.join(map(repr, _POINTS))}"
        if self.delay_ms is not None and self.delay_ms <= 0:
            return f"delay_ms is {self.delay_ms}: a delay is longer than 0, None holds"
        return unholdable(view, self._act)

    @property
    def _act(self) -> acts.HoldPoint:
        return acts.HoldPoint(
            name=f"{self.readers}-{self.where}-{self.broker}",
            broker=self.broker,
            point=_POINTS[self.where],
            manner="hold" if self.delay_ms is None else "delay",
            delay_ms=self.delay_ms or 0,
            readers=self.readers,
            topic=self.topic,
            partition=self.partition,
        )
