"""The driver by which tests play and start clusters: that of `KCHAOS_DRIVER`, as with the commands.

CI restores JVMs where it can (`docs/restored.md`), which takes 0.6 of the processor's time. Tests
of the driver `local` start new JVMs, and so do containers and a red and a green play of each seed.
"""

import os
from pathlib import Path

from kchaos.clusters.front.drivers import DRIVERS, make_cluster
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.harness.run.runner import RunOptions


def play_options(runs_directory: Path, *, new_jvms: bool = False) -> RunOptions:
    """Return the options of a play with run directories in a folder."""
    driver = DRIVERS[0] if new_jvms else _driver()
    return RunOptions(runs_directory=runs_directory, driver=driver)


def cluster_of(spec: ClusterSpec, *, work_directory: Path) -> JvmCluster:
    """Return a cluster that is not started yet."""
    return make_cluster(_driver(), spec, work_directory=work_directory)


def _driver() -> str:
    return os.environ.get("KCHAOS_DRIVER") or DRIVERS[0]
