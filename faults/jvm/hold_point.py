"""Threads of one broker that stand still at a named point, and nowhere else."""

from dataclasses import dataclass

from kchaos.checkers import acts
from kchaos.faults.jvm.holding import AtPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPoint(AtPoint, acts.HoldPoint):
    """Holds, delays or skips what comes to a point until it is healed.

    Its fields are those of the act. What is held is seen in the handle's `held`. A handler thread
    that is held handles nothing else meanwhile; with as many held as `num.io.threads` the broker
    answers nobody.
    """

    @property
    def _act(self) -> acts.HoldPoint:
        return acts.act_of(acts.HoldPoint, self)
