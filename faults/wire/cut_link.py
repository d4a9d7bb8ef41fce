"""Two brokers that cannot reach each other."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from clusters.api import Cluster
from faults.api import Injection, Journal, broker_able, links_of
from faults.errors import FaultError


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """Nothing passes between two brokers; both still reach ZooKeeper, clients and the others.

    Attributes:
        source: One broker's id.
        target: The other's.
        one_way: Only what `source` sends to `target` is cut, not the other way round.
        style: "silent" (connections stay open, nothing passes) or "reset".
    """

    source: int
    target: int
    one_way: bool = False
    style: Literal["silent", "reset"] = "silent"

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts old and new connections; heals on leaving.

        The links count what passes between the two. The observation "link-healed" has the
        counts from the beginning of the cut and from its end: equal, as nothing passed.

        Raises:
            FaultError: Both ends are the same broker.
            RuleRefused: No such style, or a broker has no link.
        """
        if self.source == self.target:
            raise FaultError(f"broker {self.source} cannot be cut from itself: name two brokers")
        for broker in (self.source, self.target):
            broker_able(cluster, broker)
        links = links_of(cluster)
        ends = {"source": self.source, "target": self.target}
        with contextlib.ExitStack() as healing:
            with journal.acting("cut-link", **ends, one_way=self.one_way):
                cut = links.cut(self.source, self.target, style=self.style, one_way=self.one_way)
                # Also when the journal fails; healing twice does no harm.
                healing.callback(cut.heal)
            passed = self._passed(links)
            healing.callback(self._heal, journal, links, cut, passed)
            yield Injection(
                fault="CutLink",
                effect={"is_cut": not cut.is_healed, "messages_passed": passed},
                handle=cut,
            )

    def _heal(self, journal: Journal, links: Any, cut: Any, passed: dict[str, int]) -> None:
        ends = {"source": self.source, "target": self.target}
        still_passed = self._passed(links)
        with journal.acting("heal-link", **ends):
            cut.heal()
        journal.observed(
            "link-healed", **ends, messages_passed_before=passed, messages_passed=still_passed
        )

    def _passed(self, links: Any) -> dict[str, int]:
        """How many messages the links let pass so far in each direction that is cut."""
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


def _travels(key: Any, sender: int, receiver: int) -> bool:
    """Whether messages of this kind go from the one broker to the other.

    A link's source is who asks, so an answer travels from target to source.
    """
    asker, asked = (key.source, key.target)
    way = (asker, asked) if key.direction == "request" else (asked, asker)
    return way == (sender, receiver)
