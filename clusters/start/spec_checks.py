"""Checks of a cluster's specification against releases and machine, before it is started."""

from collections.abc import Callable, Mapping

from kchaos.checkers.acts import Mode
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.points import disk_points, planted_refused, unknown_points
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.releases import (
    FIRST_KRAFT,
    KRAFT_VERSION,
    LEAST_METADATA_VERSION,
    METADATA_VERSION,
    Release,
)
from kchaos.clusters.settings import broker_settings_refused, unread_protocol
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.broker_settings import misspelt
from kchaos.clusters.start.configuration import mixed_protocol

SEVERAL_DIRECTORIES = (3, 7)
"""The first release whose brokers have several with KRaft (KIP-858)."""


def refuse_unknown(spec: ClusterSpec, releases: Mapping[int, Release]) -> None:
    """Refuse points, settings, a protocol or a format that a broker's release does not have.

    Args:
        spec: The cluster.
        releases: The release of each broker, by id.

    Raises:
        ReleaseError: The message names the broker and says why not.
    """
    if why_not := mode_refused(spec, releases) or misspelt(spec, releases):
        raise ReleaseError(why_not)
    protocol = {} if spec.is_kraft else mixed_protocol([*releases.values()])
    common = {**protocol, **spec.properties}
    for broker in spec.brokers:
        release = releases[broker.id]
        planted = (point for point in broker.points if point.startswith(PLANTED))
        refused = (
            planted_refused(point.removeprefix(PLANTED), release, is_kraft=spec.is_kraft)
            for point in planted
        )
        why_not = (
            next(filter(None, refused), "")
            or unknown_points(broker.points, release)
            or broker_settings_refused(release, {**common, **broker.properties})
        )
        if why_not:
            raise ReleaseError(f"broker {broker.id}: {why_not}")


def unread_at_start(spec: ClusterSpec, releases: Mapping[int, Release]) -> str:
    """Return which broker speaks a protocol that another one cannot read from the start, or ""."""
    common = {**mixed_protocol([*releases.values()]), **spec.properties}
    brokers = {
        broker.id: (releases[broker.id], {**common, **broker.properties}) for broker in spec.brokers
    }
    return "" if spec.is_kraft else unread_protocol(brokers)


def mode_refused(spec: ClusterSpec, releases: Mapping[int, Release]) -> str:
    """Return why the releases of the brokers, by id, cannot keep metadata so, or ""."""
    wanted: Mode = "kraft" if spec.is_kraft else "zookeeper"
    for broker_id, release in sorted(releases.items()):
        if wanted in release.modes:
            continue
        if wanted == "kraft":
            return (
                f"broker {broker_id}: {release.text} does not run with KRaft here: Kafka does from "
                f"{FIRST_KRAFT} on"
            )
        return f"broker {broker_id}: {release.text} has no ZooKeeper any more: say mode kraft"
    if not spec.is_kraft:
        return ""
    oldest = min(releases.values())
    if oldest.number < SEVERAL_DIRECTORIES and any(b.log_directories > 1 for b in spec.brokers):
        return f"{oldest.text} has one log directory with KRaft: several act from 3.7 on (KIP-858)"
    return _features_refused(spec.features, oldest)


def _features_refused(features: Mapping[str, int], release: Release) -> str:
    """Return which feature level the oldest release of a cluster does not have, or ""."""
    for name, level in features.items():
        default = release.feature_levels.get(name)
        if default is None:
            known = ", ".join(sorted(release.feature_levels))
            since = "; dynamic quorums begin with 3.9 (KIP-853)" if name == KRAFT_VERSION else ""
            return f"{release.text} has no feature {name!r}; it has {known}{since}"
        newest = max(default, 1)
        if not 0 <= level <= newest:
            return f"{release.text} knows {name} up to {newest}, not {level}"
    metadata_version = features.get(METADATA_VERSION, release.feature_levels[METADATA_VERSION])
    if metadata_version < LEAST_METADATA_VERSION:
        return f"{METADATA_VERSION} begins with {LEAST_METADATA_VERSION}, not {metadata_version}"
    return ""


def refuse_slow_disks(spec: ClusterSpec, why_not: Callable[[], str]) -> None:
    """Refuse points of a broker's disk if no disk can be slowed.

    Args:
        spec: The cluster.
        why_not: What is in the way, and what to do about it; asked only if there is such a point.

    Raises:
        MachineError: The message names the broker and says why not.
        ReleaseError: One disk had to be with and without its page cache, or is one of several.
    """
    for broker in spec.brokers:
        reason = why_not() if disk_points(broker.points) else ""
        if disk_points(broker.points) and broker.log_directories > 1:
            raise ReleaseError(
                f"broker {broker.id} can have one log directory alone: its points are of one disk"
            )
        if reason:
            raise MachineError(f"the disk of broker {broker.id} cannot be made slow: {reason}")
