"""A disk that takes nothing any more: writes of one broker fail, until its process ends."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.agent.points import disk_point
from kchaos.clusters.api import Collectable, Killable, Restartable
from kchaos.clusters.start.log_directories import replicas_in
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.jvm.holding import holding, unholdable
from kchaos.faults.process import restart
from kchaos.faults.view import FILE, ClusterView, down, paused, unable

_GOES_ON = (1, 0)
"""From this release on a log directory fails, and its broker ends when it has no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailDisk(CheckedFault):
    """What a broker writes to its disk, or to one folder or file there, fails with an error.

    The broker ends by itself: before 1.0 where a write fails, and from 1.0 on when its only log
    directory has failed (ReplicaManager.appendToLocalLog, 0.10.2.2; LogManager.handleLogDirFailure,
    1.0.2 to 3.9.1). On healing the disk works again, and the broker is started. Injecting returns
    when the process has ended, so something has to be written there: high watermarks are, by
    themselves, to "replication-offset-checkpoint.tmp". Needs what `SlowDisk` needs of the machine.

    Attributes:
        error: "ENOSPC", no space is left, or "EIO", an input/output error.
        path: A folder or a file of the log directory, such as "t-0"; "" for all of it.
    """

    broker: int
    error: acts.DiskError
    path: str = ""
    timeout_s: float = 60

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.HoldPoint,
        acts.FailLogDirectory,
        acts.StopBroker,
        acts.ExpireSession,
        acts.ReleasePoint,
        acts.RestoreLogDirectory,
        acts.StartBroker,
    )

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """The point of the disk."""
        return {self.broker: (self._act.point,)}

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs, on one log directory whose writes can fail."""
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts:
            return f"{FILE} {self.path!r} is not in a log directory: name it as 't-0'"
        why_not = (
            unable(view, self.broker, Killable, Restartable, Collectable)
            or down(view, self.broker, "end")
            or paused(view, self.broker)
            or unholdable(view, self._act)
        )
        if not why_not and view.brokers[self.broker].log_directories > 1:
            return f"broker {self.broker} has several log directories: use FailLogDirectory"
        return why_not

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Let writes fail; yield once the broker has ended by itself.

        Raises:
            AwaitTimeout: It did not end; it is killed then, and started again.
            NoEffect: It ended, and wrote nothing there.
        """
        broker = cluster.brokers[self.broker]
        errors = contextlib.ExitStack()

        def fail() -> None:
            errors.enter_context(self._failing(cluster, journal))
            try:
                await_until(
                    lambda: not broker.is_running,
                    timeout_s=self.timeout_s,
                    waiting_for=f"broker {self.broker} to end because of its disk",
                    last_seen=lambda: last_lines([broker.server_log]),
                    remedy=f"does it write to {self.path or 'its disk'!r}? see {broker.server_log}",
                )
            except BaseException:
                errors.close()
                raise

        with restart.down(
            cluster,
            journal,
            broker,
            fault="FailDisk",
            act=acts.StopBroker(broker=self.broker, clean=False),
            end=fail,
            end_session=True,
        ) as injection:
            try:
                yield injection
            finally:
                errors.close()

    @contextlib.contextmanager
    def _failing(self, cluster: Cluster, journal: Journal) -> Iterator[None]:
        """Let writes fail for the block; from 1.0 on that is a log directory that fails."""
        broker = cluster.brokers[self.broker]
        failed = acts.FailLogDirectory(
            broker=self.broker, directory=0, partitions=replicas_in(broker.log_directory)
        )
        restored = acts.RestoreLogDirectory(broker=self.broker, directory=0)
        is_followed = tuple(map(int, broker.judged_as.split(".")[:2])) >= _GOES_ON
        acting = journal.acting if is_followed else partial(contextlib.nullcontext)
        with contextlib.ExitStack() as holds:
            with acting(failed):
                holds.enter_context(holding("FailDisk", self._act, cluster, journal))
            yield
            with acting(restored):
                holds.close()

    @property
    def _act(self) -> acts.HoldPoint:
        point = disk_point("write", is_cached=False)
        return acts.HoldPoint(
            name=f"{point}-{self.broker}",
            broker=self.broker,
            point=point,
            manner="fail",
            error=self.error,
            path=self.path,
        )
