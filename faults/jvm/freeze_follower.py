"""A follower that lives and fetches nothing."""

from dataclasses import dataclass

from kchaos.checkers import acts
from kchaos.clusters.agent.points import SEND_FETCH
from kchaos.faults.jvm.holding import AtPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeFollower(AtPoint):
    """None of a broker's fetcher threads sends a Fetch; each comes again at once, and truncates.

    So the broker keeps its log as it is, leads what it leads, and answers everybody. It leaves the
    ISR of what it follows once something is written there. `CutLink` does the same to one pair of
    brokers, and the broker at the other end sees no answers either.

    Attributes:
        broker: The follower.
    """

    broker: int

    @property
    def _act(self) -> acts.HoldPoint:
        return acts.HoldPoint(
            name=f"follower-{self.broker}", broker=self.broker, point=SEND_FETCH, manner="skip"
        )
