"""A broker without any network."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Broker, Cluster, Disconnectable
from clusters.probe import answers_at
from clusters.waiting import await_until
from faults.api import Injection, Journal, broker_able
from faults.errors import NoEffect
from faults.observation import BrokerObservation, observe_broker
from faults.process.restart import require_running
from faults.zookeeper.activity import await_heard, packets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectNetwork:
    """The broker's network is taken away: brokers, ZooKeeper and clients cannot reach it.

    Its process goes on, and so does what it thinks of the world. A real partition, where `CutLink`
    and `CutZooKeeper` leave clients and the others alone; only brokers with a network of their
    own can have it taken away. The model sees it as a cut between this broker and every other.

    Attributes:
        broker: Its id.
    """

    broker: int

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Disconnects, and returns once clients are cut off too.

        Leaving gives it back the same address and ports, and waits until clients and ZooKeeper
        hear of the broker again.

        Raises:
            NotCapable: The driver gives its brokers no network of their own.
            NoEffect: It has no process, or is disconnected already.
        """
        broker = broker_able(cluster, self.broker, Disconnectable)
        assert isinstance(broker, Disconnectable)
        require_running(broker, "disconnect")
        if not broker.is_connected:
            raise NoEffect(f"broker {self.broker} is disconnected already: heal that first")
        before = observe_broker(cluster, self.broker)
        with contextlib.ExitStack() as healing:
            with contextlib.ExitStack() as acts:
                # Also when the journal fails; healing twice does no harm.
                healing.callback(broker.reconnect)
                acts.enter_context(journal.acting("disconnect-network", broker=self.broker))
                for other in self._others(cluster):
                    ends = {"source": self.broker, "target": other}
                    acts.enter_context(journal.acting("cut-link", **ends, one_way=False))
                broker.disconnect()
            healing.callback(self._heal, cluster, journal, before)
            await_until(
                lambda: not answers_at(broker.client_address),
                timeout_s=30,
                waiting_for=f"broker {self.broker} not to answer clients any more",
                last_seen=lambda: f"an answer at {broker.client_address}",
            )
            yield Injection(
                fault="DisconnectNetwork",
                before=before.to_json(),
                effect={"is_connected": broker.is_connected, "clients_answered": False},
            )

    def _others(self, cluster: Cluster) -> list[int]:
        return [other for other in cluster.brokers if other != self.broker]

    def _heal(self, cluster: Cluster, journal: Journal, before: BrokerObservation) -> None:
        broker = cluster.brokers[self.broker]
        assert isinstance(broker, Disconnectable)
        heard = packets_of(cluster, before)
        with contextlib.ExitStack() as acts:
            acts.enter_context(journal.acting("reconnect-network", broker=self.broker))
            for other in self._others(cluster):
                acts.enter_context(journal.acting("heal-link", source=self.broker, target=other))
            broker.reconnect()
        if not broker.is_running:
            return
        _await_clients(broker)
        after = await_heard(cluster, before, heard)
        journal.observed("network-reconnected", **after.to_json())


def _await_clients(broker: Broker) -> None:
    await_until(
        lambda: answers_at(broker.client_address),
        timeout_s=60,
        waiting_for=f"broker {broker.id} to answer at {broker.client_address} again",
        last_seen=lambda: "no answer",
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )
