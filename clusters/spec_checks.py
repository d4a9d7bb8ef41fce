"""What a release or a machine does not have of what a cluster asks: said before it is started."""

from collections.abc import Callable, Mapping

from kchaos.clusters.agent.points import disk_points, unknown_points
from kchaos.clusters.broker_settings import misspelt
from kchaos.clusters.configuration import mixed_protocol
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.releases import Release
from kchaos.clusters.settings import broker_settings_refused
from kchaos.clusters.spec import ClusterSpec


def refuse_unknown(spec: ClusterSpec, releases: Mapping[int, Release]) -> None:
    """Refuses points, settings, a protocol or a format that a broker's release does not have.

    Args:
        spec: The cluster.
        releases: The release of each broker, by id.

    Raises:
        ReleaseError: The message names the broker and says why not.
    """
    if why_not := misspelt(spec, releases):
        raise ReleaseError(why_not)
    common = {**mixed_protocol([*releases.values()]), **spec.properties}
    for broker in spec.brokers:
        release = releases[broker.id]
        why_not = unknown_points(broker.points, release) or broker_settings_refused(
            release, {**common, **broker.properties}
        )
        if why_not:
            raise ReleaseError(f"broker {broker.id}: {why_not}")


def refuse_slow_disks(spec: ClusterSpec, why_not: Callable[[], str]) -> None:
    """Refuses points of a broker's disk where no disk can be made slow.

    Args:
        spec: The cluster.
        why_not: What is in the way, and what to do about it; asked only if there is such a point.

    Raises:
        MachineError: The message names the broker and says why not.
        ReleaseError: One disk had to be with and without its page cache.
    """
    for broker in spec.brokers:
        reason = why_not() if disk_points(broker.points) else ""
        if reason:
            raise MachineError(f"the disk of broker {broker.id} cannot be made slow: {reason}")
