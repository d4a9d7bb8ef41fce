"""Copies of a KRaft cluster's metadata log: bytes in, and what a majority of the voters shares out.

Every node has a folder `__cluster_metadata-0`: segments of ordinary batches, and snapshots, named
by the offset behind the last record that they stand for and by its leader epoch
(`<offset>-<epoch>.checkpoint`). Each batch has the quorum leader's epoch. A leader that was deposed
may have appended what nobody else has: it truncates that when it hears of the next one.

Sources: RecordsBatchReader, KafkaRaftLog, Snapshots.snapshotPath (kafka-raft), LeaderChangeMessage
(kafka-clients), KIP-595 for what is committed: what a majority of the voters has, since the epoch
of a batch and its offset determine all that is before it.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from kchaos.checkers.errors import CheckError
from kchaos.checkers.formats.fields import CompactReader, MalformedError
from kchaos.checkers.formats.metadata_image import Transactions
from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    RecordDefinitions,
    voters_record,
)
from kchaos.checkers.segments.batch import Batch, Record
from kchaos.checkers.segments.reader import read_records, read_segment

_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LEADER_CHANGE, _VOTERS = "LEADER_CHANGE", "KRAFT_VOTERS"
_UNFINISHED = ("torn-tail", "zero-tail")


class MetadataLogError(CheckError):
    """A copy of the metadata log cannot be what a node wrote; the message names file and place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedBatch:
    """One batch of a copy.

    Attributes:
        last_offset: Inclusive.
        leader_epoch: Of the quorum's leader that wrote it: the controller epoch.
        is_control: Whether the quorum itself wrote it, and not its controller.
        content: Its bytes, by which copies are compared.
        place: File and position, for messages.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    is_control: bool
    content: bytes
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSnapshot:
    """One snapshot file: the state before `end_offset`, as records."""

    end_offset: int
    leader_epoch: int
    batches: tuple[CopiedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLog:
    """One node's copy.

    Attributes:
        batches: In the order of their offsets, without a gap.
        snapshots: The oldest first.
    """

    node: int
    batches: tuple[CopiedBatch, ...] = ()
    snapshots: tuple[CopiedSnapshot, ...] = ()

    @property
    def start_offset(self) -> int:
        """Where its segments begin, or its newest snapshot ends if it has no segment."""
        if self.batches:
            return self.batches[0].base_offset
        return self.snapshots[-1].end_offset if self.snapshots else 0

    @property
    def end_offset(self) -> int:
        """Behind its last record."""
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The quorum has a leader: the first record of each of its epochs."""

    leader: int
    voters: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One record of the log, or the beginning of a leader's epoch.

    Attributes:
        leader_epoch: As in its batch.
        time_ms: The leader's clock when it wrote it, in milliseconds.
        batch: The first offset of its batch: what one event of the controller wrote at once shares
            it, but for the largest events.
    """

    offset: int
    leader_epoch: int
    time_ms: int
    batch: int
    record: MetadataRecord | LeaderChange


def read_node(node: int, files: Sequence[tuple[str, bytes]]) -> NodeLog:
    """Return one node's copy from its files' names and content, ignoring other files.

    The last segment may end within a batch: the node was killed, or still wrote it.

    Raises:
        MetadataLogError: A checksum is wrong, a batch is missing between two, or an earlier
            segment or a snapshot is not whole.

    **Verifies**: every batch's checksum, and that offsets follow each other.
    **Does not verify**: the epochs of batches, which no checksum covers: `committed` compares them.
    """
    named = {name.rpartition("/")[2]: (name, content) for name, content in files}
    segments = [named[name] for name in sorted(named) if _SEGMENT.fullmatch(name)]
    batches: list[CopiedBatch] = []
    for name, content in segments:
        base_offset = int(name.rpartition("/")[2].partition(".")[0])
        if batches and base_offset != batches[-1].last_offset + 1:
            raise MetadataLogError(
                f"{name} begins at offset {base_offset}, and the segment before it ends at "
                f"{batches[-1].last_offset}: some of the metadata log is missing"
            )
        is_last = name == segments[-1][0]
        batches += _batches(name, content, base_offset, may_be_unfinished=is_last)
    snapshots = []
    for name in sorted(named):
        match = _SNAPSHOT.fullmatch(name)
        if match:
            path, content = named[name]
            read = _batches(path, content, 0, may_be_unfinished=False)
            snapshots.append(
                CopiedSnapshot(
                    end_offset=int(match[1]), leader_epoch=int(match[2]), batches=tuple(read)
                )
            )
    return NodeLog(node=node, batches=tuple(batches), snapshots=tuple(snapshots))


def committed(copies: Sequence[NodeLog]) -> tuple[CopiedBatch, ...]:
    """Return the longest prefix of batches that a majority of the voters shares.

    Args:
        copies: Those of the voters, all of them: an empty one of a voter that has none.

    What a voter no longer has since a snapshot stands for it counts as shared: snapshots are made
    of what is committed.
    """
    majority = len(copies) // 2 + 1
    at = {copy.node: {batch.base_offset: batch for batch in copy.batches} for copy in copies}
    offset = min((copy.start_offset for copy in copies if copy.batches), default=0)
    agreeing = [copy for copy in copies if copy.end_offset > offset]
    shared: list[CopiedBatch] = []
    while True:
        later = [copy for copy in agreeing if copy.start_offset > offset]
        groups: dict[bytes, list[NodeLog]] = {}
        for copy in agreeing:
            batch = at[copy.node].get(offset)
            if batch is not None:
                groups.setdefault(batch.content, []).append(copy)
        largest = max(groups.values(), key=len, default=[])
        if not largest or len(largest) + len(later) < majority:
            return tuple(shared)
        shared.append(at[largest[0].node][offset])
        agreeing = [*largest, *later]
        offset = shared[-1].last_offset + 1


def differing(copy: NodeLog, shared: Sequence[CopiedBatch]) -> CopiedBatch | None:
    """Return the first batch of a copy that differs from the voters' shared one, or None.

    A node that was away may still have the tail of a leader that was deposed. All of that is of
    an older epoch than what is shared there, so it is no difference.
    """
    bases = [batch.base_offset for batch in shared]
    has_deposed_tail = False
    for batch in copy.batches:
        if not shared or batch.base_offset > shared[-1].last_offset:
            return None
        place = bisect_right(bases, batch.base_offset) - 1
        if place < 0:
            continue  # The voters have a snapshot in its place.
        known = shared[place]
        if batch.content != known.content:
            has_deposed_tail = has_deposed_tail or batch.leader_epoch < known.leader_epoch
            if batch.leader_epoch >= known.leader_epoch:
                return batch
        elif has_deposed_tail:
            return batch
    return None


def entries(batches: Sequence[CopiedBatch], definitions: RecordDefinitions) -> Iterator[LogEntry]:
    """Yield the records of batches in order, without control records of other kinds.

    What a transaction of the controller wrote comes where it stands, once the transaction has
    ended; of one that was aborted, or has not ended, nothing does (KIP-868).

    Raises:
        MetadataLogError: A record has no definition, or not its form.
    """
    transactions = Transactions[LogEntry]()
    for entry in _all_entries(batches, definitions):
        if isinstance(entry.record, LeaderChange):
            yield entry
        else:
            yield from transactions.take(entry.record.name, entry)


def _all_entries(
    batches: Sequence[CopiedBatch], definitions: RecordDefinitions
) -> Iterator[LogEntry]:
    for copied in batches:
        for record, control_type in _records(copied):
            try:
                value = _said(record, control_type, definitions)
            except (MetadataRecordError, MalformedError, IndexError, struct.error) as error:
                raise MetadataLogError(
                    f"{copied.place}: the record at offset {record.offset}: {error}"
                ) from error
            if value is not None:
                yield LogEntry(
                    offset=record.offset,
                    leader_epoch=copied.leader_epoch,
                    time_ms=record.timestamp,
                    batch=copied.base_offset,
                    record=value,
                )


def _said(
    record: Record, control_type: str | None, definitions: RecordDefinitions
) -> MetadataRecord | LeaderChange | None:
    if control_type is None:
        return definitions.decode(record.value or b"")
    return _leader_change(record.value or b"") if control_type == _LEADER_CHANGE else None


def _leader_change(value: bytes) -> LeaderChange:
    reader = CompactReader(value)
    version, leader = reader.number(">h"), reader.number(">i")
    voters = []
    for _ in range(reader.varint() - 1):
        voters.append(reader.number(">i"))
        if version > 0:
            reader.uuid()
        reader.tags()
    return LeaderChange(leader=leader, voters=tuple(voters))


def _records(copied: CopiedBatch) -> Iterator[tuple[Record, str | None]]:
    contents = read_segment(copied.content, base_offset=copied.base_offset, file=copied.place)
    for batch in contents.batches:
        for record in read_records(copied.content, batch):
            yield record, record.control_type


def _batches(
    name: str, content: bytes, base_offset: int, *, may_be_unfinished: bool
) -> Iterator[CopiedBatch]:
    contents = read_segment(content, base_offset=base_offset, file=name)
    for problem in contents.findings:
        if problem.kind not in _UNFINISHED or not may_be_unfinished:
            raise MetadataLogError(problem.message)
    expected = base_offset
    for batch in contents.batches:
        if batch.magic != 2 or batch.base_offset != expected:
            raise MetadataLogError(
                f"{name}, position {batch.position}: a batch of format {batch.magic} at offset "
                f"{batch.base_offset}, where offset {expected} should come. This is no metadata "
                "log, or a part of one is missing"
            )
        expected = batch.last_offset + 1
        yield _copied(name, content, batch)


def _copied(name: str, content: bytes, batch: Batch) -> CopiedBatch:
    return CopiedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        is_control=batch.is_control,
        content=content[batch.position : batch.position + batch.size_bytes],
        place=f"{name}, position {batch.position}",
    )


def voters_of(copies: Mapping[int, NodeLog]) -> frozenset[int]:
    """Return the voters that any copy's leader changes name; none without such a record."""
    changes = (
        _leader_change(record.value or b"")
        for _, record, control_type in _control_records(copies)
        if control_type == _LEADER_CHANGE
    )
    return frozenset(voter for change in changes for voter in change.voters)


def voters_records(copies: Mapping[int, NodeLog]) -> list[tuple[CopiedBatch, dict[int, str]]]:
    """Return each VotersRecord that a copy has, the newest first, with its batch (KIP-853).

    That is the directory id of each voter by its node id. A static quorum has no such record.
    """
    records = {
        copied.content: (copied, voters_record(record.value or b""))
        for copied, record, control_type in _control_records(copies)
        if control_type == _VOTERS
    }
    order = attrgetter("leader_epoch", "base_offset")
    return sorted(records.values(), key=lambda found: order(found[0]), reverse=True)


def _control_records(
    copies: Mapping[int, NodeLog],
) -> Iterator[tuple[CopiedBatch, Record, str | None]]:
    for copy in copies.values():
        for copied in (batch for batch in copy.batches if batch.is_control):
            for record, control_type in _records(copied):
                yield copied, record, control_type
