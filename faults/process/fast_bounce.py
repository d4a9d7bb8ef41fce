"""A broker that is back before anybody has noticed that it was gone."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, broker_able
from faults.errors import NoEffect
from faults.observation import await_registered, await_unregistered, observe_broker
from faults.zookeeper.expire_session import end_session_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FastBounce:
    """kill -9, the old session ended from outside, and at once a new start.

    The result is a new process, a new session and a greater czxid, without the wait for
    `zookeeper.session.timeout.ms`. KIP-380 and KAFKA-1120 are about what brokers make of it.
    There is nothing left to heal.
    """

    broker: int

    lasting: ClassVar[bool] = False

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Bounces, and returns once the broker is registered again and answers."""
        broker = broker_able(cluster, self.broker, Killable, Restartable)
        before = observe_broker(cluster, self.broker)
        with journal.acting("kill-broker", broker=self.broker):
            broker.kill()
        if before.session_id is not None:
            end_session_of(cluster, before.session_id)
        await_unregistered(cluster, self.broker)
        with journal.acting("start-broker", broker=self.broker):
            broker.start()
        broker.await_ready()
        after = await_registered(cluster, self.broker, above_czxid=before.czxid or 0)
        if after.pid == before.pid or after.session_id == before.session_id:
            raise NoEffect(f"broker {self.broker} was not bounced: {before} is still {after}")
        journal.observed("broker-started", **after.to_json())
        yield Injection(fault="FastBounce", before=before.to_json(), effect=after.to_json())
