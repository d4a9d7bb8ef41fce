"""A broker that cannot reach ZooKeeper."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.links import Cut
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal, links_of
from kchaos.faults.observation import observe_broker
from kchaos.faults.view import ClusterView, name_in_use, needs_zookeeper, unable, unlinked
from kchaos.faults.zookeeper.activity import await_heard, packets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CutZooKeeper(CheckedFault, acts.CutZooKeeper):
    """Nothing passes between the broker and ZooKeeper; other brokers still reach it.

    When its session has ended it is a zombie: it leads what it led and knows nothing of it.
    Its fields are those of the act.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.CutZooKeeper, acts.HealZooKeeper)

    def available(self, view: ClusterView) -> str:
        """Check for links, a valid style, and a free name."""
        return (
            needs_zookeeper(view, "use CutControllers")
            or acts.unknown_style(self)
            or unable(view, self.broker)
            or unlinked(view)
            or name_in_use(view, self.name)
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut; on leaving, heal and wait until ZooKeeper gets a packet of the broker.

        Does not wait for the session to end, which takes `zookeeper.session.timeout.ms`;
        `ExpireSession` inside it ends the session at once.
        """
        act = acts.act_of(acts.CutZooKeeper, self)
        before = observe_broker(cluster, self.broker)
        with contextlib.ExitStack() as healing:
            with journal.acting(act):
                cut = links_of(cluster).cut(act)
                # Also when the journal fails; healing twice does no harm.
                healing.callback(cut.heal)
            healing.callback(self._heal, cluster, journal, cut, before)
            yield Injection(
                fault="CutZooKeeper",
                before=before.to_json(),
                effect={"is_cut": not cut.is_healed, "packets": packets_of(cluster, before)},
                handle=cut,
            )

    def _heal(self, cluster: Cluster, journal: Journal, cut: Cut, before: BrokerSeen) -> None:
        heard = packets_of(cluster, before)
        with journal.acting(acts.HealZooKeeper(name=self.name)):
            cut.heal()
        if cluster.brokers[self.broker].is_running:
            after = await_heard(cluster, before, heard)
            journal.observed(observations.BrokerRegistered(**after.to_json()))
