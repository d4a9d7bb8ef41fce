"""kill -9 of a broker."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.process.restart import down, require_running


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
        with down(
            cluster,
            journal,
            broker,
            fault="KillBroker",
            act="kill-broker",
            end=broker.kill,
            end_session=self.end_session,
        ) as injection:
            yield injection
