"""The Docker driver: brokers, and what keeps their metadata, as containers on one network."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from kchaos.checkers.folders import plain
from kchaos.clusters.docker_driver.host import DockerHost
from kchaos.clusters.docker_driver.options import base_image, with_limits
from kchaos.clusters.kafka.distribution import java_of
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.jvm_cluster import JvmCluster


class DockerCluster(JvmCluster):
    """A cluster of containers; see ``JvmCluster``.

    ``image`` is the base image; without it, and for limits that the spec leaves open, the
    environment decides: see ``clusters.docker_driver.options``.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
        image: str | None = None,
    ) -> None:
        host = DockerHost(
            plain(work_directory),
            java_of=cache(lambda distribution: java_of(distribution, offline=offline)),
            image=image or base_image(),
            offline=offline,
            say=say or (lambda _text: None),
        )
        super().__init__(
            with_limits(spec), host=host, work_directory=work_directory, offline=offline, say=say
        )
