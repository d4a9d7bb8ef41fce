"""A tiered partition at one snapshot as KIP-405 prints it: what each broker and the tier have.

    "broker 0": ("3: msg 3 LE-1", …), "broker 0 epochs": ("LE-0, 0", …),
    "remote": ("seg-0-2", "0: msg 0 LE-0", …, "epochs: LE-0, 0"), "metadata": ("seg-0-2", "LE-0, 0")

Messages are numbered by the operations that wrote them. Leader epochs are counted, from LE-0 on, in
the order in which the partition's logs, caches and remote segments have them: an election that
nobody wrote in counts for the cluster and not on the page.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.snapshots import TakenSnapshot
from kchaos.checkers.evidence.tier import remote_at, stored_at
from kchaos.checkers.formats.fields import MalformedError
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.compression import UndecodableError
from kchaos.checkers.segments.reader import read_records, read_segment
from kchaos.checkers.segments.tier import FINISHED, RemoteSegmentMetadata

Table = Mapping[str, tuple[str, ...]]
_NUMBER = re.compile(rb"message-(\d+)-0")


def tables_of(evidence: RunEvidence, partition: TopicPartition) -> Mapping[str, Table]:
    """Return what each snapshot has of a partition, by label.

    Raises:
        SegmentError, ScenarioDataError: Files cannot be read.
    """
    by_label = {
        snapshot.label: _Seen(evidence, snapshot, partition) for snapshot in evidence.snapshots
    }
    known = sorted({epoch for seen in by_label.values() for epoch in seen.epochs()})
    names = {epoch: f"LE-{rank}" for rank, epoch in enumerate(known)}
    return {label: seen.table(names) for label, seen in by_label.items()}


class _Seen:
    """The files of one snapshot."""

    def __init__(
        self, evidence: RunEvidence, snapshot: TakenSnapshot, partition: TopicPartition
    ) -> None:
        self.label = snapshot.label
        self.copied = evidence.copied
        self.partition = partition
        self.brokers = sorted(
            broker
            for broker, replica in self.copied.replicas(self.label, snapshot.brokers)
            if replica == partition
        )
        self.told = [
            copied
            for copied in remote_at(evidence.files, snapshot)
            if (copied.topic, copied.partition) == partition
        ]
        self.stored = {stored.segment_id: stored for stored in stored_at(evidence.files, snapshot)}

    def epochs(self) -> Iterator[int]:
        """Yield every leader epoch in a cache or a segment."""
        for broker in self.brokers:
            for epoch, _ in self.copied.epoch_entries(self.label, broker, self.partition) or ():
                yield epoch
        for copied in self.told:
            yield from (epoch for epoch, _ in copied.leader_epochs)

    def table(self, names: Mapping[int, str]) -> Table:
        """Return a table with the lines of each column."""
        lines: dict[str, tuple[str, ...]] = {}
        for broker in self.brokers:
            files = self.copied.segments(self.label, broker, self.partition)
            lines[f"broker {broker}"] = tuple(
                line for path in files for line in _records(path, int(path.stem), names)
            )
            entries = self.copied.epoch_entries(self.label, broker, self.partition) or ()
            lines[f"broker {broker} epochs"] = tuple(_entries(entries, names))
        lines["remote"] = tuple(self._remote(names))
        lines["metadata"] = tuple(
            line
            for copied in self.told
            for line in (_name(copied), *_entries(copied.leader_epochs, names))
        )
        return lines

    def _remote(self, names: Mapping[int, str]) -> Iterator[str]:
        for copied in self.told:
            stored = self.stored.get(copied.segment_id)
            if stored is None:
                yield f"{_name(copied)} is not in the store"
                continue
            yield _name(copied)
            yield from _records(stored.file, copied.start_offset, names)
            yield from (f"epochs: {line}" for line in _entries(stored.epochs or (), names))


def _name(segment: RemoteSegmentMetadata) -> str:
    state = "" if segment.state == FINISHED else f" ({segment.state})"
    return f"seg-{segment.start_offset}-{segment.end_offset}{state}"


def _entries(entries: Iterable[tuple[int, int]], names: Mapping[int, str]) -> Iterator[str]:
    return (f"{_epoch(epoch, names)}, {start}" for epoch, start in entries)


def _epoch(epoch: int, names: Mapping[int, str]) -> str:
    """Return the epoch's name, or its number if only a checkpoint or a remote batch has it."""
    return names.get(epoch, f"epoch {epoch}")


def _records(path: Path, base_offset: int, names: Mapping[int, str]) -> Iterator[str]:
    content = path.read_bytes()
    for batch in read_segment(content, base_offset=base_offset, file=path.name).batches:
        epoch = _epoch(batch.leader_epoch, names)
        try:
            numbered = list(_numbered(content, batch))
        except (MalformedError, UndecodableError) as error:
            yield f"{batch.base_offset}: unreadable, {error}"
        else:
            yield from (f"{offset}: {number} {epoch}" for offset, number in numbered)


def _numbered(content: bytes, batch: Batch) -> Iterator[tuple[int, str]]:
    for record in read_records(content, batch):
        said = _NUMBER.fullmatch(record.value or b"")
        yield record.offset, f"msg {int(said[1])}" if said else "probe"
