"""Options of KAFKA-7601 for a downgrade of the message format: forbid it, or make it safe.

No release follows these. 2.2.1 took one half of the second option, clearing the epoch cache
(`kafka_7601`). `kchaos compare KAFKA-7601` puts them beside each other.
"""

from dataclasses import replace
from itertools import pairwise

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.rules.kafka_7601 import forget_entries
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.studies.documents.proposal import Proposal


def maximum_magic(log: Log, configured: int) -> int:
    """Return the higher of the configured format and that of the last batch in the log."""
    return max(configured, log.batches[-1].magic) if log.batches else configured


def expect_maximum_magic(log: Log, fetch_offset: int, configured: int) -> int:
    """Expect what would be appended now: in a log that never went back nothing is newer."""
    return maximum_magic(log, configured)


def roll_at_append(log: Log, batches: tuple[PredictedBatch, ...]) -> tuple[int, ...]:
    """Begin a segment where an append begins in another format than the log ends in.

    As Kafka rolls: once for an append, whatever follows in it (kafka.log.Log.maybeRoll).
    """
    if not batches or not log.batches or log.batches[-1].magic == batches[0].magic:
        return ()
    return (batches[0].base_offset,)


def roll_at_every_change(log: Log, batches: tuple[PredictedBatch, ...]) -> tuple[int, ...]:
    """Begin a segment wherever the format changes, also within what was fetched at once."""
    before = (*log.batches[-1:], *batches)
    return tuple(
        batch.base_offset for known, batch in pairwise(before) if known.magic != batch.magic
    )


def expect_magic_of_segment(log: Log, fetch_offset: int, configured: int) -> int:
    """Expect in a segment what its first batch has; nothing is read but that."""
    for segment in log.segments():
        if segment and segment[-1].last_offset >= fetch_offset:
            return segment[0].magic
    return configured


def _one_format_per_segment(known: Generation) -> Generation:
    return replace(
        known,
        entries_after_old_batch=forget_entries,
        proposed=replace(
            known.proposed, rolls=roll_at_append, highest_magic=expect_magic_of_segment
        ),
    )


CLEARED = Proposal(
    name="KAFKA-7601, the epoch cache is emptied",
    source="KAFKA-7601, Allow downgrades",
    change=lambda known: replace(known, entries_after_old_batch=forget_entries),
)
"""The half that 2.2.1 has, over a release before it."""
MAXIMUM_FORMAT = Proposal(
    name="KAFKA-7601, the maximum format wins",
    source="KAFKA-7601, Disallow downgrades",
    change=lambda known: replace(
        known,
        proposed=replace(
            known.proposed, magic_of_append=maximum_magic, highest_magic=expect_maximum_magic
        ),
    ),
)
ONE_FORMAT_PER_SEGMENT = Proposal(
    name="KAFKA-7601, one format per segment",
    source="KAFKA-7601, Allow downgrades",
    change=_one_format_per_segment,
)
FETCHED_SETS_SPLIT = Proposal(
    name="KAFKA-7601, fetched batches are split by format",
    source="KAFKA-7601, Allow downgrades",
    change=lambda known: replace(
        known, proposed=replace(known.proposed, rolls=roll_at_every_change)
    ),
)
