"""Two brokers that cannot reach each other."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from clusters.api import Cluster
from faults.api import Injection, Journal, broker_able, links_of


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
    style: str = "silent"

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts old and new connections; heals on leaving."""
        for broker in (self.source, self.target):
            broker_able(cluster, broker)
        links = links_of(cluster)
        ends = {"source": self.source, "target": self.target}
        with journal.acting("cut-link", **ends, one_way=self.one_way):
            cut = links.cut(self.source, self.target, style=self.style, one_way=self.one_way)
        try:
            yield Injection(fault="CutLink", handle=cut)
        finally:
            with journal.acting("heal-link", **ends):
                cut.heal()
