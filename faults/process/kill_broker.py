"""kill -9 of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.observation import await_unregistered, observe_broker
from faults.process.restart import (
    end_left_session,
    require_running,
    start_again,
    undo_unfinished,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker:
    """The broker's process ends by SIGKILL, and is started again on healing.

    Attributes:
        broker: Its id.
        end_session: Also end the session that it leaves behind, so that the controller sees the
            death at once and not after `zookeeper.session.timeout.ms`.
    """

    broker: int
    end_session: bool = True

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Kills, and returns once the registration is gone; starts it again on leaving.

        Raises:
            NoEffect: It has no process.
        """
        broker = broker_able(cluster, self.broker, Killable, Restartable)
        require_running(broker, "kill")
        before = observe_broker(cluster, self.broker)
        above_czxid = before.czxid or 0
        is_injected = False
        try:
            with journal.acting("kill-broker", broker=self.broker):
                broker.kill()
            journal.observed("broker-gone", broker=self.broker, exit_code=broker.exit_code)
            if self.end_session:
                end_left_session(cluster, journal, before)
            effect = await_unregistered(cluster, self.broker)
            is_injected = True
            yield Injection(
                fault="KillBroker",
                before=before.to_json(),
                effect={"exit_code": broker.exit_code, **effect.to_json()},
            )
        finally:
            heal = start_again if is_injected else undo_unfinished
            heal(cluster, journal, broker, above_czxid=above_czxid)
