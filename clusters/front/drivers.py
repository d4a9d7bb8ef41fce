"""The drivers by name: the one place where a driver is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kchaos.clusters.errors import MachineError

# Whoever only wants the names, as options do, waits for nothing else.
if TYPE_CHECKING:
    from kchaos.clusters.kafka.distribution import Distribution
    from kchaos.clusters.spec import ClusterSpec
    from kchaos.clusters.start.jvm_cluster import JvmCluster

DRIVERS = ("local", "docker", "restored")


def kafka_in_image(
    driver: str, kafka: str, *, offline: bool, say: Callable[[str], None]
) -> Distribution:
    """Return the Kafka called ``image:NAME``, pulling the image if needed.

    Raises ReleaseError when the driver starts no images or the image has no known Kafka,
    MachineError when it cannot be had.
    """
    if driver != "docker":
        from kchaos.clusters.kafka.distribution import resolve

        return resolve(kafka, offline=offline)
    from kchaos.clusters.docker_driver.kafka_image import find_in_image

    return find_in_image(kafka, offline=offline, say=say)


def why_no_slow_disk(driver: str) -> str:
    """Return why a driver can make no disk slow on this machine, and what to do; "" if it can."""
    if driver == "docker":
        from kchaos.clusters.docker_driver.host import NO_SLOW_DISK

        return NO_SLOW_DISK
    from kchaos.clusters.disk.mounting import remedy

    return remedy()


def make_cluster(
    driver: str,
    spec: ClusterSpec,
    *,
    work_directory: Path,
    offline: bool = False,
    say: Callable[[str], None] | None = None,
) -> JvmCluster:
    """Return a cluster that is not started yet; raise MachineError for an unknown driver.

    A driver's own settings come from its environment variables.
    """
    if driver == "local":
        from kchaos.clusters.start.local import LocalCluster

        return LocalCluster(spec, work_directory=work_directory, offline=offline, say=say)
    if driver == "docker":
        from kchaos.clusters.docker_driver.cluster import DockerCluster

        return DockerCluster(spec, work_directory=work_directory, offline=offline, say=say)
    if driver == "restored":
        from kchaos.clusters.restored.cluster import RestoredCluster

        return RestoredCluster(spec, work_directory=work_directory, offline=offline, say=say)
    raise MachineError(f"there is no driver {driver!r}; there are {', '.join(DRIVERS)}")
