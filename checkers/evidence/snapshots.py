"""snapshots/LABEL/: what ZooKeeper said then, and the files of each broker's log directory."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckpointError, RunDirectoryError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.formats.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    joined_offsets,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.json_form import SOMETIMES
from kchaos.checkers.segments.directory import (
    PartitionContents,
    checkpoint_entries,
    partition_directories,
    read_partition,
    segment_files,
)

METADATA = "partition.metadata"
REMOTE = "remote"
"""The folder of a snapshot that has the remote store of tiered logs."""
EpochEntries = tuple[tuple[int, int], ...]
"""(leader epoch, start offset) of each entry, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCopied:
    """One broker when its files were copied.

    Attributes:
        is_running: Whether its process ran; None if the snapshot does not say.
        stable: Whether two readings of its files agreed.
        read_from: When the last reading began, in seconds since the epoch; None if it is not said.
        read_until: When it ended, likewise.
        files: How many files were copied, likewise.
    """

    is_running: bool | None = None
    stable: bool = True
    read_from: float | None = None
    read_until: float | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSeen:
    """A partition's state znode when the snapshot was taken."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """One snapshot.json.

    Attributes:
        time: Seconds since the epoch.
        is_final: Whether it was taken after everything had been healed.
        brokers: Those whose files were copied, by id.
        states: By the partition's name, such as "t-0"; None where there was no state znode.
        zxid: The last one before the states were looked at.
        remote_files: How many files of the remote store were copied; None without one.
    """

    label: str
    time: float
    is_final: bool
    brokers: Mapping[int, BrokerCopied]
    states: Mapping[str, StateSeen | None]
    zxid: int
    remote_files: int | None = field(default=None, metadata=SOMETIMES)

    @property
    def copied_from(self) -> float:
        """When the first of the readings began that were kept."""
        begun = [each.read_from for each in self.brokers.values() if each.read_from is not None]
        return min(begun, default=self.time)

    @property
    def copied_until(self) -> float:
        """When the last of them ended."""
        ended = [each.read_until for each in self.brokers.values() if each.read_until is not None]
        return max(ended, default=self.time)

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions whose states the snapshot has."""
        return frozenset(TopicPartition(*topic_partition(name) or ("", 0)) for name in self.states)

    def state(self, partition: TopicPartition) -> StateSeen | None:
        """Return the partition's state, or None."""
        return self.states.get(f"{partition.topic}-{partition.partition}")


def read_snapshots(files: EvidenceFiles) -> tuple[TakenSnapshot, ...]:
    """Return every snapshot.json, oldest first.

    Raises:
        RunDirectoryError: One lacks something that judging needs.
    """
    snapshots = (_read(files, label) for label in files.run.snapshots())
    return tuple(sorted(snapshots, key=lambda snapshot: snapshot.time))


def snapshot_file(label: str) -> str:
    """Return the name of the file that describes a snapshot."""
    return f"snapshots/{label}/snapshot.json"


def _read(files: EvidenceFiles, label: str) -> TakenSnapshot:
    name = snapshot_file(label)
    snapshot = files.value(TakenSnapshot, name)
    if snapshot.label != label:
        raise RunDirectoryError(f"{files.place(name)} is labelled {snapshot.label!r}")
    for partition in snapshot.states:
        if topic_partition(partition) is None:
            raise RunDirectoryError(
                f"{files.place(name)}: states has {partition!r}, which is no partition"
            )
    return snapshot


@dataclass(slots=True)
class CopiedFiles:
    """The copied log directories of a run. What was read or listed is kept, so it is read once."""

    files: EvidenceFiles
    _contents: dict[Path, PartitionContents] = field(default_factory=dict)
    _joined: dict[tuple[str, int, str], Mapping[tuple[str, int], int]] = field(default_factory=dict)
    _folders: dict[tuple[str, int], tuple[Path, ...]] = field(default_factory=dict)
    _listed: dict[Path, frozenset[str]] = field(default_factory=dict)
    _directories: dict[tuple[str, int, TopicPartition], Path] = field(default_factory=dict)
    _segments: dict[Path, tuple[Path, ...]] = field(default_factory=dict)
    _topic_ids: dict[Path, str] = field(default_factory=dict)

    def replicas(self, label: str, brokers: Iterable[int]) -> Iterator[tuple[int, TopicPartition]]:
        """Yield each broker with each partition of which a snapshot has a directory."""
        for broker in sorted(brokers):
            names = {
                topic_partition(directory.name)
                for folder in self.folders(label, broker)
                for directory in partition_directories(folder)
            }
            for name in sorted(name for name in names if name is not None):
                yield broker, TopicPartition(*name)

    def directory(self, label: str, broker: int, partition: TopicPartition) -> Path:
        """Return the path of a replica's files, which exists only if it had some."""
        key = (label, broker, partition)
        if key not in self._directories:
            name = f"{partition.topic}-{partition.partition}"
            places = (folder / name for folder in self.folders(label, broker))
            first = self._snapshot(label) / folder_of(broker, 0) / name
            self._directories[key] = next((place for place in places if place.is_dir()), first)
        return self._directories[key]

    def segments(self, label: str, broker: int, partition: TopicPartition) -> tuple[Path, ...]:
        """Return a replica's segments, by ascending base offset; none without a directory.

        Raises:
            SegmentError: A file's name is no base offset.
        """
        directory = self.directory(label, broker, partition)
        if directory not in self._segments:
            self._segments[directory] = segment_files(directory) if directory.is_dir() else ()
        return self._segments[directory]

    def contents(
        self, label: str, broker: int, partition: TopicPartition
    ) -> PartitionContents | None:
        """Return the content of a replica's segments and checkpoint, or None without a directory.

        Raises:
            SegmentError: The files cannot be segments at all.
        """
        directory = self.directory(label, broker, partition)
        if directory not in self._contents:
            if not directory.is_dir():
                return None
            self._contents[directory] = read_partition(directory)
        return self._contents[directory]

    def epoch_entries(
        self, label: str, broker: int, partition: TopicPartition
    ) -> EpochEntries | None:
        """Return leader-epoch-checkpoint without reading segments, or None if unreadable."""
        directory = self.directory(label, broker, partition)
        known = self._contents.get(directory)
        entries = known.epoch_entries if known else checkpoint_entries(directory / LEADER_EPOCHS)[0]
        if entries is None:
            return None
        return tuple((entry.leader_epoch, entry.start_offset) for entry in entries)

    def topic_id(self, label: str, broker: int, partition: TopicPartition) -> str:
        """Return the topic id in a replica's partition.metadata; "" without the file.

        Raises:
            CheckpointError: The file is damaged.
        """
        return self.topic_id_in(self.directory(label, broker, partition))

    def topic_id_in(self, directory: Path) -> str:
        """Return `topic_id` of a replica's directory."""
        if directory not in self._topic_ids:
            name = f"{directory.relative_to(self.files.run.path)}/{METADATA}"
            text = ""
            if (directory / METADATA).is_file():
                text = self.files.content(name).decode("utf-8", "backslashreplace")
                text = parse_partition_metadata(text, file=name).topic_id
            self._topic_ids[directory] = text
        return self._topic_ids[directory]

    def high_watermarks(self, label: str, broker: int) -> Mapping[tuple[str, int], int]:
        """Return the offsets in replication-offset-checkpoint; none without the file.

        Raises:
            CheckpointError: The file is damaged.
        """
        return self._offsets(label, broker, HIGH_WATERMARKS)

    def log_starts(self, label: str, broker: int) -> Mapping[tuple[str, int], int]:
        """Return the offsets in log-start-offset-checkpoint (0.11 on), as `high_watermarks`."""
        return self._offsets(label, broker, LOG_STARTS)

    def cleaned(self, label: str, broker: int) -> Mapping[tuple[str, int], int]:
        """Return the offsets in cleaner-offset-checkpoint, as `high_watermarks`."""
        return self._offsets(label, broker, CLEANED)

    def recovery_points(self, label: str, broker: int) -> Mapping[tuple[str, int], int]:
        """Return the offsets in recovery-point-offset-checkpoint, as `high_watermarks`."""
        return self._offsets(label, broker, RECOVERY_POINTS)

    def _offsets(self, label: str, broker: int, file: str) -> Mapping[tuple[str, int], int]:
        key = (label, broker, file)
        if key not in self._joined:
            self._joined[key] = joined_offsets(
                (self._parsed(name), self._names(folder))
                for folder in self.folders(label, broker)
                if self.files.has(name := f"snapshots/{label}/{folder.name}/{file}")
            )
        return self._joined[key]

    def _names(self, folder: Path) -> frozenset[str]:
        """List a log directory, once for all of its checkpoint files."""
        if folder not in self._listed:
            self._listed[folder] = frozenset(os.listdir(folder))
        return self._listed[folder]

    def _parsed(self, name: str) -> Mapping[tuple[str, int], int]:
        place = self.files.place(name)
        try:
            text = self.files.content(name).decode()
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{place} is no text: {error}") from error
        return parse_offset_checkpoint(text, file=place)

    def folders(self, label: str, broker: int) -> tuple[Path, ...]:
        """Return a broker's copied log directories in a snapshot, in order."""
        if (label, broker) not in self._folders:
            root = self._snapshot(label)
            folders = {
                number: entry
                for entry in (root.iterdir() if root.is_dir() else ())
                if (number := directory_number(entry.name, broker)) is not None and entry.is_dir()
            }
            self._folders[label, broker] = tuple(folders[number] for number in sorted(folders))
        return self._folders[label, broker]

    def _snapshot(self, label: str) -> Path:
        return self.files.run.path / "snapshots" / label


def folder_of(broker: int, number: int) -> str:
    """Return the folder of a snapshot that has the broker's log directory of this number."""
    return f"broker-{broker}" + (f".{number}" if number else "")


def directory_number(name: str, broker: int) -> int | None:
    """Return the index of the broker's log directory in this folder, or None for another's."""
    first = folder_of(broker, 0)
    if name == first:
        return 0
    number = name.removeprefix(f"{first}.")
    return int(number) if number != name and number.isdecimal() else None
