"""Two brokers that cannot reach each other."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.clusters.links import Cut, LinkKey, Links
from kchaos.faults.api import CheckedFault, Cluster, ClusterView, Injection, Journal, links_of
from kchaos.faults.wire.rule_at_links import why_no_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink(CheckedFault, acts.CutLink):
    """Nothing passes between two brokers; both still reach ZooKeeper, clients and the others.

    With KRaft one of them, or both, may be controllers: `CutControllers` cuts a broker from all.
    Its fields are those of the act, which says what becomes of what is on its way.
    """

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.CutLink, acts.HealLink)

    def available(self, view: ClusterView) -> str:
        """Check for both brokers, links, a valid style, and a free name."""
        if self.source == self.target:
            return f"broker {self.source} cannot be cut from itself: name two brokers"
        return acts.unknown_style(self) or why_no_rule(view, self)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut old and new connections; heal on leaving.

        The links count what passes between the two. The observation "link-healed" has the
        counts from the beginning of the cut and from its end: equal, as nothing passed.
        """
        links = links_of(cluster)
        act = acts.act_of(acts.CutLink, self)
        with contextlib.ExitStack() as healing:
            with journal.acting(act):
                cut = links.cut(act)
                # Also when the journal fails; healing twice does no harm.
                healing.callback(cut.heal)
            passed = self._passed(links)
            healing.callback(self._heal, journal, links, cut, passed)
            yield Injection(
                fault="CutLink",
                effect={"is_cut": not cut.is_healed, "messages_passed": passed},
                handle=cut,
            )

    def _heal(self, journal: Journal, links: Links, cut: Cut, passed: dict[str, int]) -> None:
        still_passed = self._passed(links)
        with journal.acting(acts.HealLink(name=self.name)):
            cut.heal()
        journal.observed(
            observations.LinkHealed(
                name=self.name,
                source=self.source,
                target=self.target,
                messages_passed_before=passed,
                messages_passed=still_passed,
            )
        )

    def _passed(self, links: Links) -> dict[str, int]:
        """Return the number of passed messages in each direction that is cut."""
        ways = [(self.source, self.target)]
        if not self.one_way:
            ways.append((self.target, self.source))
        counts = links.counts().items()
        return {
            f"{sender}->{receiver}": sum(
                count.passed for key, count in counts if _travels(key, sender, receiver)
            )
            for sender, receiver in ways
        }


def _travels(key: LinkKey, sender: int, receiver: int) -> bool:
    """Return whether messages of this kind go from the one broker to the other.

    A link's source is who asks, so an answer travels from target to source.
    """
    asker, asked = (key.source, key.target)
    way = (asker, asked) if key.direction == "request" else (asked, asker)
    return way == (sender, receiver)
