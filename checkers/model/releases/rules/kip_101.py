"""KIP-101: followers ask for the end of their last leader epoch in place of trusting their HW.

Jira KAFKA-1211 and KAFKA-3919. Read from kafka.server.epoch.LeaderEpochFileCache (`assign`,
`endOffsetFor`) and kafka.server.ReplicaFetcherThread (`maybeTruncate`,
`shouldSendLeaderEpochRequest`), 0.11.0.3, 1.0.2 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, TruncationState
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import fetch_from_log_end, keep_entries
from kchaos.checkers.model.values import epoch_cache
from kchaos.checkers.model.values.replica import FetcherState, FetchState, Replica


def assign_epoch(entries: epoch_cache.Entries, epoch: int, offset: int) -> epoch_cache.Entries:
    """Return the entries with a later epoch added; an epoch or offset that goes back is ignored."""
    last_offset = entries[-1].start_offset if entries else -1
    if epoch > epoch_cache.latest_epoch(entries) and offset >= last_offset:
        return (*entries, epoch_cache.EpochEntry(epoch, offset))
    return entries


def answer_epoch(
    entries: epoch_cache.Entries, requested_epoch: int, log_end_offset: int
) -> epoch_cache.EpochEnd:
    """Return where the requested epoch ends, or the start of the first epoch above it.

    Undefined for an epoch below the first cached and for one above the last. With an empty cache
    the latest epoch is -1, so that a question for -1 is answered with the log end offset
    (KAFKA-6857).
    """
    if requested_epoch == epoch_cache.latest_epoch(entries):
        return epoch_cache.EpochEnd(requested_epoch, log_end_offset)
    if requested_epoch > epoch_cache.latest_epoch(entries) or requested_epoch < entries[0].epoch:
        return epoch_cache.UNDEFINED
    return epoch_cache.end_of_epoch(entries, requested_epoch)


def truncate_to_high_watermark_if_undefined(
    answer: epoch_cache.EpochEnd, follower: FollowerLog
) -> TruncationState:
    """Truncate to the answered offset, or, if undefined, to the present HW (0.11.0.3 and 1.0.2)."""
    if answer.end_offset == epoch_cache.UNDEFINED_OFFSET:
        return TruncationState(offset=follower.high_watermark, completed=True)
    offset = min(answer.end_offset, follower.log_end_offset)
    return TruncationState(offset=offset, completed=True)


def truncate_before_log_end(replica: Replica) -> FetchState:
    """Begin with truncation, at the log end (ReplicaManager.makeFollowers, 0.11.0.0 and 1.0.2)."""
    return replace(fetch_from_log_end(replica), state=FetcherState.TRUNCATING)


KIP_101 = Rule(
    name="KIP-101",
    since=("0.11.0.0",),
    source="kafka.server.epoch.LeaderEpochFileCache, 0.11.0.3",
    meaning=(
        "Logs keep a leader epoch cache, and followers truncate by it (KAFKA-1211, KAFKA-3919)."
    ),
    change=lambda known: replace(
        known,
        loaded_entries=keep_entries,
        assign_epoch=assign_epoch,
        answer_epoch=answer_epoch,
        truncation_at_once=lambda replica: None,
        first_fetch=truncate_before_log_end,
        asks_for_epoch=lambda last_epoch: True,
        truncate=truncate_to_high_watermark_if_undefined,
    ),
)

EPOCH_REQUEST_0 = Rule(
    name="OffsetForLeaderEpoch v0",
    since=("0.11.0.0",),
    protocol="0.11.0-IV2",
    source="kafka.server.ReplicaFetcherThread, 0.11.0.3",
    meaning=(
        "A follower asks the leader where its own last epoch ends; before that protocol it takes "
        "the answer to be undefined."
    ),
    change=lambda known: replace(known, epoch_request_version=0),
)
