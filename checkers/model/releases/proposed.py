"""Decisions that all releases make alike, and only documents make otherwise.

A proposal of `studies/documents` replaces these beside decision points of `Generation`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kchaos.checkers.model.values import epoch_cache
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.replica import FetchState, Replica


def configured_magic(log: Log, configured: int) -> int:
    """Append in the configured format (kafka.log.LogValidator)."""
    return configured


def expect_configured_magic(log: Log, fetch_offset: int, configured: int) -> int:
    """Expect nothing newer than the configured format (kafka.server.KafkaApis, Fetch)."""
    return configured


def keep_isr(isr: tuple[int, ...], leader: int) -> tuple[int, ...]:
    """Leave the ISR as it is: who led stays in it (kafka.controller.PartitionLeaderSelector)."""
    return isr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proposed:
    """Behaviour of one broker at these points, as all releases have it by default.

    Attributes:
        magic_of_append: (log, magic of the configured format) to the magic in which a leader
            appends.
        rolls: (log, batches that are appended) to the base offsets of those that begin a segment.
        highest_magic: (log, fetch offset, magic of the configured format) to the highest magic
            that a leader expects there: a consumer that cannot read it gets converted batches.
        epoch_question: (replica, fetch state) to what the follower asks about leader epochs.
        answer_ends: (entries, the follower's epochs with their ends, log end offset) to the answer;
            no release is asked like that.
        persists_high_watermark: Whether a LeaderAndIsr of a new leader epoch has the broker write
            its high watermark to disk first.
        isr_of_preferred: (ISR, the leader until then) to the ISR with which a controller elects
            the preferred replica while the leader lives.
    """

    magic_of_append: Callable[[Log, int], int] = configured_magic
    # Let a segment have several formats.
    rolls: Callable[[Log, tuple[PredictedBatch, ...]], tuple[int, ...]] = lambda log, batches: ()
    highest_magic: Callable[[Log, int, int], int] = expect_configured_magic
    # Ask for the end of the last epoch in the cache.
    epoch_question: Callable[[Replica, FetchState], epoch_cache.EpochQuestion] = (
        lambda replica, fetch: epoch_cache.EpochQuestion(
            epoch_cache.latest_epoch(replica.epochs.entries)
        )
    )
    # Return an undefined end: nobody asks for several epochs.
    answer_ends: Callable[
        [epoch_cache.Entries, tuple[epoch_cache.EpochEnd, ...], int], epoch_cache.EpochEnd
    ] = lambda entries, ends, log_end_offset: epoch_cache.UNDEFINED
    persists_high_watermark: bool = False
    isr_of_preferred: Callable[[tuple[int, ...], int], tuple[int, ...]] = keep_isr


AS_RELEASED = Proposed()
"""Behaviour of all releases."""
