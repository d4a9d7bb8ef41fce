"""A leader's answers to the question for an epoch's end do not arrive: an error does."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.links import Forgery
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal, links_of
from kchaos.faults.view import ClusterView, needs_zookeeper
from kchaos.faults.wire.rule_at_links import installed, why_no_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeAnswers(CheckedFault, acts.ForgeAnswers):
    """The link answers one broker's OffsetForLeaderEpoch with an error in the leader's place.

    Brokers give such answers, but not when a test wants them. Links write down both, what the
    leader answered (`replaced`) and what arrived (`forged`). Its fields are those of the act.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.ForgeAnswers, acts.EndForgery)

    def available(self, view: ClusterView) -> str:
        """Check for links, both brokers, an error that can be forged, and a free name."""
        if self.error not in acts.FORGED_ERRORS:
            known = ", ".join(acts.FORGED_ERRORS)
            return f"no answer can be forged to be {self.error!r}; known: {known}"
        return needs_zookeeper(
            view,
            "their brokers learn by Fetch where they diverge, and none asks "
            "OffsetForLeaderEpoch; hold Fetch responses with HoldRequests",
        ) or why_no_rule(view, self)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Install the rule; remove it on leaving."""
        act = acts.act_of(acts.ForgeAnswers, self)
        with installed(
            journal,
            act,
            install=lambda: links_of(cluster).forge(act),
            undo=lambda forgery: forgery.end(),
            heal=lambda forgery: self._end(journal, forgery),
        ) as forgery:
            yield Injection(fault="ForgeAnswers", effect={"error_code": forgery.error_code})

    def _end(self, journal: Journal, forgery: Forgery) -> None:
        with journal.acting(acts.EndForgery(name=self.name)):
            forgery.end()
