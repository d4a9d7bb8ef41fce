"""A disk that is slow: what the kernel asks of it for one broker takes longer."""

from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.checkers import acts
from kchaos.clusters.agent.point import DISK_OPERATIONS, DiskOperation
from kchaos.clusters.agent.points import POINTS, disk_point
from kchaos.faults.api import ClusterView
from kchaos.faults.jvm.holding import AtPoint, unholdable


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(AtPoint):
    """Each read, write or flush of a broker's disk takes so much longer, whoever in it asks.

    The broker's log.dir lies on a file system that kchaos serves (`clusters.disk`) while it runs.
    Without the page cache each read of a segment comes to the disk; behind it only reads of what
    the kernel does not have in memory, and nobody waits for what is written, as on any disk. Index
    files are mapped, and always cached. A thread that waits for its disk cannot be killed: a broker
    that is dies when the delay is over. Needs root or fusermount3, /dev/fuse, libfuse and mfusepy.

    Attributes:
        operation: "read", "write" or "flush" (fsync).
        delay_ms: By how much.
        page_cache: Whether the page cache is there. One broker's disks are all alike.
        topic: With `partition`, only the files of this partition; None for all, checkpoints too.
    """

    broker: int
    operation: DiskOperation
    delay_ms: int
    page_cache: bool = True
    topic: str | None = None
    partition: int | None = None

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """The point of the disk; none for an operation that `available` refuses."""
        return {self.broker: (self._point,) if self._point in POINTS else ()}

    def available(self, view: ClusterView) -> str:
        """Check that the broker's disk has the point."""
        if self.operation not in DISK_OPERATIONS:
            return f"operation is {self.operation!r}; use {' or '.join(map(repr, DISK_OPERATIONS))}"
        if self._point not in POINTS:
            return f"behind the page cache nobody waits for a {self.operation}: take a flush"
        return unholdable(view, self._act)

    @property
    def _point(self) -> str:
        return disk_point(self.operation, is_cached=self.page_cache)

    @property
    def _act(self) -> acts.HoldPoint:
        return acts.HoldPoint(
            name=f"{self._point}-{self.broker}",
            broker=self.broker,
            point=self._point,
            manner="delay",
            delay_ms=self.delay_ms,
            topic=self.topic,
            partition=self.partition,
        )
