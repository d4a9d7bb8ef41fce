"""A step that waits for a broker's log cleaner, and looks at what it left."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.checkpoints import CLEANED, parse_offset_checkpoint
from kchaos.checkers.model import events
from kchaos.checkers.rules.offsets import merged
from kchaos.checkers.segments.batch import Batch, Record
from kchaos.checkers.segments.directory import segment_files
from kchaos.checkers.segments.reader import iter_batches, read_records
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitCleaned:
    """A broker's log cleaner has gone over a log, up to an offset.

    The topic must have cleanup.policy compact. A cleaner leaves the segment alone that is written
    to. It is done with the log when it writes how far it came, and begins again when more is there:
    so nobody may write to the log meanwhile.

    Attributes:
        broker: Whose log it is.
        cleaned_until: The least first offset that it leaves alone: where a segment begins.
    """

    broker: int
    topic: str
    partition: int
    cleaned_until: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the broker has checkpointed that offset; give the model the cleaned log."""
        partition = TopicPartition(self.topic, self.partition)
        replica = play.observer.partition_directory(self.broker, self.topic, self.partition)
        file = replica.parent / CLEANED
        seen: list[int | None] = [None]

        def holds() -> bool:
            text = file.read_text() if file.is_file() else ""
            seen[0] = parse_offset_checkpoint(text, file=str(file)).get(partition)
            return seen[0] is not None and seen[0] >= self.cleaned_until

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker}'s log cleaner to go over {self.topic}-"
            f"{self.partition} up to offset {self.cleaned_until}",
            last_seen=lambda: f"cleaned up to {seen[0]}",
            remedy="it needs cleanup.policy compact, a low "
            "min.cleanable.dirty.ratio, and a segment that ends there",
            abort=gates.no_exit(play),
        )
        cleaned = events.LogCleaned(
            broker=self.broker,
            topic=self.topic,
            partition=self.partition,
            cleaned_until=seen[0] or 0,
            kept=tuple(self._kept(play, seen[0] or 0)),
        )
        play.action(cleaned)

    def _kept(self, play: Play, end: int) -> list[tuple[int, int]]:
        """Return the ranges of offsets below the end at which there are records."""
        directory = play.observer.partition_directory(self.broker, self.topic, self.partition)
        offsets = (record.offset for file in segment_files(directory) for record in _records(file))
        return merged((offset, offset) for offset in offsets if offset < end)


def _records(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    for batch in iter_batches(data, base_offset=int(file.stem), file=file.name):
        if isinstance(batch, Batch):
            yield from read_records(data, batch)
