"""A node's copy of a KRaft cluster's metadata log, read on while the node writes it.

The copy is a folder of segments with batches of format 2; a record's value is decoded by
`checkers.formats.metadata_records`. Nothing here says which batches are committed: that is known
only by comparing the copies of the controllers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kchaos.checkers.formats.batches import BATCH_HEADER, CONTROL_FLAG, entries
from kchaos.checkers.formats.fields import read_varint, take_nullable

_ATTRIBUTES_FIELD = 5


class LogBatch(NamedTuple):
    """One batch: the offset of its first record, the end behind its last one, and its records.

    Each record is its key, None for a metadata record, and its value. ``leader_epoch`` is that of
    the quorum's leader who wrote it.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    is_control: bool
    records: tuple[tuple[bytes | None, bytes], ...]


@dataclass(slots=True)
class MetadataLogReader:
    """Reads what has been appended to a log since it was last read.

    ``end_offset`` is that behind the last batch that was read; ``leader_epoch`` is that batch's,
    and ``epoch_start`` is where this epoch begins.
    """

    folder: Path
    end_offset: int = 0
    leader_epoch: int = -1
    epoch_start: int = 0
    _segment: Path | None = None
    _position: int = 0
    _last_position: int = 0
    _last_header: bytes = b""

    def read_on(self) -> list[LogBatch] | None:
        """Return the new whole batches; None where what was read before is no longer there.

        A node that was the quorum's leader truncates what no other node has. A new reader then has
        to begin anew.
        """
        segments = sorted(self.folder.glob("[0-9]*.log"))
        if not segments:
            return [] if self._segment is None else None
        if self._segment is None:
            if int(segments[0].stem):
                return None
            self._segment = segments[0]
        if self._segment not in segments:
            return None
        batches: list[LogBatch] = []
        for segment in segments[segments.index(self._segment) :]:
            if segment != self._segment:
                self._segment = segment
                self._position, self._last_position, self._last_header = 0, 0, b""
            if (added := self._added(segment)) is None:
                return None
            batches += added
        return batches

    def _added(self, segment: Path) -> list[LogBatch] | None:
        with segment.open("rb") as file:
            file.seek(self._last_position)
            content = memoryview(file.read())
        if bytes(content[: len(self._last_header)]) != self._last_header:
            return None
        view = content[self._position - self._last_position :]
        batches = []
        for entry in entries(view, len(view)):
            batch = _batch(view[entry.position : entry.position + entry.size_bytes])
            batches.append(batch)
            if batch.leader_epoch != self.leader_epoch:
                self.leader_epoch, self.epoch_start = batch.leader_epoch, batch.base_offset
            self.end_offset = batch.end_offset
            self._last_position = self._position
            self._last_header = bytes(view[entry.position : entry.position + BATCH_HEADER.size])
            self._position += entry.size_bytes
        return batches


def _batch(view: memoryview) -> LogBatch:
    fields = BATCH_HEADER.unpack_from(view)
    return LogBatch(
        base_offset=fields[0],
        end_offset=fields[0] + fields[6] + 1,
        leader_epoch=fields[2],
        is_control=bool(fields[_ATTRIBUTES_FIELD] & CONTROL_FLAG),
        records=tuple(_records(view[BATCH_HEADER.size :], fields[12])),
    )


def _records(view: memoryview, count: int) -> Iterator[tuple[bytes | None, bytes]]:
    """Give the key and the value of each record of an uncompressed batch."""
    position = 0
    for _ in range(count):
        size, position = read_varint(view, position)
        end = position + size
        position += 1
        for _delta in ("timestamp", "offset"):
            _, position = read_varint(view, position)
        size, position = read_varint(view, position)
        key, position = take_nullable(view, position, size)
        size, position = read_varint(view, position)
        value, position = take_nullable(view, position, size)
        yield key, value or b""
        position = end
