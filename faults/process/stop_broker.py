"""A clean stop of a broker."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker, Cluster, Killable, Restartable
from kchaos.clusters.errors import AwaitTimeout
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.observation import node_of
from kchaos.faults.process import restart
from kchaos.faults.view import ClusterView, down, held_inside, off_metadata, paused, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBroker(CheckedFault):
    """SIGTERM: the broker flushes its logs, checkpoints and closes its session.

    It is started again on healing. A broker that stands still, is cut off from ZooKeeper, or
    has a thread that is held at a point, cannot stop cleanly.

    Attributes:
        broker: Its id, or that of a KRaft controller.
        await_end: False to return as soon as the broker has been asked, so that something can
            happen while it shuts down; then healing waits for its end first.
    """

    broker: int
    timeout_s: float = 60
    await_end: bool = True

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.AskBrokerToStop,
        acts.StopBroker,
        acts.ExpireSession,
        acts.FenceBroker,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs, is not paused, reaches ZooKeeper, and has no held thread."""
        return (
            unable(view, self.broker, Killable, Restartable, or_controller=True)
            or down(view, self.broker, "stop")
            or paused(view, self.broker)
            or off_metadata(view, self.broker)
            or held_inside(view, self.broker)
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Stop the broker; yield once its process and its registration are gone.

        Raises:
            AwaitTimeout: It does not come to an end; then it is killed and started again.
        """
        broker = node_of(cluster, self.broker)
        if not self.await_end:
            asking = journal.acting(acts.AskBrokerToStop(broker=self.broker))
            # It is asked again on healing, which does no harm.
            with asking, contextlib.suppress(AwaitTimeout):
                broker.stop(timeout_s=0)
            yield Injection(fault="StopBroker", effect={"is_running": broker.is_running})
        with self._down(cluster, journal, broker) as injection:
            if self.await_end:
                yield injection

    def _down(
        self, cluster: Cluster, journal: Journal, broker: Broker
    ) -> AbstractContextManager[Injection]:
        return restart.down(
            cluster,
            journal,
            broker,
            fault="StopBroker",
            act=acts.StopBroker(broker=self.broker, clean=True),
            end=lambda: broker.stop(self.timeout_s),
            end_session=False,
        )
