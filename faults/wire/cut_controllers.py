"""A broker that cannot reach the controllers."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.checkers.observations import BrokerSeen
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.observation import observe_broker
from kchaos.faults.view import ClusterView, needs_kraft, unable
from kchaos.faults.wire.cut_link import CutLink
from kchaos.faults.zookeeper.activity import await_heard, packets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CutControllers(CheckedFault):
    """Nothing passes between the broker and any controller; other brokers still reach it.

    It is a `CutLink` with each controller. After `broker.session.timeout.ms` the broker is fenced,
    and hears neither of that nor of anything that is decided: it leads what it led. `FenceBroker`
    inside it fences the broker at once.

    Attributes:
        broker: Its id.
        style: As of `CutLink`.
    """

    broker: int
    style: acts.CutStyle = "silent"

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = CutLink.performs

    def available(self, view: ClusterView) -> str:
        """Check for a KRaft cluster with links, a valid style, and no such cut already."""
        why_not = unable(view, self.broker) or needs_kraft(view, "use CutZooKeeper")
        if why_not:
            return why_not
        if self.broker in view.controllers:
            return f"broker {self.broker} is a controller too: use IsolateBroker"
        reasons = (cut.available(view) for cut in self.cuts(view.controllers))
        return next(filter(None, reasons), "")

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut; on leaving, heal and wait until a controller gets a heartbeat of the broker."""
        before = observe_broker(cluster, self.broker)
        with contextlib.ExitStack() as returning, contextlib.ExitStack() as healing:
            cuts = [
                healing.enter_context(cut.inject(cluster, journal))
                for cut in self.cuts(cluster.controllers)
            ]
            heard = packets_of(cluster, before)
            returning.callback(self._await_return, cluster, journal, before, heard)
            yield Injection(
                fault="CutControllers",
                before=before.to_json(),
                effect={"is_cut": all(cut.effect["is_cut"] for cut in cuts), "heard": heard},
                handle=[cut.handle for cut in cuts],
            )

    def _await_return(
        self, cluster: Cluster, journal: Journal, before: BrokerSeen, heard: dict[str, int]
    ) -> None:
        if cluster.brokers[self.broker].is_running:
            after = await_heard(cluster, before, heard)
            journal.observed(observations.BrokerRegistered(**after.to_json()))

    def cuts(self, controllers: Iterable[int]) -> list[CutLink]:
        """Return one cut for each controller."""
        return [
            CutLink(source=self.broker, target=controller, style=self.style)
            for controller in sorted(controllers)
        ]
