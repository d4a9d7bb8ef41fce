"""A broker's leader-epoch-checkpoint file of a partition, and when a fault may touch it."""

from pathlib import Path

from kchaos.checkers.formats.checkpoints import LEADER_EPOCHS
from kchaos.clusters.api import Cluster, Collectable
from kchaos.clusters.start.log_directories import replica_directory
from kchaos.faults.errors import FaultError
from kchaos.faults.view import ClusterView, unable


def stopped_with_epochs(view: ClusterView, broker: int) -> str:
    """Return why the broker's epoch files must not change: it runs, or has none; else ""."""
    why_not = unable(view, broker, Collectable)
    if why_not:
        return why_not
    broker_view = view.brokers[broker]
    if broker_view.is_running:
        return f"broker {broker} runs: kill or stop it before its epoch file is touched"
    if broker_view.release.startswith("0.10."):
        return f"broker {broker} runs {broker_view.release}, which keeps no leader epochs"
    return ""


def epoch_checkpoint(cluster: Cluster, broker: int, topic: str, partition: int) -> Path:
    """Return the existing checkpoint file.

    Raises:
        FaultError: It is not.
    """
    directory = replica_directory(cluster.brokers[broker].log_directories, topic, partition)
    file = directory / LEADER_EPOCHS
    if not file.is_file():
        raise FaultError(
            f"{file} does not exist: is the partition on this broker, and its format 0.11 or newer?"
        )
    return file
