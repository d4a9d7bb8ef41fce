"""The drivers by name: the one place where a driver is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clusters.errors import MachineError
from clusters.jvm_cluster import JvmCluster
from clusters.spec import ClusterSpec

DRIVERS = ("local", "docker")


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
        from clusters.local import LocalCluster

        return LocalCluster(spec, work_directory=work_directory, offline=offline, say=say)
    if driver == "docker":
        from clusters.docker_driver.cluster import DockerCluster

        return DockerCluster(spec, work_directory=work_directory, offline=offline, say=say)
    raise MachineError(f"there is no driver {driver!r}; there are {', '.join(DRIVERS)}")
