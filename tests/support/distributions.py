"""Distributions of Kafka as far as they are looked at before a broker starts: jars without code."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

VERSION = "kafka/kafka-version.properties"
_NEEDED = {
    "kafka_": "kafka/Kafka.class",
    "kafka-clients-": "org/apache/kafka/common/TopicPartition.class",
    "scala-library-": "scala/Option.class",
    "zookeeper-": "org/apache/zookeeper/server/quorum/QuorumPeerMain.class",
}


def jar(path: Path, entries: Mapping[str, str]) -> None:
    """Writes a jar with just these entries, the same bytes each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        for name, text in entries.items():
            file.writestr(zipfile.ZipInfo(name), text)


def needed_jar(path: Path, entries: Mapping[str, str]) -> None:
    """Writes a jar that has the class without which no broker starts, and these entries."""
    needed = next(name for begin, name in _NEEDED.items() if path.name.startswith(begin))
    jar(path, {needed: "", **entries})
