"""A broker without any network."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.api import Broker, Cluster, Disconnectable
from kchaos.clusters.ask.probe import answers_at
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.observation import observe_broker
from kchaos.faults.view import ClusterView, down, unable
from kchaos.faults.zookeeper.activity import await_heard, packets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectNetwork(CheckedFault):
    """The broker's network is taken away: brokers, ZooKeeper and clients cannot reach it.

    Its process goes on, and so does what it thinks of the world. A real partition, where `CutLink`
    and `CutZooKeeper` leave clients and the others alone; only brokers with a network of their
    own can have it taken away. The model sees it as a cut between this broker and every other.

    Attributes:
        broker: Its id.
    """

    broker: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.DisconnectNetwork,
        acts.CutLink,
        acts.ReconnectNetwork,
        acts.HealLink,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the running broker is on a network of its own and has no agent."""
        why_not = unable(view, self.broker, Disconnectable) or down(view, self.broker, "disconnect")
        if not why_not and not view.brokers[self.broker].is_connected:
            return f"broker {self.broker} is disconnected already: heal that first"
        if not why_not and view.brokers[self.broker].points:
            return (
                f"broker {self.broker} runs with an agent, and off its network the agent cannot "
                "reach the harness: use CutLink and CutZooKeeper"
            )
        return why_not

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Disconnect the network; yield once clients are cut off too.

        Leaving gives it back the same address and ports, and waits until clients and ZooKeeper
        hear of the broker again.
        """
        broker = cluster.brokers[self.broker]
        assert isinstance(broker, Disconnectable)
        before = observe_broker(cluster, self.broker)
        with contextlib.ExitStack() as healing:
            with contextlib.ExitStack() as acting:
                # Also when the journal fails; healing twice does no harm.
                healing.callback(broker.reconnect)
                acting.enter_context(journal.acting(acts.DisconnectNetwork(broker=self.broker)))
                for cut in self._cuts(cluster):
                    acting.enter_context(journal.acting(cut))
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

    def _cuts(self, cluster: Cluster) -> list[acts.CutLink]:
        """Return the model's cuts, under names that no fault at the links has."""
        return [
            acts.CutLink(source=self.broker, target=other, name=f"network-{self.broker}-{other}")
            for other in cluster.brokers
            if other != self.broker
        ]

    def _heal(self, cluster: Cluster, journal: Journal, before: BrokerSeen) -> None:
        broker = cluster.brokers[self.broker]
        assert isinstance(broker, Disconnectable)
        heard = packets_of(cluster, before)
        with contextlib.ExitStack() as acting:
            acting.enter_context(journal.acting(acts.ReconnectNetwork(broker=self.broker)))
            for cut in self._cuts(cluster):
                acting.enter_context(journal.acting(acts.HealLink(name=cut.name)))
            broker.reconnect()
        if not broker.is_running:
            return
        _await_clients(broker)
        await_heard(cluster, before, heard)


def _await_clients(broker: Broker) -> None:
    await_until(
        lambda: answers_at(broker.client_address),
        timeout_s=60,
        waiting_for=f"broker {broker.id} to answer at {broker.client_address} again",
        last_seen=lambda: "no answer",
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )
