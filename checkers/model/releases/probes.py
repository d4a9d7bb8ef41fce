"""Probes: how a rule is found in Kafka's source, by file, method and identifiers.

A probe is a regular expression of identifiers that one of a few files must have, or must not have,
at a release; several files are named where the class moved or was rewritten in Java. Nothing of
Kafka's code is kept.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from kchaos.checkers.errors import ModelError

Texts = Mapping[str, str]
"""The files of one release that it has, by their path in Kafka's repository."""

KAFKA_FILES: Mapping[str, tuple[str, ...]] = {
    "AbstractFetcherThread": ("core/src/main/scala/kafka/server/AbstractFetcherThread.scala",),
    "AlterPartitionManager": (
        "core/src/main/scala/kafka/server/AlterPartitionManager.scala",
        "core/src/main/scala/kafka/server/AlterIsrManager.scala",
    ),
    "BrokerEpochs": (
        "core/src/main/scala/kafka/server/ZkBrokerEpochManager.scala",
        "core/src/main/scala/kafka/server/KafkaApis.scala",
    ),
    "ClusterControlManager": (
        "metadata/src/main/java/org/apache/kafka/controller/ClusterControlManager.java",
    ),
    "ConfigurationControlManager": (
        "metadata/src/main/java/org/apache/kafka/controller/ConfigurationControlManager.java",
    ),
    "ControllerChannelManager": (
        "core/src/main/scala/kafka/controller/ControllerChannelManager.scala",
    ),
    "FetchSession": (
        "server/src/main/java/org/apache/kafka/server/FetchSession.java",
        "server/src/main/java/org/apache/kafka/server/FetchContext.java",
        "core/src/main/scala/kafka/server/FetchSession.scala",
    ),
    "FileRecords": (
        "clients/src/main/java/org/apache/kafka/common/record/internal/FileRecords.java",
        "clients/src/main/java/org/apache/kafka/common/record/FileRecords.java",
    ),
    "KafkaApis": ("core/src/main/scala/kafka/server/KafkaApis.scala",),
    "KafkaConfig": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/LogConfig.java",
        "core/src/main/scala/kafka/server/KafkaConfig.scala",
    ),
    "KafkaController": ("core/src/main/scala/kafka/controller/KafkaController.scala",),
    "KafkaZkClient": ("core/src/main/scala/kafka/zk/KafkaZkClient.scala",),
    "LeaderEpochFileCache": (
        "storage/src/main/java/org/apache/kafka/storage/internals/epoch/LeaderEpochFileCache.java",
        "core/src/main/scala/kafka/server/epoch/LeaderEpochFileCache.scala",
    ),
    "Log": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/UnifiedLog.java",
        "core/src/main/scala/kafka/log/UnifiedLog.scala",
        "core/src/main/scala/kafka/log/Log.scala",
    ),
    "LogLoader": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/LogLoader.java",
        "core/src/main/scala/kafka/log/LogLoader.scala",
        "core/src/main/scala/kafka/log/Log.scala",
    ),
    "LogManager": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/LogManager.java",
        "core/src/main/scala/kafka/log/LogManager.scala",
    ),
    "LogSegment": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/LogSegment.java",
        "core/src/main/scala/kafka/log/LogSegment.scala",
    ),
    "MetadataVersion": (
        "server-common/src/main/java/org/apache/kafka/server/common/MetadataVersion.java",
        "core/src/main/scala/kafka/api/ApiVersion.scala",
    ),
    "Partition": ("core/src/main/scala/kafka/cluster/Partition.scala",),
    "PartitionChangeBuilder": (
        "metadata/src/main/java/org/apache/kafka/controller/PartitionChangeBuilder.java",
    ),
    "PartitionReassignmentReplicas": (
        "metadata/src/main/java/org/apache/kafka/controller/PartitionReassignmentReplicas.java",
    ),
    "PartitionStateMachine": ("core/src/main/scala/kafka/controller/PartitionStateMachine.scala",),
    "ProducerAppendInfo": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/ProducerAppendInfo.java",
        "core/src/main/scala/kafka/log/ProducerStateManager.scala",
    ),
    "ProducerStateEntry": (
        "storage/src/main/java/org/apache/kafka/storage/internals/log/ProducerStateEntry.java",
        "core/src/main/scala/kafka/log/ProducerStateManager.scala",
    ),
    "RemoteLogManager": (
        "storage/src/main/java/org/apache/kafka/server/log/remote/storage/RemoteLogManager.java",
        "core/src/main/java/kafka/log/remote/RemoteLogManager.java",
    ),
    "Replica": (
        "server/src/main/java/org/apache/kafka/server/replica/Replica.java",
        "server/src/main/java/org/apache/kafka/server/replica/ReplicaState.java",
        "core/src/main/scala/kafka/cluster/Replica.scala",
    ),
    "ReplicaFetcherThread": ("core/src/main/scala/kafka/server/ReplicaFetcherThread.scala",),
    "ReplicaManager": ("core/src/main/scala/kafka/server/ReplicaManager.scala",),
    "ReplicaStateMachine": ("core/src/main/scala/kafka/controller/ReplicaStateMachine.scala",),
    "ReplicationControlManager": (
        "metadata/src/main/java/org/apache/kafka/controller/ReplicationControlManager.java",
    ),
    "ReplicationConfigs": (
        "server/src/main/java/org/apache/kafka/server/config/ReplicationConfigs.java",
        "core/src/main/scala/kafka/server/KafkaConfig.scala",
    ),
}
"""The files of Kafka in which probes look, by name: their paths in Kafka's repository, the present
place first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A pattern that must be, or must not be, in one of the files.

    Attributes:
        file: Names in `KAFKA_FILES`, separated by spaces.
        within: The line that begins a method or class, as a regular expression; the search goes on
            to the brace that closes it. The whole file when None.
        present: A regular expression that must be found, with ^ and $ at line ends and "." for any
            character.
        absent: The same, and it must be nowhere in a file that exists; the method that `within`
            names must exist.

    Raises:
        ModelError: A file that has no name, or not exactly one of present and absent.
    """

    file: str
    within: str | None = None
    present: str | None = None
    absent: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be looked up."""
        unknown = [name for name in self.file.split() if name not in KAFKA_FILES]
        if unknown or not self.file:
            raise ModelError(f"{self} looks in no file of Kafka that is known: {unknown}")
        if (self.present is None) == (self.absent is None):
            raise ModelError(f"{self} must say either present or absent")

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths in Kafka's repository, in the order in which they are searched."""
        return tuple(path for name in self.file.split() for path in KAFKA_FILES[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """Where a rule was found: a path in Kafka's repository and a line, counted from 1."""

    path: str
    line: int

    @property
    def file(self) -> str:
        """Such as "Partition.scala"."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        """Return such as "Partition.scala:1151"."""
        return f"{self.file}:{self.line}"


def find(probes: Iterable[Probe], texts: Texts) -> SourceLine | None:
    """Return where a rule is in a release's files, or None where one of its probes fails.

    Raises:
        ModelError: A probe's expression cannot be read.
    """
    places = [_look(probe, texts) for probe in probes]
    return None if None in places else places[0]


def _look(probe: Probe, texts: Texts) -> SourceLine | None:
    wanted = _compiled(probe.present or probe.absent or "")
    within = _compiled(probe.within) if probe.within else None
    searched = None
    for path in probe.paths:
        text = texts.get(path)
        if text is None:
            continue
        for start, end in _regions(text, within):
            match = wanted.search(text, start, end)
            if match and probe.present is None:
                return None
            if match:
                return SourceLine(path=path, line=text.count("\n", 0, match.start()) + 1)
            searched = searched or SourceLine(path=path, line=text.count("\n", 0, start) + 1)
    return None if probe.present is not None else searched


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression, re.MULTILINE | re.DOTALL)
    except re.error as error:
        raise ModelError(f"the probe {expression!r} cannot be read: {error}") from error


def _regions(text: str, within: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Return where the named methods begin and end; a method ends at its indentation's brace."""
    if within is None:
        return [(0, len(text))]
    regions = []
    for match in within.finditer(text):
        line_start = text.rfind("\n", 0, match.start()) + 1
        line = text[line_start : match.start() + 1]
        indentation = len(line) - len(line.lstrip())
        closing = re.compile(rf"^ {{{indentation}}}\}}", re.MULTILINE).search(text, match.end())
        regions.append((match.start(), closing.end() if closing else len(text)))
    return regions
