"""A clean stop of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Cluster, Killable, Restartable
from kchaos.faults.api import Injection, Journal, require_available
from kchaos.faults.process import restart
from kchaos.faults.view import ClusterView, down, held_inside, off_zookeeper, paused, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBroker:
    """SIGTERM: the broker flushes its logs, checkpoints and closes its session.

    It is started again on healing. A broker that stands still, is cut off from ZooKeeper, or
    has a thread that is held at a point, cannot stop cleanly.
    """

    broker: int
    timeout_s: float = 60

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StopBroker,
        acts.ExpireSession,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """A broker that runs, goes on and reaches ZooKeeper, with no thread that is held."""
        return (
            unable(view, self.broker, Killable, Restartable)
            or down(view, self.broker, "stop")
            or paused(view, self.broker)
            or off_zookeeper(view, self.broker)
            or held_inside(view, self.broker)
        )

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Stops, and returns once the process and its registration are gone.

        Raises:
            AwaitTimeout: It does not come to an end; then it is killed and started again.
        """
        require_available(self, cluster)
        broker = cluster.brokers[self.broker]
        with restart.down(
            cluster,
            journal,
            broker,
            fault="StopBroker",
            act=acts.StopBroker(broker=self.broker, clean=True),
            end=lambda: broker.stop(self.timeout_s),
            end_session=False,
        ) as injection:
            yield injection
