"""Feature levels of a KRaft cluster that change while it runs (KIP-584)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.errors import MetadataRefused
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.view import ClusterView, needs_kraft


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures(CheckedFault):
    """Feature levels are raised, or lowered, as `kafka-features upgrade` and `downgrade` do it.

    Controllers and brokers go by them from the record on that has them in the metadata log. There
    is nothing to heal.

    Attributes:
        levels: (feature, level), such as ("metadata.version", 27); the request is for all together.
        downgrade: Whether levels may be lowered, where nothing is lost by it.
    """

    levels: tuple[tuple[str, int], ...]
    downgrade: bool = False
    timeout_s: float = 30

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = ()

    def available(self, view: ClusterView) -> str:
        """Check for a KRaft cluster and a feature."""
        unasked = "" if self.levels else "name a feature and its level"
        return unasked or needs_kraft(view, "roll brokers to inter.broker.protocol.version")

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Ask the controller; yield once the levels are in the metadata log.

        Raises:
            NoEffect: The controller refused, as where a broker does not support a level.
        """
        metadata, wanted = cluster.metadata, dict(self.levels)
        before = dict(metadata.features())
        try:
            metadata.update_features(wanted, downgrade=self.downgrade)
        except MetadataRefused as error:
            raise NoEffect(str(error)) from error
        await_until(
            lambda: wanted.items() <= dict(metadata.features()).items(),
            timeout_s=self.timeout_s,
            waiting_for=f"feature levels {wanted}",
            last_seen=metadata.features,
            remedy="see the logs of the controllers",
        )
        yield Injection(
            fault="UpdateFeatures",
            before={"levels": before},
            effect={"levels": dict(metadata.features())},
        )
