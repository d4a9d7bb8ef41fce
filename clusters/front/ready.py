"""Gets Java and Kafka for a scenario before anything starts, and reports progress."""

from collections.abc import Callable
from pathlib import Path

from kchaos.clusters.errors import ClusterError, ReleaseError
from kchaos.clusters.front.drivers import kafka_in_image
from kchaos.clusters.kafka.distribution import IN_IMAGE, Distribution, java_of, resolve
from kchaos.clusters.kafka.pinned_jars import unpinned
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.cache import cache_directory


def fetch(kafka: str, *, driver: str, offline: bool, say: Callable[[str], None]) -> Distribution:
    """Return the distribution of a release or path, with its Java in the cache as well.

    Raises:
        ReleaseError: There is no such Kafka, or it is broken.
        MachineError: It cannot be fetched.
    """
    if kafka.startswith(IN_IMAGE):
        return kafka_in_image(driver, kafka, offline=offline, say=say)
    try:
        return _ready(kafka, offline=True)
    except ReleaseError:
        raise
    except ClusterError:
        if offline:
            raise
    if not Path(kafka).exists():
        release_of(kafka)  # refuses what does not exist before anything is said to be fetched
        say(f"fetching Kafka {kafka} and a Java for it; this is done once")
    distribution = _ready(kafka, offline=False)
    if distribution.source == "maven" and (others := _unpinned_jars(distribution)):
        say(
            f"{len(others)} jars of Kafka {kafka} have no digest in this kchaos, such as "
            f"{others[0]}: what was fetched now is trusted from now on"
        )
    return distribution


def _unpinned_jars(distribution: Distribution) -> list[str]:
    repository = cache_directory() / "maven"
    return unpinned(jar.relative_to(repository).as_posix() for jar in distribution.class_path)


def _ready(kafka: str, *, offline: bool) -> Distribution:
    distribution = resolve(kafka, offline=offline)
    java_of(distribution, offline=offline)
    return distribution
