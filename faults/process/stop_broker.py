"""A clean stop of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.observation import await_unregistered, observe_broker
from faults.process.restart import require_running, start_again, undo_unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBroker:
    """SIGTERM: the broker flushes its logs, checkpoints and closes its session.

    It is started again on healing. A broker that is cut off from ZooKeeper cannot stop cleanly;
    then the stop times out and says so.
    """

    broker: int
    timeout_s: float = 60

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Stops, and returns once the process and its registration are gone.

        Raises:
            NoEffect: It has no process.
            AwaitTimeout: It does not come to an end; then it is killed and started again.
        """
        broker = broker_able(cluster, self.broker, Killable, Restartable)
        require_running(broker, "stop")
        before = observe_broker(cluster, self.broker)
        above_czxid = before.czxid or 0
        is_injected = False
        try:
            with journal.acting("stop-broker", broker=self.broker):
                broker.stop(self.timeout_s)
            journal.observed("broker-gone", broker=self.broker, exit_code=broker.exit_code)
            effect = await_unregistered(cluster, self.broker)
            is_injected = True
            yield Injection(
                fault="StopBroker",
                before=before.to_json(),
                effect={"exit_code": broker.exit_code, **effect.to_json()},
            )
        finally:
            heal = start_again if is_injected else undo_unfinished
            heal(cluster, journal, broker, above_czxid=above_czxid)
