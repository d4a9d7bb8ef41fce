"""Threads of one broker that stand still at a named point, and nowhere else."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.faults.api import Cluster, ClusterView, Injection, Journal, require_available
from kchaos.faults.jvm.holding import holding, unholdable


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPoint(acts.HoldPoint):
    """Holds, delays or skips what comes to a point until it is healed.

    Its fields are those of the act. What is held is seen in the handle's `held`. A handler thread
    that is held handles nothing else meanwhile; with as many held as `num.io.threads` the broker
    answers nobody.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.HoldPoint, acts.ReleasePoint)

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """The point."""
        return {self.broker: (self.point,)}

    def available(self, view: ClusterView) -> str:
        """A broker with that point, a manner that the point allows, a name that nothing has."""
        return unholdable(view, acts.act_of(acts.HoldPoint, self))

    def inject(self, cluster: Cluster, journal: Journal) -> AbstractContextManager[Injection]:
        """Holds; releases on leaving.

        Raises:
            NoEffect: On leaving: nothing came to the point while it was held.
        """
        require_available(self, cluster)
        return holding("HoldPoint", acts.act_of(acts.HoldPoint, self), cluster, journal)
