"""A clean stop of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.process.restart import down, require_running


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
        with down(
            cluster,
            journal,
            broker,
            fault="StopBroker",
            act="stop-broker",
            end=lambda: broker.stop(self.timeout_s),
            end_session=False,
        ) as injection:
            yield injection
