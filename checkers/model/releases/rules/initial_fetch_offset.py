"""An undefined answer truncates to the fetcher's offset, no longer to the present high watermark.

At first that offset is the high watermark that the replica had when it became a follower (1.1.0,
with KAFKA-5163), and the log end before. Read from kafka.server.ReplicaFetcherThread.maybeTruncate
and kafka.server.ReplicaManager.makeFollowers, 0.11.0.0, 1.0.2 and 1.1.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, TruncationState
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_OFFSET, EpochEnd
from kchaos.checkers.model.values.replica import FetcherState, FetchState, Replica


def truncate_first(replica: Replica) -> FetchState:
    """Begin with truncation, from the high watermark (ReplicaManager.makeFollowers, 1.1.0)."""
    return FetchState(
        fetch_offset=replica.high_watermark,
        state=FetcherState.TRUNCATING,
        leader_epoch=replica.leader_epoch,
    )


def truncate_to_fetch_offset_if_undefined(
    answer: EpochEnd, follower: FollowerLog
) -> TruncationState:
    """Truncate to the answered offset, or, if undefined, to the initial fetch offset (1.1.1).

    That offset is the HW which the replica had when it became a follower.
    """
    if answer.end_offset == UNDEFINED_OFFSET:
        return TruncationState(offset=follower.fetch_offset, completed=True)
    offset = min(answer.end_offset, follower.log_end_offset)
    return TruncationState(offset=offset, completed=True)


INITIAL_FETCH_OFFSET = Rule(
    name="initial fetch offset",
    since=("1.1.0",),
    source="kafka.server.AbstractFetcherThread, 1.1.0",
    meaning=(
        "When the leader's answer is undefined, a follower truncates to its fetcher's offset for "
        "the partition. At first that is the high watermark that it had when it became a follower. "
        "In 0.11.0 and 1.0 it truncates to its present high watermark (KAFKA-5163)."
    ),
    change=lambda known: replace(
        known, first_fetch=truncate_first, truncate=truncate_to_fetch_offset_if_undefined
    ),
)
