"""The local driver: ZooKeeper and brokers as JVM processes on 127.0.0.1."""

from collections.abc import Callable
from pathlib import Path

from kchaos.checkers.folders import plain
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.host import LocalHost
from kchaos.clusters.start.jvm_cluster import JvmCluster


class LocalCluster(JvmCluster):
    """A cluster of real processes; see ``JvmCluster``."""

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
        share_classes: bool = True,
    ) -> None:
        super().__init__(
            spec,
            host=LocalHost(plain(work_directory)),
            work_directory=work_directory,
            offline=offline,
            say=say,
            share_classes=share_classes,
        )
