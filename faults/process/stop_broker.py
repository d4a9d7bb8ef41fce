"""A clean stop of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.observation import await_unregistered, observe_broker
from faults.process.restart import start_again


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
        """Stops, and returns once the process and its registration are gone."""
        broker = broker_able(cluster, self.broker, Killable, Restartable)
        before = observe_broker(cluster, self.broker)
        with journal.acting("stop-broker", broker=self.broker):
            broker.stop(self.timeout_s)
        effect = await_unregistered(cluster, self.broker)
        try:
            yield Injection(
                fault="StopBroker",
                before=before.to_json(),
                effect={"exit_code": broker.exit_code, **effect.to_json()},
            )
        finally:
            start_again(cluster, journal, broker, above_czxid=before.czxid or 0)
