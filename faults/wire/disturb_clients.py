"""Messages between clients and brokers that are lost, kept back or late."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.clusters.links import Disturbance, disturbance_refused
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal, links_of
from kchaos.faults.view import ClusterView, name_in_use, unable, unlinked
from kchaos.faults.wire.rule_at_links import installed


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbClients(CheckedFault, acts.DisturbClients):
    """Requests of clients, or the answers to them, are lost, kept back or late.

    An answer to a Produce that is lost makes a producer send the batch again: brokers recognise it
    if the producer is idempotent, and else append it twice. A client whose Fetch, commit of offsets
    or Heartbeat has no answer does not know that the broker has handled it. With `api` None and
    "hold" a client is cut off. kchaos's own requests do not pass the links for clients. Its fields
    are those of the act.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.DisturbClients, acts.EndDisturbance)

    def available(self, view: ClusterView) -> str:
        """Check for links for clients, the broker, messages that links recognise, a free name."""
        if not view.client_links and not unlinked(view):
            return "no client is behind a link: ask for the links of clients (client_links=True)"
        return (
            disturbance_refused(self)
            or unlinked(view)
            or unable(view, self.broker)
            or name_in_use(view, self.name)
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Install the rule; end it on leaving, when what it held passes."""
        act = acts.act_of(acts.DisturbClients, self)
        with installed(
            journal,
            act,
            install=lambda: links_of(cluster).disturb(act),
            undo=lambda disturbance: disturbance.end(),
            heal=lambda disturbance: self._end(journal, disturbance),
        ) as disturbance:
            lasts = self.name in links_of(cluster).disturbances
            yield Injection(fault="DisturbClients", effect={"lasts": lasts}, handle=disturbance)

    def _end(self, journal: Journal, disturbance: Disturbance) -> None:
        with journal.acting(acts.EndDisturbance(name=self.name)):
            disturbance.end()
        journal.observed(observations.Disturbed(name=self.name, messages=disturbance.met))
