"""What a power loss takes: the end of a log that no fsync had covered."""

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from checkers import acts
from clusters.api import Cluster, Collectable
from faults.api import Injection, Journal, require_available
from faults.errors import FaultError
from faults.view import ClusterView, unable

_ENTRY_OVERHEAD_BYTES = 12
_CODEC_BITS = 0x07
# Offset and length; what magic 2 keeps its leader epoch in and older ones their checksum; the
# magic; the attributes of magic 0 and 1; then up to the last offset delta of magic 2.
_HEADER = struct.Struct(">qi4xbb5xi")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseTail(acts.LoseTail):
    """A stopped broker's active segment ends before the batch that starts at `log_end_offset`.

    `kill -9` alone loses nothing: the page cache outlives the process. The index files keep what
    they hold, as they would after a power loss; the broker rebuilds them, since its clean-shutdown
    mark is missing. There is nothing to heal: what is lost is lost. Its fields are those of the
    act.
    """

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.LoseTail,)

    def available(self, view: ClusterView) -> str:
        """A broker that does not run and was not stopped cleanly."""
        why_not = unable(view, self.broker, Collectable)
        if why_not:
            return why_not
        if view.brokers[self.broker].is_running:
            return f"broker {self.broker} runs: kill it before its disk loses anything"
        if view.brokers[self.broker].was_stopped_cleanly:
            return (
                f"broker {self.broker} was stopped cleanly, which flushes all its logs: a power "
                "loss takes nothing of them; use KillBroker"
            )
        return ""

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts the segment file.

        Raises:
            FaultError: No batch starts at the offset in the active segment.
        """
        require_available(self, cluster)
        broker = cluster.brokers[self.broker]
        directory = broker.log_directory / f"{self.topic}-{self.partition}"
        segment, position = _find(directory, self.log_end_offset)
        before = segment.stat().st_size
        with (
            journal.acting(acts.act_of(acts.LoseTail, self)),
            segment.open("r+b") as file,
        ):
            file.truncate(position)
        yield Injection(
            fault="LoseTail",
            before={"segment": segment.name, "size_bytes": before},
            effect={"size_bytes": segment.stat().st_size},
        )


def _find(directory: Path, offset: int) -> tuple[Path, int]:
    """The active segment, and the position in it at which the batch with this offset starts.

    Raises:
        FaultError: There is none.
    """
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise FaultError(f"{directory} holds no segment: is the partition on this broker?")
    segment = segments[-1]
    starts = []
    with segment.open("rb") as file:
        for first_offset, position in _batches(file, int(segment.stem)):
            if first_offset == offset:
                return segment, position
            starts.append(first_offset)
    raise FaultError(
        f"no batch starts at offset {offset} in {segment}, the active segment; its last batches "
        f"start at {starts[-5:]}"
    )


def _batches(file: BinaryIO, segment_base_offset: int) -> Iterator[tuple[int, int]]:
    """The first offset and the position of every whole batch, in order.

    A set of compressed messages (magic 0 and 1) carries the offset of its *last* message only.
    It is taken to begin where the batch before it ended, as in every log that was not compacted.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    position, next_offset = 0, segment_base_offset
    while position + _ENTRY_OVERHEAD_BYTES < size_bytes:
        file.seek(position)
        # The smallest message of magic 0 is a byte shorter than what is read of magic 2.
        header = file.read(_HEADER.size).ljust(_HEADER.size, b"\0")
        offset, length, magic, attributes, last_offset_delta = _HEADER.unpack(header)
        end = position + _ENTRY_OVERHEAD_BYTES + length
        if length <= 0 or end > size_bytes:
            return
        if magic >= 2:
            first_offset, last_offset = offset, offset + last_offset_delta
        else:
            is_compressed = bool(attributes & _CODEC_BITS)
            first_offset, last_offset = (next_offset if is_compressed else offset), offset
        yield first_offset, position
        position, next_offset = end, last_offset + 1
