"""A follower that lives and fetches nothing."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.agent.points import SEND_FETCH
from kchaos.faults.api import Cluster, ClusterView, Injection, Journal, require_available
from kchaos.faults.jvm.holding import holding, unholdable


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeFollower:
    """None of a broker's fetcher threads sends a Fetch; each comes again at once, and truncates.

    So the broker keeps its log as it is, leads what it leads, and answers everybody. It leaves the
    ISR of what it follows once something is written there. `CutLink` does the same to one pair of
    brokers, and the broker at the other end sees no answers either.

    Attributes:
        broker: The follower.
    """

    broker: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.HoldPoint, acts.ReleasePoint)

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """The point before a Fetch is sent."""
        return {self.broker: (SEND_FETCH,)}

    def available(self, view: ClusterView) -> str:
        """The broker runs with the point."""
        return unholdable(view, self._act())

    def inject(self, cluster: Cluster, journal: Journal) -> AbstractContextManager[Injection]:
        """Freezes from the next Fetch on; lets it go on when left.

        Raises:
            NoEffect: On leaving: it had nothing to fetch.
        """
        require_available(self, cluster)
        return holding("FreezeFollower", self._act(), cluster, journal)

    def _act(self) -> acts.HoldPoint:
        return acts.HoldPoint(
            name=f"follower-{self.broker}", broker=self.broker, point=SEND_FETCH, manner="skip"
        )
