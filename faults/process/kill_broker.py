"""kill -9 of a broker."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker, Cluster, Killable, Restartable
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.observation import node_of
from kchaos.faults.process import restart
from kchaos.faults.view import ClusterView, down, unable

_RECOVERS = b"Loading logs"
"""A broker logs this before it loads its logs (LogManager.loadLogs, 0.10.2.2 to 3.9.1)."""
_RECOVERS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker(CheckedFault):
    """The broker's process ends by SIGKILL, and is started again on healing.

    Attributes:
        broker: Its id, or that of a KRaft controller.
        end_session: Also end the session that it leaves behind, so that the controller sees the
            death at once and not after `zookeeper.session.timeout.ms`. With KRaft the broker is
            fenced at once, and its next process waits for `broker.session.timeout.ms` all the same.
        await_return: Whether healing waits for the broker to be ready. Else something can happen
            while it starts: threads are held at a point (`HoldPoint`).
        in_recovery: Whether its next process is killed too, once it has begun to recover its logs.
    """

    broker: int
    end_session: bool = True
    await_return: bool = True
    in_recovery: bool = False

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StopBroker,
        acts.ExpireSession,
        acts.FenceBroker,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs; a paused one can be killed."""
        return unable(view, self.broker, Killable, Restartable, or_controller=True) or down(
            view, self.broker, "kill"
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Kill the broker; yield once its registration is gone; start it again on leaving.

        Raises:
            AwaitTimeout: On leaving: it did not begin to recover its logs, or was not ready.
        """
        broker = node_of(cluster, self.broker)
        killed = partial(
            restart.down,
            cluster,
            journal,
            broker,
            fault="KillBroker",
            act=acts.StopBroker(broker=self.broker, clean=False),
            end=broker.kill,
            end_session=self.end_session,
        )
        with contextlib.ExitStack() as healing:
            if self.in_recovery:
                again = killed(await_return=self.await_return)
                healing.callback(_kill_in_recovery, broker, _recoveries(broker), again)
            awaits = self.await_return and not self.in_recovery
            yield healing.enter_context(killed(await_return=awaits))


def _recoveries(broker: Broker) -> int:
    """Return how often the broker has begun to load its logs."""
    return broker.server_log.read_bytes().count(_RECOVERS)


def _kill_in_recovery(
    broker: Broker, recoveries: int, again: AbstractContextManager[Injection]
) -> None:
    """Wait until the broker, which starts, recovers its logs once more; then end it `again`."""
    await_until(
        lambda: _recoveries(broker) > recoveries,
        timeout_s=_RECOVERS_S,
        waiting_for=f"broker {broker.id} to begin to load its logs",
        last_seen=lambda: last_lines([broker.server_log]),
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )
    with again:
        pass
