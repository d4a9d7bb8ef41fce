"""A broker that no other broker can reach: a network partition with it alone on one side."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.view import ClusterView, unable
from kchaos.faults.wire.cut_controllers import CutControllers
from kchaos.faults.wire.cut_link import CutLink
from kchaos.faults.zookeeper.cut_zookeeper import CutZooKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateBroker(CheckedFault):
    """Nothing passes between one node and all others of its kind; clients still reach a broker.

    It is a `CutLink` with each other broker, and with `zookeeper` a `CutZooKeeper` too. Then its
    session ends, as that of a machine whose switch has failed. With KRaft that is a
    `CutControllers`. A KRaft controller is cut from the other controllers, and brokers reach it
    still (KAFKA-15489); with `zookeeper` it is cut from every broker too.

    Attributes:
        broker: The broker, or the KRaft controller, that is alone.
        zookeeper: Whether it does not reach ZooKeeper, or any controller, either; of a controller,
            whether no broker reaches it.
        style: As of `CutLink`.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (*CutLink.performs, *CutZooKeeper.performs)

    broker: int
    zookeeper: bool = False
    style: acts.CutStyle = "silent"

    def available(self, view: ClusterView) -> str:
        """Check for another broker, links, a valid style, and no cut that its own would repeat."""
        if reason := unable(view, self.broker, or_controller=True):
            return reason
        if not self._cuts(view.brokers, view.controllers):
            kind = "controller" if self.broker in view.controllers else "broker"
            return f"{kind} {self.broker} is the only {kind}: nothing cuts it off from another"
        reasons = (cut.available(view) for cut in self._cuts(view.brokers, view.controllers))
        return next(filter(None, reasons), "")

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut link after link, ZooKeeper's last; heal them in reverse order."""
        with contextlib.ExitStack() as healing:
            cuts = [
                healing.enter_context(cut.inject(cluster, journal))
                for cut in self._cuts(cluster.brokers, cluster.controllers)
            ]
            yield Injection(
                fault="IsolateBroker",
                effect={"is_cut": all(cut.effect["is_cut"] for cut in cuts)},
                handle=[cut.handle for cut in cuts],
            )

    def _cuts(
        self, brokers: Collection[int], controllers: Collection[int]
    ) -> list[CutLink | CutZooKeeper | CutControllers]:
        is_controller = self.broker in controllers
        others = {*(controllers if is_controller else brokers)} - {self.broker}
        if is_controller and self.zookeeper:
            others |= {*brokers}
        cuts: list[CutLink | CutZooKeeper | CutControllers] = [
            CutLink(source=self.broker, target=other, style=self.style) for other in sorted(others)
        ]
        if cuts and self.zookeeper and not is_controller:
            kind = CutControllers if controllers else CutZooKeeper
            cuts.append(kind(broker=self.broker, style=self.style))
        return cuts
