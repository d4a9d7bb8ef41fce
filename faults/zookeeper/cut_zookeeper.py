"""A broker that cannot reach ZooKeeper."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from clusters.api import Cluster
from clusters.waiting import await_until
from faults.api import Injection, Journal, broker_able, links_of
from faults.observation import BrokerObservation, check_process, observe_broker
from faults.zookeeper.activity import packets_received


@dataclass(frozen=True, slots=True, kw_only=True)
class CutZooKeeper:
    """Nothing passes between the broker and ZooKeeper; other brokers still reach it.

    When its session has ended it is a zombie: it leads what it led and knows nothing of it.

    Attributes:
        broker: Its id.
        style: "silent" (connections stay open) or "reset".
    """

    broker: int
    style: Literal["silent", "reset"] = "silent"

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
                cut = links.cut_zookeeper(self.broker, style=self.style)
                # Also when the journal fails; healing twice does no harm.
                healing.callback(cut.heal)
            healing.callback(self._heal, cluster, journal, cut, before)
            yield Injection(
                fault="CutZooKeeper",
                before=before.to_json(),
                effect={"is_cut": not cut.is_healed, "packets": _packets(cluster, before)},
                handle=cut,
            )

    def _heal(
        self, cluster: Cluster, journal: Journal, cut: Any, before: BrokerObservation
    ) -> None:
        """Heals and waits for a new registration, or for a sign of life in the old session.

        The old registration alone says nothing: its session may be about to end.
        """
        heard = _packets(cluster, before)
        with journal.acting("heal-zookeeper", broker=self.broker):
            cut.heal()
        broker = cluster.brokers[self.broker]
        if not broker.is_running:
            return
        seen = [before]

        def returned() -> bool:
            seen[0] = now = observe_broker(cluster, self.broker)
            if now.czxid is None or now.session_id != before.session_id:
                return now.czxid is not None
            packets = _packets(cluster, before)
            return any(count > heard.get(connection, 0) for connection, count in packets.items())

        await_until(
            returned,
            timeout_s=60,
            waiting_for=f"ZooKeeper to hear of broker {self.broker} again",
            last_seen=lambda: f"{seen[0].to_json()}, {_packets(cluster, before)}, was {heard}",
            remedy=f"see {broker.server_log}",
            abort=lambda: check_process(broker),
        )
        journal.observed("broker-registered", **seen[0].to_json())


def _packets(cluster: Cluster, before: BrokerObservation) -> dict[str, int]:
    return {} if before.session_id is None else packets_received(cluster, before.session_id)
