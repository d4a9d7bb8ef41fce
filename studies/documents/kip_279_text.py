"""Behaviour that KIP-279's text describes and no release has; followed only when named.

- Scenario 1, third case: a truncation to 21 inside a batch "will truncate all the way to offset 10"
  and the follower refetches from 11. Kafka's Log.truncateTo removes the batch but sets the log end
  offset to 21, so that it fetches from 21 and keeps a hole.
- Scenario 3: when no common epoch is left the follower truncates to its high watermark. 2.0.0
  truncates to where the round before left its fetch offset.
"""

from collections.abc import Callable
from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, Generation, TruncationState
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_OFFSET, EpochEnd
from kchaos.studies.documents.proposal import Proposal

Truncate = Callable[[EpochEnd, FollowerLog], TruncationState]


def to_batch_edge(truncate: Truncate) -> Truncate:
    """Return the truncation that goes on down to the end of the last whole batch below."""

    def truncate_to_batch_edge(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
        truncation = truncate(answer, follower)
        log = follower.log.truncate_to(truncation.offset)
        edge = log.log_end_offset if log is follower.log else log.end_offset_on_disk()
        return replace(truncation, offset=edge)

    return truncate_to_batch_edge


def high_watermark_at_last(truncate: Truncate) -> Truncate:
    """Return the truncation that goes to the high watermark when the leader knows no epoch."""

    def truncate_to_high_watermark(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
        if answer.end_offset == UNDEFINED_OFFSET:
            return TruncationState(offset=follower.high_watermark, completed=True)
        return truncate(answer, follower)

    return truncate_to_high_watermark


def _end_at_batch_edge(known: Generation) -> Generation:
    return replace(known, truncate=to_batch_edge(known.truncate))


def _fall_back_to_high_watermark(known: Generation) -> Generation:
    return replace(known, truncate=high_watermark_at_last(known.truncate))


BATCH_EDGE = Proposal(
    name="KIP-279's text: log ends at a batch edge",
    source="KIP-279, scenario 1",
    change=_end_at_batch_edge,
)

HIGH_WATERMARK_AT_LAST = Proposal(
    name="KIP-279's text: high watermark at last",
    source="KIP-279, scenario 3",
    change=_fall_back_to_high_watermark,
)
