"""KAFKA-7601's options as rules, and what they make of a log: for its replicas and its readers."""

from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.log import Log
from kchaos.studies.documents.comparison import Cell, Column, Result
from kchaos.studies.documents.kafka_7601_options import (
    CLEARED,
    FETCHED_SETS_SPLIT,
    MAXIMUM_FORMAT,
    ONE_FORMAT_PER_SEGMENT,
)
from kchaos.studies.documents.kafka_7601_scenes import BASE, A
from kchaos.studies.documents.proposal import Proposal, with_proposals
from kchaos.studies.documents.scenes import Ended, Scene, play

OLD_FORMAT = "0.10.2"
NEW, OLD = 2, 1
FENCING = ("KIP-320", "OffsetForLeaderEpoch v2", "Fetch v10", "KAFKA-9338")
"""With these a fetch of another epoch is refused, so that only truncation can go wrong."""

PROPOSED: Mapping[str, tuple[Proposal, ...]] = {
    BASE: (),
    "max. format": (MAXIMUM_FORMAT,),
    "clear": (CLEARED,),
    "segments": (ONE_FORMAT_PER_SEGMENT,),
    "segments, split": (ONE_FORMAT_PER_SEGMENT, FETCHED_SETS_SPLIT),
}
COLUMNS = (
    Column(key=BASE, title="as it was released: the configured format is written and expected"),
    Column(key="max. format", title="option 1: a leader never writes an older format than its log"),
    Column(key="clear", title="one half of option 2, as in 2.2.1: the epoch cache is emptied"),
    Column(key="segments", title="option 2, a segment rolled where an append changes the format"),
    Column(key="segments, split", title="option 2, what was fetched at once is split for that too"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Behaviour of brokers of both formats in one column."""

    new: Generation
    old: Generation

    def of(self, *magics: int) -> dict[int, Generation]:
        """Return brokers from 0 on, each with the format of that magic."""
        return {
            broker: self.new if magic == NEW else self.old for broker, magic in enumerate(magics)
        }


def formats(column: str, also: tuple[str, ...] = ()) -> Formats:
    """Return what brokers do in a column, and by these rules besides."""
    new = generation_for(BASE, also=also)
    old = generation_for(BASE, message_format=OLD_FORMAT, also=also)
    return Formats(
        new=with_proposals(new, *PROPOSED[column]), old=with_proposals(old, *PROPOSED[column])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Records that a consumer gets of a log if it knows no format above magic 1.

    Attributes:
        converted: Batches that the broker converts, or looks through in order to.
        unreadable: Batches in the new format that it sends as they are.
    """

    converted: int
    unreadable: int


def served(log: Log, generation: Generation) -> Served:
    """Return what a broker sends of its log to a consumer of the old format."""
    converted = unreadable = 0
    for batch in log.batches:
        configured = generation.versions.magic
        if generation.proposed.highest_magic(log, batch.base_offset, configured) > OLD:
            converted += 1
        elif batch.magic > OLD:
            unreadable += 1
    return Served(converted=converted, unreadable=unreadable)


def mixed_segments(ended: Ended) -> int:
    """Return how many segments of all replicas have batches of several formats."""
    return sum(
        len({batch.magic for batch in segment}) > 1
        for log in ended.logs.values()
        for segment in log.segments()
    )


def in_both(scene: Scene, column: str, magics: tuple[int, ...], then: tuple[int, ...]) -> Ended:
    """Return how a scene ends with brokers of these formats, and of those later on."""
    known = formats(column)
    return play(scene, known.of(*magics), then=known.of(*then))


def replicas_cell(ended: Ended) -> Cell:
    """Return whether replicas agree and kept what was promised, and how much was cut."""
    cut = sum(
        truncation.log_end_offset_before - truncation.target_offset
        for truncation in ended.truncations
    )
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text=f"{'right' if ended.is_right else 'wrong'}, {cut} cut",
        numbers={"cut": cut, "refetched": ended.refetched, "mixed segments": mixed_segments(ended)},
        detail=ended.happened(),
    )


def client_cell(log: Log, generation: Generation) -> Cell:
    """Return whether an old client can read a log."""
    sent = served(log, generation)
    is_right = not sent.unreadable
    return Cell(
        result=Result.RIGHT if is_right else Result.WRONG,
        text=f"{'right' if is_right else 'wrong'}, {sent.converted} of {len(log.batches)} looked "
        "through",
        numbers={"converted": sent.converted, "unreadable": sent.unreadable},
        detail=(
            f"formats in the log: {', '.join(f'magic {batch.magic}' for batch in log.batches)}",
            f"sent to an old client as they are, in the new format: {sent.unreadable}",
        ),
    )


def segments_cell(ended: Ended) -> Cell:
    """Return how many segments A has, and whether any replica has one with several formats."""
    mixed, segments = mixed_segments(ended), len(ended.logs[A].segments())
    return Cell(
        result=Result.WRONG if mixed else Result.RIGHT,
        text=f"{segments} segment{'s' * (segments > 1)}" + (", mixed" if mixed else ""),
        numbers={"segments": segments, "mixed segments": mixed},
        detail=(f"segments with several formats, of all replicas: {mixed}",),
    )


def written_cell(ended: Ended) -> Cell:
    """Return which part of what was written after a downgrade is in the old format."""
    written = ended.logs[A].batches[2:]
    old = sum(batch.magic == OLD for batch in written)
    return Cell(
        text=f"{old} of {len(written)}", numbers={"old format": old, "written": len(written)}
    )
