"""What a power loss takes: the end of a log that no fsync had covered."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from clusters.api import Cluster, Collectable
from faults.api import Injection, Journal, broker_able
from faults.errors import FaultError, NoEffect

_BASE_OFFSET_BYTES = 8
_ENTRY_OVERHEAD_BYTES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseTail:
    """A stopped broker's active segment ends before the batch that starts at `log_end_offset`.

    `kill -9` alone loses nothing: the page cache outlives the process. The index files keep what
    they hold, as they would after a power loss; the broker rebuilds them, since its clean-shutdown
    mark is missing. There is nothing to heal: what is lost is lost.

    Attributes:
        broker: Its id; its process must not run.
        log_end_offset: First offset that is lost; must be a batch's base offset.
    """

    broker: int
    topic: str
    partition: int
    log_end_offset: int

    lasting: ClassVar[bool] = False

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cuts the segment file.

        Raises:
            FaultError: The broker runs, or no batch starts at the offset.
        """
        broker = broker_able(cluster, self.broker, Collectable)
        if broker.is_running:
            raise FaultError(f"broker {self.broker} runs: kill it before its disk loses anything")
        directory = broker.log_directory / f"{self.topic}-{self.partition}"
        segment, position = _find(directory, self.log_end_offset)
        before = segment.stat().st_size
        with (
            journal.acting(
                "lose-tail",
                broker=self.broker,
                topic=self.topic,
                partition=self.partition,
                log_end_offset=self.log_end_offset,
            ),
            segment.open("r+b") as file,
        ):
            file.truncate(position)
        if before == position:
            raise NoEffect(f"{segment.name} ends at {position} already: nothing was lost")
        yield Injection(
            fault="LoseTail",
            before={"segment": segment.name, "size_bytes": before},
            effect={"size_bytes": position},
        )


def _find(directory: Path, offset: int) -> tuple[Path, int]:
    """The active segment, and the position in it at which the entry with this offset starts."""
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise FaultError(f"{directory} holds no segment")
    data = segments[-1].read_bytes()
    position = 0
    while position + _ENTRY_OVERHEAD_BYTES <= len(data):
        base = int.from_bytes(data[position : position + _BASE_OFFSET_BYTES], "big", signed=True)
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if base == offset:
            return segments[-1], position
        if size <= 0:
            break
        position += _ENTRY_OVERHEAD_BYTES + size
    raise FaultError(f"no batch starts at offset {offset} in {segments[-1]}")
