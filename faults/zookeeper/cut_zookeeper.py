"""A broker that cannot reach ZooKeeper."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from clusters.api import Cluster
from faults.api import Injection, Journal, broker_able, links_of
from faults.observation import BrokerObservation, observe_broker
from faults.zookeeper.activity import await_heard, packets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CutZooKeeper:
    """Nothing passes between the broker and ZooKeeper; other brokers still reach it.

    When its session has ended it is a zombie: it leads what it led and knows nothing of it.

    Attributes:
        broker: Its id.
        style: "silent" (connections stay open), "reset", or "dropped": those that are open are
            reset and new ones get no answer. A client pauses for up to a second before it makes a
            new one, and with "dropped" it does so while it is cut off, not after that.
    """

    broker: int
    style: Literal["silent", "reset", "dropped"] = "silent"

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts; heals on leaving, and then waits until ZooKeeper hears of the broker again.

        Does not wait for the session to end, which takes `zookeeper.session.timeout.ms`;
        `ExpireSession` inside it ends the session at once.

        Raises:
            RuleRefused: No such style, or the broker has no link to ZooKeeper.
        """
        broker_able(cluster, self.broker)
        links = links_of(cluster)
        before = observe_broker(cluster, self.broker)
        with contextlib.ExitStack() as healing:
            with journal.acting("cut-zookeeper", broker=self.broker):
                is_dropped = self.style == "dropped"
                cut = links.cut_zookeeper(self.broker, style="silent" if is_dropped else self.style)
                # Also when the journal fails; healing twice does no harm.
                healing.callback(cut.heal)
                if is_dropped:
                    # What comes after that meets the silent cut, which decides as the older one.
                    reset = links.cut_zookeeper(self.broker, style="reset")
                    healing.callback(reset.heal)
                    reset.heal()
            healing.callback(self._heal, cluster, journal, cut, before)
            yield Injection(
                fault="CutZooKeeper",
                before=before.to_json(),
                effect={"is_cut": not cut.is_healed, "packets": packets_of(cluster, before)},
                handle=cut,
            )

    def _heal(
        self, cluster: Cluster, journal: Journal, cut: Any, before: BrokerObservation
    ) -> None:
        heard = packets_of(cluster, before)
        with journal.acting("heal-zookeeper", broker=self.broker):
            cut.heal()
        if cluster.brokers[self.broker].is_running:
            after = await_heard(cluster, before, heard)
            journal.observed("broker-registered", **after.to_json())
