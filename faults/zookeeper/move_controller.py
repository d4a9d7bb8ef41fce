"""A new controller."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Cluster
from kchaos.clusters.waiting import await_until
from kchaos.faults.api import Injection, Journal, require_available
from kchaos.faults.view import ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveController:
    """The controller is deposed; every broker that sees it tries to become the controller.

    The old one may win again; the controller epoch grows in any case. There is nothing to heal.
    """

    timeout_s: float = 30

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.MoveController,)

    def available(self, view: ClusterView) -> str:
        """A registered broker that could become the controller."""
        if any(broker.is_registered for broker in view.brokers.values()):
            return ""
        return "no broker is registered, so that none can become the controller"

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Takes its office, and returns once the controller epoch has grown.

        Raises:
            AwaitTimeout: No broker became the controller.
        """
        require_available(self, cluster)
        before = _office(cluster)
        with journal.acting(acts.MoveController()):
            cluster.metadata.depose_controller()
        seen = dict(before)

        def elected() -> bool:
            seen.update(_office(cluster))
            grown = (seen["controller_epoch"] or 0) > (before["controller_epoch"] or 0)
            return grown and seen["controller"] is not None

        await_until(
            elected,
            timeout_s=self.timeout_s,
            waiting_for=f"a controller epoch above {before['controller_epoch']}",
            last_seen=lambda: seen,
            remedy="only brokers that reach ZooKeeper can be elected; see their server logs",
        )
        yield Injection(fault="MoveController", before=before, effect=seen)


def _office(cluster: Cluster) -> dict[str, int | None]:
    metadata = cluster.metadata
    return {
        "controller": metadata.controller(),
        "controller_epoch": metadata.controller_epoch(),
    }
