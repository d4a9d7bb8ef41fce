"""A controller that is slow to handle that brokers came or went."""

from dataclasses import dataclass

from kchaos.checkers import acts
from kchaos.checkers.acts import CONTROLLER_BROKER_CHANGE
from kchaos.faults.api import ClusterView
from kchaos.faults.jvm.holding import AtPoint, unholdable


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldController(AtPoint):
    """The controller's event thread stands still as soon as it has a broker change to handle.

    The broker itself goes on: it serves as leader and follower, keeps its session, and answers
    ControlledShutdown if its handler threads do that. When the thread goes on it reads the list of
    brokers. So it sees what all changes meanwhile have come to (KAFKA-5502, from 0.11.0 on);
    on 0.10.2 the list is the one from before. A pause of the whole process is `PauseBroker`, with a
    longer session for that broker.

    Attributes:
        broker: The controller.
    """

    broker: int

    def available(self, view: ClusterView) -> str:
        """Check that the broker is the controller, runs and has the point."""
        why_not = unholdable(view, self._act)
        if why_not or view.controller == self.broker:
            return why_not
        return f"broker {self.broker} is not the controller: broker {view.controller} is"

    @property
    def _act(self) -> acts.HoldPoint:
        return acts.HoldPoint(
            name=f"controller-{self.broker}", broker=self.broker, point=CONTROLLER_BROKER_CHANGE
        )
