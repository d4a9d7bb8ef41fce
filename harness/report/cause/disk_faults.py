"""Losses that faults caused on brokers' disks."""

from collections.abc import Iterator

from kchaos.checkers.acts import LoseTail, WipeLogDirectory
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.observations import Act
from kchaos.harness.report.cause.story import CauseStep, Story


def taken_from_disk(story: Story) -> Iterator[CauseStep]:
    """Yield the step of a fault that removed some of the finding's offsets from a log's end."""
    partition = story.partition
    for timed in story.loaded.evidence.events:
        lost = timed.event
        if not isinstance(lost, LoseTail) or (lost.topic, lost.partition) != partition:
            continue
        if lost.log_end_offset <= story.finding.last_offset:
            yield CauseStep(
                time=timed.time,
                section="time",
                brokers=(lost.broker,),
                is_fatal=story.finding.kind in ("committed-loss", "last-replica-loss"),
                text=f"The fault LoseTail took the end of broker {lost.broker}'s log, from offset "
                f"{lost.log_end_offset} on.",
            )


def lost_on_disk(story: Story) -> bool:
    """Return whether a fault removed anything from a disk."""
    return any(
        isinstance(begun.act, LoseTail | WipeLogDirectory)
        for _, begun in lines_of(story.loaded.evidence.observed, Act)
    )
