"""A new controller."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Cluster, ClusterView, Injection, Journal
from kchaos.faults.process.pause_broker import PauseBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveController(CheckedFault):
    """The controller is deposed; every broker that sees it tries to become the controller.

    The old one may win again; the controller epoch grows in any case. There is nothing to heal.
    With KRaft the leader of the controllers is paused until the others have elected another one.
    """

    timeout_s: float = 30

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.MoveController,
        acts.PauseBroker,
        acts.ResumeBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker can become controller; with KRaft, count the controllers."""
        if view.is_kraft:
            return _not_movable(view)
        if any(broker.is_registered for broker in view.brokers.values()):
            return ""
        return "no broker is registered, so that none can become the controller"

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Make the broker controller; yield once the controller epoch has grown.

        Raises:
            AwaitTimeout: No broker became the controller.
        """
        before, paused = _office(cluster), None
        with contextlib.ExitStack() as pausing:
            with journal.acting(acts.MoveController()):
                leader = before["controller"]
                if leader is not None and leader in cluster.controllers:
                    pause = PauseBroker(broker=leader)
                    pausing.enter_context(pause.inject(cluster, journal))
                    paused = leader
                else:
                    cluster.metadata.depose_controller()
            effect = self._await_elected(cluster, before, paused)
        yield Injection(fault="MoveController", before=before, effect=effect)

    def _await_elected(
        self, cluster: Cluster, before: dict[str, int | None], paused: int | None
    ) -> dict[str, int | None]:
        """Return the office once its epoch has grown, and a controller has it that is not paused.

        The paused one may have been elected anew just before its pause, in a newer epoch.
        """
        seen = dict(before)

        def elected() -> bool:
            seen.update(_office(cluster))
            grown = (seen["controller_epoch"] or 0) > (before["controller_epoch"] or 0)
            return grown and seen["controller"] not in (None, paused)

        await_until(
            elected,
            timeout_s=self.timeout_s,
            waiting_for=f"a controller epoch above {before['controller_epoch']}",
            last_seen=lambda: seen,
            remedy="only who reaches ZooKeeper, or the other controllers, can be elected; see the "
            "server logs",
        )
        return seen


def _not_movable(view: ClusterView) -> str:
    """Return why no other KRaft controller could be elected while the leader is paused."""
    going_on = view.voters & view.controllers_going_on
    if view.controller is None:
        return "the controllers have no leader that could lose its office"
    if len(view.voters) == 1:
        return (
            "the cluster has one controller: give it three (controllers=3), or use KillBroker with "
            f"its id, {view.controller}"
        )
    if len(going_on) <= len(view.voters) // 2 + 1:
        return f"only {len(going_on)} controllers go on: without their leader they elect nobody"
    return ""


def _office(cluster: Cluster) -> dict[str, int | None]:
    metadata = cluster.metadata
    return {"controller": metadata.controller(), "controller_epoch": metadata.controller_epoch()}
