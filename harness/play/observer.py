"""Observation of brokers: their disks, and the log lines of their present processes."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from kchaos.checkers.formats.checkpoints import HIGH_WATERMARKS
from kchaos.clusters.api import Cluster
from kchaos.clusters.start.log_directories import (
    checkpointed_offsets,
    replica_directory,
    replicas_in,
)
from kchaos.faults.observation import node_of


@dataclass(slots=True)
class Observer:
    """Looks at the cluster's brokers.

    Attributes:
        log_started: Where in its log the lines of each broker's present process begin, in bytes.
        links_started: From which sequence number on link records are of its present process.
        registered: By controller epoch, who was registered when it was looked at.
        leader_epochs: By process and partition, the newest that the broker has shown (KRaft).
    """

    cluster: Cluster
    log_started: dict[int, int] = field(default_factory=dict)
    links_started: dict[int, int] = field(default_factory=dict)
    registered: dict[int, frozenset[int]] = field(default_factory=dict)
    leader_epochs: dict[tuple[object, ...], int] = field(default_factory=dict)

    def look_at_controller(self) -> frozenset[int]:
        """Return the brokers registered at any look since the current controller's election."""
        metadata = self.cluster.metadata
        epoch = metadata.controller_epoch() or 0
        known = self.registered.get(epoch, frozenset()) | metadata.registered()
        self.registered[epoch] = known
        return known

    def remember_start(self, broker: int) -> None:
        """Attribute later log lines and link records to the broker's next process."""
        log = self.cluster.brokers[broker].server_log
        self.log_started[broker] = log.stat().st_size if log.is_file() else 0
        if self.cluster.links is not None:
            self.links_started[broker] = self.cluster.links.next_sequence

    def log_lines(self, broker: int, pattern: re.Pattern[str]) -> list[str]:
        """Return the matching log lines of the current process of a broker, or controller."""
        log = node_of(self.cluster, broker).server_log
        if not log.is_file():
            return []
        with log.open("rb") as file:
            file.seek(self.log_started.get(broker, 0))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return [line for line in lines if pattern.search(line)]

    def checkpointed(self, broker: int) -> dict[tuple[str, int], int]:
        """Return the high watermark of each partition in the broker's checkpoint."""
        return checkpointed_offsets(self.cluster.brokers[broker].log_directories, HIGH_WATERMARKS)

    def placed(self, broker: int) -> tuple[tuple[str, int, int], ...]:
        """Return which log directory has each replica; nothing if there is only one.

        It is (topic, partition, place of the log directory from 0 on).
        """
        directories = self.cluster.brokers[broker].log_directories
        return tuple(
            (*partition, number)
            for number, directory in enumerate(directories if directories[1:] else ())
            for partition in replicas_in(directory)
        )

    def partition_directory(self, broker: int, topic: str, partition: int) -> Path:
        """Return the broker's directory of this partition."""
        return replica_directory(self.cluster.brokers[broker].log_directories, topic, partition)
