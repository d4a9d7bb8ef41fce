"""One kind of request, or response, between brokers that does not arrive."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.clusters.links import Hold, Match, RuleRefused
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal, links_of
from kchaos.faults.view import ClusterView, needs_kraft, needs_zookeeper
from kchaos.faults.wire.rule_at_links import installed, why_no_rule

_TOLD_BY_CONTROLLER = frozenset({"LeaderAndIsr", "UpdateMetadata", "StopReplica"})
_SENT_TO_KRAFT = frozenset(
    {
        "BrokerRegistration",
        "BrokerHeartbeat",
        "AssignReplicasToDirs",
        "ControllerRegistration",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequests(CheckedFault, acts.Hold):
    """Keeps back what matches, whole, until it is healed; then it passes in order.

    With KRaft: a broker whose BrokerHeartbeat is held is fenced after `broker.session.timeout.ms`;
    one whose Fetch of the topic `__cluster_metadata` is held does not hear what was decided; and a
    leader whose AlterPartition is held keeps its ISR. Its fields are those of the act.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.Hold, acts.ReleaseHold)

    def available(self, view: ClusterView) -> str:
        """Check for the brokers, links that recognise the messages, and a free name."""
        try:
            Match.of(self)
        except RuleRefused as refused:
            return str(refused)
        return self._unsent(view) or why_no_rule(view, self)

    def _unsent(self, view: ClusterView) -> str:
        if self.api in _TOLD_BY_CONTROLLER:
            return needs_zookeeper(
                view, f"none sends {self.api}; hold the Fetch of topic '__cluster_metadata'"
            )
        if self.api == "ControlledShutdown":
            return needs_zookeeper(view, "no broker sends it; hold BrokerHeartbeat")
        if self.api in _SENT_TO_KRAFT:
            return needs_kraft(view, f"no broker sends {self.api}")
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Install the rule; the handle's `held` has its messages; release them on leaving."""
        act = acts.act_of(acts.Hold, self)
        with installed(
            journal,
            act,
            install=lambda: links_of(cluster).hold(act),
            undo=lambda hold: hold.release(),
            heal=lambda hold: self._release(journal, hold),
        ) as hold:
            yield Injection(
                fault="HoldRequests", effect={"is_held": not hold.is_released}, handle=hold
            )

    def _release(self, journal: Journal, hold: Hold) -> None:
        held = tuple(record.describe() for record in hold.held)
        with journal.acting(acts.ReleaseHold(name=self.name)):
            hold.release()
        journal.observed(observations.Released(name=self.name, held=held))
