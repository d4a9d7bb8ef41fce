"""The Docker driver: ZooKeeper and brokers as containers on a network of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from clusters.distribution import java_of
from clusters.docker_driver.ground import DockerGround
from clusters.docker_driver.options import DockerOptions, options_from
from clusters.jvm_cluster import JvmCluster
from clusters.spec import ClusterSpec


class DockerCluster(JvmCluster):
    """A cluster of containers; see ``JvmCluster``.

    ``docker`` says which image and which limits; without it the environment does, see
    ``options_from``.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
        docker: DockerOptions | None = None,
    ) -> None:
        ground = DockerGround(
            work_directory.resolve(),
            java_of=cache(lambda distribution: java_of(distribution, offline=offline)),
            options=docker or options_from(),
            offline=offline,
            say=say or (lambda _text: None),
        )
        super().__init__(
            spec, ground=ground, work_directory=work_directory, offline=offline, say=say
        )
