"""What a cluster asks of a release that does not have it: said before anything is started."""

from collections.abc import Mapping

from kchaos.clusters.agent.points import unknown_points
from kchaos.clusters.configuration import mixed_protocol
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import Release
from kchaos.clusters.settings import broker_settings_refused
from kchaos.clusters.spec import ClusterSpec


def refuse_unknown(spec: ClusterSpec, releases: Mapping[int, Release]) -> None:
    """Refuses points of a broker's code, a protocol or a format that its release does not have.

    Args:
        spec: The cluster.
        releases: The release of each broker, by id.

    Raises:
        ReleaseError: The message names the broker and says why not.
    """
    common = {**mixed_protocol([*releases.values()]), **spec.properties}
    for broker in spec.brokers:
        release = releases[broker.id]
        why_not = unknown_points(broker.points, release) or broker_settings_refused(
            release, {**common, **broker.properties}
        )
        if why_not:
            raise ReleaseError(f"broker {broker.id}: {why_not}")
