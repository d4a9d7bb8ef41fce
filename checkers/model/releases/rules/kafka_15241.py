"""KAFKA-15241 (3.7.0): a leader asks its own epochs how far a segment of the tier is its own.

Before, it took the end of the newest segment of its latest epoch there, also where its own log had
been truncated below that (kafka.log.remote.RemoteLogManager.findHighestRemoteOffset, 3.6.2, 3.7.0).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import Entries
from kchaos.checkers.model.values.requests import RemoteSegment

NOTHING_COPIED = -1


def highest_of_latest_epoch(
    entries: Entries, log_end_offset: int, segments: tuple[RemoteSegment, ...]
) -> int:
    """Return the highest offset in the tier of the latest own epoch that has any there."""
    for entry in reversed(entries):
        highest = highest_of_epoch(entry.epoch, segments)
        if highest is not None:
            return highest
    return NOTHING_COPIED


def highest_of_own_lineage(
    entries: Entries, log_end_offset: int, segments: tuple[RemoteSegment, ...]
) -> int:
    """Return the same, but not beyond where that epoch ends in the own log."""
    end_offset = log_end_offset
    for entry in reversed(entries):
        highest = highest_of_epoch(entry.epoch, segments)
        if highest is not None:
            return min(highest, end_offset - 1)
        end_offset = entry.start_offset
    return NOTHING_COPIED


def highest_of_epoch(epoch: int, segments: tuple[RemoteSegment, ...]) -> int | None:
    """Return the last offset of an epoch in any segment, None where none has it."""
    ends = []
    for segment in segments:
        epochs = [entry.epoch for entry in segment.leader_epochs]
        if epoch in epochs:
            later = [entry.start_offset for entry in segment.leader_epochs if entry.epoch > epoch]
            ends.append(min(later) - 1 if later else segment.end_offset)
    return max(ends, default=None)


KAFKA_15241 = Rule(
    name="KAFKA-15241",
    since=("3.7.0",),
    source="kafka.log.remote.RemoteLogManager, 3.7.0",
    meaning=(
        "A leader of a tiered log takes no more to be in the remote tier than what is of its own "
        "lineage there. Before, it took the end of the newest segment of its latest epoch, and "
        "copied nothing of its own up to there."
    ),
    change=lambda known: replace(known, highest_remote_offset=highest_of_own_lineage),
)
