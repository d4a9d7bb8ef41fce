"""One step of a rolling upgrade: a broker stops cleanly and returns as something else."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from checkers import acts
from clusters.api import Cluster, Killable, Restartable
from faults.api import Injection, Journal, require_available
from faults.errors import NoEffect
from faults.observation import await_unregistered, observe_broker
from faults.process.restart import start_again, undo_unfinished
from faults.view import ClusterView, down, off_zookeeper, paused, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBroker:
    """SIGTERM, and a new start with another release, with other properties, or with both.

    There is nothing left to heal: the broker stays what it became.

    Attributes:
        kafka: A release or a path; "" for the one that it runs.
        properties: (name, value), added to the broker's own.
    """

    broker: int
    kafka: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 60

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.StopBroker, acts.StartBroker)

    def available(self, view: ClusterView) -> str:
        """A broker that runs, goes on and reaches ZooKeeper, and something to change."""
        return (
            unable(view, self.broker, Killable, Restartable)
            or down(view, self.broker, "stop")
            or paused(view, self.broker)
            or off_zookeeper(view, self.broker)
            or ("" if self.kafka or self.properties else "name a Kafka, or properties, to roll to")
        )

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Rolls, and returns once the broker is registered again and answers.

        Raises:
            AwaitTimeout, BrokerExited: It did not stop, or did not come back.
            NoEffect: It has another registration, and not another process.
        """
        require_available(self, cluster)
        broker = cluster.brokers[self.broker]
        before = observe_broker(cluster, self.broker)
        above_czxid = before.czxid or 0
        try:
            with journal.acting(acts.StopBroker(broker=self.broker, clean=True)):
                broker.stop(self.timeout_s)
            journal.observed("broker-gone", broker=self.broker, exit_code=broker.exit_code)
            await_unregistered(cluster, self.broker)
            start_again(
                cluster,
                journal,
                broker,
                above_czxid=above_czxid,
                kafka=self.kafka or None,
                properties=dict(self.properties),
            )
        except BaseException:
            undo_unfinished(cluster, journal, broker, above_czxid=above_czxid)
            raise
        after = observe_broker(cluster, self.broker)
        if after.pid == before.pid:
            raise NoEffect(f"broker {self.broker} did not end: {before} is still {after}")
        yield Injection(
            fault="RollBroker",
            before=before.to_json(),
            effect={**after.to_json(), "release": broker.release},
        )
