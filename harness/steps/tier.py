"""Steps that wait for tiered logs: what is in the remote store, what is local, what leaders say.

What a leader says of the ends of its log is written to `tier.jsonl` with the kind "offsets".
"""

from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.remote_log_metadata import RemoteLogMetadataError
from kchaos.checkers.segments.directory import segment_files
from kchaos.checkers.segments.tier import (
    FINISHED,
    METADATA_DIRECTORY,
    RemoteSegmentMetadata,
    metadata_records,
    remote_segments,
)
from kchaos.clusters.ask.client import ListedOffset
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import ScenarioError
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play
from kchaos.harness.steps.tier_reading import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, listed

LOCAL_S = 75.0
"""Up to 3.7 the first look for what may be deleted comes 30 s after a broker's start."""
_LATEST_TIERED_SINCE = (3, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitTiered:
    """The remote store has segments of a partition, each copied to its end.

    Attributes:
        segments: (first offset, last offset, leader epoch at its end) of each that must be there,
            in the order in which their copies began; None in the last place for any epoch. No
            others may be there.
        finished_only: Whether copies that were begun and never ended may be there as well.
    """

    topic: str
    partition: int
    segments: tuple[tuple[int, int, int | None], ...]
    finished_only: bool = False
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until brokers have written it to their metadata topic."""
        partition = TopicPartition(self.topic, self.partition)
        seen: list[RemoteSegmentMetadata] = []

        def holds() -> bool:
            seen[:] = [
                segment
                for segment in segments_of(play, partition)
                if segment.state == FINISHED or not self.finished_only
            ]
            return len(seen) == len(self.segments) and all(
                _is_segment(segment, wanted)
                for segment, wanted in zip(seen, self.segments, strict=True)
            )

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"the remote segments {list(self.segments)} of {partition.topic}-"
            f"{partition.partition}",
            last_seen=lambda: [_shown(segment) for segment in seen],
            remedy="see the RemoteLogManager's lines in brokers/N/server.log",
            abort=gates.no_exit(play),
        )
        play.observed(
            observations.Tiered(
                topic=partition.topic,
                partition=partition.partition,
                segments=tuple(map(_shown, seen)),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLocalStart:
    """A broker's local log begins at an offset, on disk; what was before is only remote."""

    topic: str
    partition: int
    broker: int
    offset: int
    timeout_s: float = LOCAL_S

    def perform(self, play: Play) -> None:
        """Wait until its first segment is that one."""
        base_offsets: list[int] = []

        def holds() -> bool:
            directory = play.observer.partition_directory(self.broker, self.topic, self.partition)
            base_offsets[:] = _base_offsets(directory)
            return base_offsets[:1] == [self.offset]

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker}'s log of {self.topic}-{self.partition} to begin at "
            f"{self.offset}",
            last_seen=lambda: f"segments {base_offsets}",
            remedy="is it copied, and local.retention.bytes small enough? see its server.log",
            abort=gates.no_exit(play),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitOffsets:
    """A leader says where its log begins, where what is local begins, and what is remote.

    Attributes:
        earliest: What ListOffsets answers to -2, or None for anything; likewise the others.
        earliest_local: To -4.
        latest_tiered: To -5, which releases before 3.9 do not know; they are not asked.
    """

    topic: str
    partition: int
    broker: int
    earliest: int | None = None
    earliest_local: int | None = None
    latest_tiered: int | None = None
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the broker reports it; record the report.

        Raises:
            ScenarioError: It gave no answer.
        """
        asked = play.cluster.brokers[self.broker]
        wanted = {EARLIEST: self.earliest, EARLIEST_LOCAL: self.earliest_local}
        if release_of(asked.release).number >= _LATEST_TIERED_SINCE:
            wanted[LATEST_TIERED] = self.latest_tiered
        seen: dict[int, ListedOffset] = {}
        partition = TopicPartition(self.topic, self.partition)

        def holds() -> bool:
            for timestamp in wanted:
                seen[timestamp] = listed(play, self.broker, partition, timestamp)
            return all(
                offset is None or seen[timestamp].offset == offset
                for timestamp, offset in wanted.items()
            )

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker} to answer ListOffsets of {self.topic}-"
            f"{self.partition} with {wanted}",
            last_seen=lambda: seen,
            remedy=f"see {asked.server_log}",
            abort=gates.no_exit(play),
        )
        _write_offsets(play, self, seen)


def segments_of(play: Play, partition: TopicPartition) -> list[RemoteSegmentMetadata]:
    """Return a partition's remote segments by the brokers' metadata topic, oldest copy first."""
    for broker in play.cluster.brokers.values():
        if (broker.log_directory / METADATA_DIRECTORY).is_dir():
            try:
                segments = remote_segments(metadata_records(broker.log_directory))
            except RemoteLogMetadataError as error:
                raise ScenarioError(
                    f"the remote store's metadata cannot be read: {error}"
                ) from error
            return [
                segment for segment in segments if (segment.topic, segment.partition) == partition
            ]
    return []


def _is_segment(segment: RemoteSegmentMetadata, wanted: tuple[int, int, int | None]) -> bool:
    first, last, epoch = wanted
    if segment.state != FINISHED or (segment.start_offset, segment.end_offset) != (first, last):
        return False
    return epoch is None or segment.leader_epochs[-1][0] == epoch


def _shown(segment: RemoteSegmentMetadata) -> observations.TieredSegment:
    return observations.TieredSegment(
        segment_id=segment.segment_id,
        broker=segment.broker,
        state=segment.state,
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        leader_epochs=segment.leader_epochs,
    )


def _base_offsets(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    try:
        return [int(path.stem) for path in segment_files(directory)]
    except FileNotFoundError:
        return []  # It was renamed while the folder was listed: the next look sees it.


def _write_offsets(play: Play, asking: AwaitOffsets, seen: dict[int, ListedOffset]) -> None:
    play.recorder.tier(
        "offsets",
        broker=asking.broker,
        topic=asking.topic,
        partition=asking.partition,
        offsets={
            str(timestamp): {
                "error_code": offset.error_code,
                "offset": offset.offset,
                "leader_epoch": offset.leader_epoch,
            }
            for timestamp, offset in seen.items()
        },
    )
