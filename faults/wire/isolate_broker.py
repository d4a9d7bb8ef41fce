"""A broker that no other broker can reach: a network partition with it alone on one side."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.faults.api import Cluster, Injection, Journal, require_available
from kchaos.faults.view import ClusterView, unable
from kchaos.faults.wire.cut_controllers import CutControllers
from kchaos.faults.wire.cut_link import CutLink
from kchaos.faults.zookeeper.cut_zookeeper import CutZooKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateBroker:
    """Nothing passes between one broker and all the others, both ways; clients still reach it.

    It is a `CutLink` with each other broker, and with `zookeeper` a `CutZooKeeper` too. Then its
    session ends, as that of a machine whose switch has failed. With KRaft that is a
    `CutControllers`.

    Attributes:
        broker: The broker that is alone.
        zookeeper: Whether it does not reach ZooKeeper, or any controller, either.
        style: As of `CutLink`.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (*CutLink.performs, *CutZooKeeper.performs)

    broker: int
    zookeeper: bool = False
    style: acts.CutStyle = "silent"

    def available(self, view: ClusterView) -> str:
        """Check for another broker, links, a valid style, and no cut that its own would repeat."""
        if reason := unable(view, self.broker):
            return reason
        if len(view.brokers) == 1:
            return f"broker {self.broker} is the only broker: nothing cuts it off from another"
        reasons = (cut.available(view) for cut in self._cuts(view.brokers, view.is_kraft))
        return next(filter(None, reasons), "")

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut link after link, ZooKeeper's last; heal them in reverse order."""
        require_available(self, cluster)
        with contextlib.ExitStack() as healing:
            cuts = [
                healing.enter_context(cut.inject(cluster, journal))
                for cut in self._cuts(cluster.brokers, bool(cluster.controllers))
            ]
            yield Injection(
                fault="IsolateBroker",
                effect={"is_cut": all(cut.effect["is_cut"] for cut in cuts)},
                handle=[cut.handle for cut in cuts],
            )

    def _cuts(
        self, brokers: Iterable[int], is_kraft: bool
    ) -> list[CutLink | CutZooKeeper | CutControllers]:
        cuts: list[CutLink | CutZooKeeper | CutControllers] = [
            CutLink(source=self.broker, target=other, style=self.style)
            for other in sorted(set(brokers) - {self.broker})
        ]
        if self.zookeeper:
            kind = CutControllers if is_kraft else CutZooKeeper
            cuts.append(kind(broker=self.broker, style=self.style))
        return cuts
