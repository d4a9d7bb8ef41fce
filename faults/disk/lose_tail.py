"""Loss of a log's end that no fsync had covered, as a power loss takes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.checkers.formats.batches import entries
from kchaos.clusters.api import Cluster, Collectable
from kchaos.clusters.links.details import METADATA_TOPIC
from kchaos.clusters.start.log_directories import replica_directory
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import FaultError
from kchaos.faults.observation import node_of
from kchaos.faults.view import ClusterView, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseTail(CheckedFault, acts.LoseTail):
    """A stopped broker's active segment ends before the batch that starts at `log_end_offset`.

    `kill -9` alone loses nothing: the page cache outlives the process. The index files keep what
    they hold, as they would after a power loss; the broker rebuilds them, since its clean-shutdown
    mark is missing. There is nothing to heal: what is lost is lost. Of a KRaft controller it is
    the end of the metadata log that is lost (`__cluster_metadata`, partition 0), where an offset
    below 0 stands for as many batches at its end. Its fields are those of the act.
    """

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.LoseTail,)

    def available(self, view: ClusterView) -> str:
        """Check that the broker is down and was not stopped cleanly."""
        is_of_quorum = self.topic == METADATA_TOPIC and self.broker in view.controllers
        why_not = unable(view, self.broker, Collectable, or_controller=is_of_quorum)
        if why_not:
            return why_not
        if view.nodes[self.broker].is_running:
            return f"broker {self.broker} runs: kill it before its disk loses anything"
        if view.nodes[self.broker].was_stopped_cleanly:
            return (
                f"broker {self.broker} was stopped cleanly, which flushes all its logs: a power "
                "loss takes nothing of them; use KillBroker"
            )
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Cut the segment file.

        Raises:
            FaultError: No batch starts at the offset in the active segment.
        """
        broker = node_of(cluster, self.broker)
        directory = replica_directory(broker.log_directories, self.topic, self.partition)
        segment, position = _find(directory, self.log_end_offset)
        before = segment.stat().st_size
        with journal.acting(acts.act_of(acts.LoseTail, self)), segment.open("r+b") as file:
            file.truncate(position)
        yield Injection(
            fault="LoseTail",
            before={"segment": segment.name, "size_bytes": before},
            effect={"size_bytes": segment.stat().st_size},
        )


def _find(directory: Path, offset: int) -> tuple[Path, int]:
    """Return the active segment, and the position of the batch with this offset in it.

    Raises:
        FaultError: There is none.
    """
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise FaultError(f"{directory} holds no segment: is the partition on this broker?")
    segment = segments[-1]
    starts = []
    for first_offset, position in _batches(segment):
        if first_offset == offset:
            return segment, position
        starts.append((first_offset, position))
    if -len(starts) <= offset < 0:
        return segment, starts[offset][1]
    raise FaultError(
        f"no batch starts at offset {offset} in {segment}, the active segment; its last batches "
        f"start at {[start for start, _ in starts[-5:]]}"
    )


def _batches(segment: Path) -> Iterator[tuple[int, int]]:
    """Yield the base offset and the position of each whole batch, in order.

    A set of compressed messages (magic 0 and 1) carries the offset of its *last* message only.
    It is taken to begin where the batch before it ended, as in every log that was not compacted.
    """
    content = memoryview(segment.read_bytes())
    next_offset = int(segment.stem)
    for entry in entries(content, len(content)):
        yield (next_offset if entry.is_wrapper else entry.offset), entry.position
        next_offset = entry.last_offset + 1
