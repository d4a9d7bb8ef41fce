"""A live broker that the controllers take for dead."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.fencing import fence_registered
from kchaos.faults.observation import await_registered, observe_broker
from kchaos.faults.view import ClusterView, needs_kraft, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBroker(CheckedFault):
    """The controller fences the broker, by a heartbeat in its name that asks for it.

    It leaves every ISR, and what it led gets another leader at once. Its own next heartbeat
    unfences it with the same broker epoch; leaving waits for that. A broker whose heartbeats are
    held (`HoldRequests`), or that is cut off (`CutControllers`), stays fenced and may know nothing
    of it; inject this inside it.

    Attributes:
        broker: Its id.
        await_return: Whether leaving waits for the broker to be unfenced.
    """

    broker: int
    await_return: bool = True

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.FenceBroker,)

    def available(self, view: ClusterView) -> str:
        """Check for a KRaft cluster whose broker is not fenced; it need not run."""
        why_not = unable(view, self.broker) or needs_kraft(view, "use ExpireSession")
        if not why_not and not view.brokers[self.broker].is_registered:
            return f"broker {self.broker} cannot be fenced: it is fenced, or not registered"
        return why_not

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Fence the broker; yield once the controller has confirmed it.

        Raises:
            NoEffect: The controller refused.
        """
        before = observe_broker(cluster, self.broker)
        epoch = before.czxid
        if epoch is None:
            raise NoEffect(f"broker {self.broker} was fenced just now by another client")
        try:
            fence_registered(cluster, journal, before)
            effect = observe_broker(cluster, self.broker)
            yield Injection(fault="FenceBroker", before=before.to_json(), effect=effect.to_json())
        finally:
            if self.await_return and cluster.brokers[self.broker].is_running:
                after = await_registered(cluster, self.broker, above_czxid=epoch - 1)
                journal.observed(observations.BrokerRegistered(**after.to_json()))
