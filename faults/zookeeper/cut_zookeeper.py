"""A broker that cannot reach ZooKeeper."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster
from faults.api import Injection, Journal, broker_able, links_of
from faults.observation import await_registered, observe_broker


@dataclass(frozen=True, slots=True, kw_only=True)
class CutZooKeeper:
    """Nothing passes between the broker and ZooKeeper; other brokers still reach it.

    When its session has ended it is a zombie: it leads what it led and knows nothing of it.

    Attributes:
        broker: Its id.
        style: "silent" (connections stay open) or "reset".
    """

    broker: int
    style: str = "silent"

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts; heals on leaving, and waits until the broker is registered."""
        broker = broker_able(cluster, self.broker)
        links = links_of(cluster)
        before = observe_broker(cluster, self.broker)
        with journal.acting("cut-zookeeper", broker=self.broker):
            cut = links.cut_zookeeper(self.broker, style=self.style)
        try:
            yield Injection(fault="CutZooKeeper", before=before.to_json(), handle=cut)
        finally:
            with journal.acting("heal-zookeeper", broker=self.broker):
                cut.heal()
            if broker.is_running:
                after = await_registered(cluster, self.broker, above_czxid=(before.czxid or 0) - 1)
                journal.observed("broker-registered", **after.to_json())
