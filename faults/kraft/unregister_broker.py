"""A live broker that is no member of the cluster any more."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Cluster, Killable, Restartable
from kchaos.clusters.errors import MetadataRefused
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import await_unregistered, observe_broker
from kchaos.faults.process.restart import undo_unfinished
from kchaos.faults.view import ClusterView, needs_kraft, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker(CheckedFault):
    """The controller forgets the broker's registration.

    It leaves every ISR. A live broker goes on as a zombie: its heartbeats are refused, it registers
    no second time, and it fetches and serves as before (BrokerLifecycleManager only warns). So
    healing kills it and starts it again. A dead one may register again at once when it starts,
    without the wait for its old session.

    Attributes:
        broker: Its id.
    """

    broker: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.UnregisterBroker,
        acts.StopBroker,
        acts.FenceBroker,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check for a KRaft cluster; the broker need not run, and may be fenced."""
        return unable(view, self.broker, Killable, Restartable) or needs_kraft(
            view, "use CutZooKeeper and ExpireSession"
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Unregister the broker; yield once no registration is left.

        Raises:
            NoEffect: The controller refused, as where the broker was never registered.
        """
        broker = cluster.brokers[self.broker]
        before = observe_broker(cluster, self.broker)
        pid = broker.pid
        try:
            try:
                with journal.acting(acts.UnregisterBroker(broker=self.broker)):
                    cluster.metadata.unregister(self.broker)
            except MetadataRefused as error:
                raise NoEffect(str(error)) from error
            effect = await_unregistered(cluster, self.broker)
            yield Injection(
                fault="UnregisterBroker", before=before.to_json(), effect=effect.to_json()
            )
        finally:
            # Another process than the one that was unregistered has registered by itself.
            is_zombie = observe_broker(cluster, self.broker).czxid is None
            if pid is not None and broker.pid == pid and is_zombie:
                undo_unfinished(cluster, journal, broker, above_czxid=before.czxid or 0)
