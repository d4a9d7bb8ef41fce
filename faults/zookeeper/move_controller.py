"""A new controller."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster
from clusters.waiting import await_until
from faults.api import Injection, Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveController:
    """The controller is deposed; every broker that sees it tries to become the controller.

    The old one may win again; the controller epoch grows in any case. There is nothing to heal.
    """

    timeout_s: float = 30

    lasting: ClassVar[bool] = False

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Takes its office, and returns once the controller epoch has grown.

        Raises:
            AwaitTimeout: No broker became the controller.
        """
        before = _office(cluster)
        with journal.acting("move-controller"):
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
