"""KAFKA-6857 (0.11.0.3, 1.0.2, 1.1.1): epoch -1 is undefined whatever the leader's cache holds.

Before, a leader without any epoch took -1 for its latest one and answered its log end offset. Read
from kafka.server.epoch.LeaderEpochFileCache.endOffsetFor, 0.11.0.2, 1.0.1 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kip_101 import answer_epoch
from kchaos.checkers.model.values.epoch_cache import UNDEFINED, UNDEFINED_EPOCH, Entries, EpochEnd


def answer_no_epoch_as_undefined(
    entries: Entries, requested_epoch: int, log_end_offset: int
) -> EpochEnd:
    """Answer as before, but epoch -1 is undefined whatever the cache holds (KAFKA-6857)."""
    if requested_epoch == UNDEFINED_EPOCH:
        return UNDEFINED
    return answer_epoch(entries, requested_epoch, log_end_offset)


KAFKA_6857 = Rule(
    name="KAFKA-6857",
    since=("0.11.0.3", "1.0.2", "1.1.1", "2.0.0"),
    source="kafka.server.epoch.LeaderEpochFileCache, 0.11.0.3",
    meaning=(
        "A leader answers epoch -1 with undefined. Before, a leader without any epoch took -1 for "
        "its latest one and answered its log end offset. So followers did not truncate at all."
    ),
    change=lambda known: replace(known, answer_epoch=answer_no_epoch_as_undefined),
)
