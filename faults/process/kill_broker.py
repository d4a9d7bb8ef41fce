"""kill -9 of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Cluster, Killable, Restartable
from kchaos.faults.api import Injection, Journal, require_available
from kchaos.faults.observation import node_of
from kchaos.faults.process import restart
from kchaos.faults.view import ClusterView, down, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker:
    """The broker's process ends by SIGKILL, and is started again on healing.

    Attributes:
        broker: Its id, or that of a KRaft controller.
        end_session: Also end the session that it leaves behind, so that the controller sees the
            death at once and not after `zookeeper.session.timeout.ms`. With KRaft the broker is
            fenced at once, and its next process waits for `broker.session.timeout.ms` all the same.
        await_return: Whether healing waits for the broker to be ready. Else something can happen
            while it starts: it is killed in its recovery, or held at a point (`HoldPoint`).
    """

    broker: int
    end_session: bool = True
    await_return: bool = True

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StopBroker,
        acts.ExpireSession,
        acts.FenceBroker,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs; a paused one can be killed."""
        return unable(view, self.broker, Killable, Restartable, or_controller=True) or down(
            view, self.broker, "kill"
        )

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Kill the broker; yield once its registration is gone; start it again on leaving."""
        require_available(self, cluster)
        broker = node_of(cluster, self.broker)
        with restart.down(
            cluster,
            journal,
            broker,
            fault="KillBroker",
            act=acts.StopBroker(broker=self.broker, clean=False),
            end=broker.kill,
            end_session=self.end_session,
            await_return=self.await_return,
        ) as injection:
            yield injection
