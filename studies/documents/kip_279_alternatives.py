"""KIP-279's proposal as it is written, and the four alternatives that it rejects.

No release follows any of these; `kchaos compare KIP-279` puts them beside each other over 1.1.1,
the release that the document is about. An answer's epoch is in the response only for the proposal:
elsewhere it stands for what the follower knows anyway, since it asked for that epoch.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, Generation, TruncationState
from kchaos.checkers.model.releases.rules.kip_279 import tell_epoch_from_version_1
from kchaos.checkers.model.values.epoch_cache import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    Entries,
    EpochEnd,
    EpochQuestion,
    latest_epoch,
)
from kchaos.checkers.model.values.replica import FetchState, Replica
from kchaos.studies.documents.proposal import Proposal


def ends_of(entries: Entries, log_end_offset: int) -> tuple[EpochEnd, ...]:
    """Return every cached epoch with its end: the start of the next one, or the log's end."""
    ends = [*(entry.start_offset for entry in entries[1:]), log_end_offset]
    return tuple(
        EpochEnd(entry.epoch, end) for entry, end in zip(entries, ends[: len(entries)], strict=True)
    )


def know_asked_epoch(version: int) -> bool:
    """Know of every answer which epoch it is about: the one that was asked for."""
    return True


def _to_high_watermark(follower: FollowerLog) -> TruncationState:
    """Return the truncation to the high watermark, which an earlier round may have cut below."""
    offset = min(follower.high_watermark, follower.log_end_offset)
    return TruncationState(offset=offset, completed=True)


# -- the proposal -------------------------------------------------------------------------------


def answer_largest_epoch(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    """Return the largest epoch not above the requested, also of all that there are, and its end."""
    known = [end for end in ends_of(entries, log_end_offset) if end.epoch <= requested_epoch]
    return known[-1] if known and requested_epoch != UNDEFINED_EPOCH else UNDEFINED


def truncate_as_written(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate what lies above the answered epoch; ask again if that epoch is not known.

    An answer of which nothing is known falls back to the high watermark (step 2), and a follower
    all of whose epochs lie above the answered one loses them all (step 4).
    """
    if answer.end_offset == UNDEFINED_OFFSET:
        return _to_high_watermark(follower)
    own = follower.end_of_epoch(answer.epoch)
    if own == UNDEFINED:
        first = follower.entries[0].start_offset if follower.entries else follower.log_end_offset
        return TruncationState(offset=min(first, answer.end_offset), completed=True)
    if own.epoch != answer.epoch:
        return TruncationState(offset=own.end_offset, completed=False)
    return TruncationState(offset=min(own.end_offset, answer.end_offset), completed=True)


def _as_written(known: Generation) -> Generation:
    return replace(
        known,
        epoch_request_version=1,
        tells_epoch=tell_epoch_from_version_1,
        answer_epoch=answer_largest_epoch,
        truncate=truncate_as_written,
    )


# -- alternative 1 ------------------------------------------------------------------------------


def answer_this_epoch(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    """Return where exactly that epoch ends.

    One that is not known is answered with an end of -1 (UNKNOWN_OFFSET_FOR_LEADER_EPOCH, a new
    error); a leader without epochs answers as before (UNDEFINED_EPOCH_OFFSET).
    """
    if not entries or requested_epoch == UNDEFINED_EPOCH:
        return UNDEFINED
    ends = dict(ends_of(entries, log_end_offset))
    return EpochEnd(requested_epoch, ends.get(requested_epoch, UNDEFINED_OFFSET))


def ask_for_next_epoch(replica: Replica, fetch: FetchState) -> EpochQuestion:
    """Ask for the last epoch, and then for the next one below each that the leader lacks."""
    known = [
        entry.epoch
        for entry in replica.entries
        if fetch.asks_below < 0 or entry.epoch < fetch.asks_below
    ]
    return EpochQuestion(known[-1] if known else UNDEFINED_EPOCH)


def truncate_to_known_epoch(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Go back epoch by epoch without truncating, and truncate once the leader knows one.

    When the follower's epochs are exhausted it truncates to its high watermark.
    """
    if answer == UNDEFINED:
        return _to_high_watermark(follower)
    ends = ends_of(follower.entries, follower.log_end_offset)
    if answer.end_offset == UNDEFINED_OFFSET:
        if not [end for end in ends if end.epoch < answer.epoch]:
            return _to_high_watermark(follower)
        return TruncationState(
            offset=follower.log_end_offset, completed=False, asks_below=answer.epoch
        )
    own = dict(ends).get(answer.epoch, follower.log_end_offset)
    return TruncationState(offset=min(own, answer.end_offset), completed=True)


def _alternative_1(known: Generation) -> Generation:
    return replace(
        known,
        tells_epoch=know_asked_epoch,
        answer_epoch=answer_this_epoch,
        proposed=replace(known.proposed, epoch_question=ask_for_next_epoch),
        truncate=truncate_to_known_epoch,
    )


# -- alternative 2 ------------------------------------------------------------------------------


def ask_for_all_ends(replica: Replica, fetch: FetchState) -> EpochQuestion:
    """Send the epochs between high watermark and log end; if none is known, all there are.

    The document's example has the epoch that ends at the high watermark among them. How many more
    a second round has is left open there; here it is all.
    """
    ends = ends_of(replica.entries, replica.log.log_end_offset)
    if fetch.asks_below < 0:
        ends = tuple(end for end in ends if end.end_offset >= replica.high_watermark)
    return EpochQuestion(latest_epoch(replica.entries), ends)


def answer_smaller_end(
    entries: Entries, ends: tuple[EpochEnd, ...], log_end_offset: int
) -> EpochEnd:
    """Return the last common epoch with the smaller of both its ends.

    Without one the end is -1, beside the first epoch that was named.
    """
    own = dict(ends_of(entries, log_end_offset))
    if not own:
        return UNDEFINED
    for end in reversed(ends):
        if end.epoch in own:
            return EpochEnd(end.epoch, min(own[end.epoch], end.end_offset))
    return EpochEnd(ends[0].epoch, UNDEFINED_OFFSET)


def truncate_to_answered_end(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate to the answered end; ask once more with more epochs if no epoch was common."""
    if answer.end_offset != UNDEFINED_OFFSET:
        return TruncationState(
            offset=min(answer.end_offset, follower.log_end_offset), completed=True
        )
    has_more = follower.asks_below < 0 and any(
        entry.epoch < answer.epoch for entry in follower.entries
    )
    if answer == UNDEFINED or not has_more:
        return _to_high_watermark(follower)
    return TruncationState(offset=follower.log_end_offset, completed=False, asks_below=answer.epoch)


def _alternative_2(known: Generation) -> Generation:
    return replace(
        known,
        epoch_request_version=1,
        tells_epoch=know_asked_epoch,
        proposed=replace(
            known.proposed, epoch_question=ask_for_all_ends, answer_ends=answer_smaller_end
        ),
        truncate=truncate_to_answered_end,
    )


# -- for clean elections only -------------------------------------------------------------------


def ask_for_committed_epoch(replica: Replica, fetch: FetchState) -> EpochQuestion:
    """Ask for the epoch of the last record below the high watermark.

    The epoch of the record *at* the high watermark would be one that the leader may not know.
    """
    known = [
        entry.epoch for entry in replica.entries if entry.start_offset < replica.high_watermark
    ]
    return EpochQuestion(known[-1] if known else UNDEFINED_EPOCH)


def truncate_to_committed_epoch(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate what lies above the epoch that was asked for, then to the leader's end of it."""
    if answer.end_offset == UNDEFINED_OFFSET:
        return _to_high_watermark(follower)
    own = dict(ends_of(follower.entries, follower.log_end_offset))
    offset = min(own.get(answer.epoch, follower.log_end_offset), answer.end_offset)
    return TruncationState(offset=offset, completed=True)


def _high_watermark_epoch(known: Generation) -> Generation:
    return replace(
        known,
        tells_epoch=know_asked_epoch,
        answer_epoch=answer_this_epoch,
        proposed=replace(
            known.proposed, persists_high_watermark=True, epoch_question=ask_for_committed_epoch
        ),
        truncate=truncate_to_committed_epoch,
    )


def without_old_leader(isr: tuple[int, ...], leader: int) -> tuple[int, ...]:
    """Return the ISR without who led until now."""
    return tuple(member for member in isr if member != leader)


AS_WRITTEN = Proposal(
    name="KIP-279 as written", source="KIP-279, Proposed Changes", change=_as_written
)
ALTERNATIVE_1 = Proposal(
    name="KIP-279, alternative 1", source="KIP-279, Rejected Alternatives", change=_alternative_1
)
ALTERNATIVE_2 = Proposal(
    name="KIP-279, alternative 2", source="KIP-279, Rejected Alternatives", change=_alternative_2
)
HIGH_WATERMARK_EPOCH = Proposal(
    name="KIP-279, the high watermark's epoch",
    source="KIP-279, Rejected Alternatives",
    change=_high_watermark_epoch,
)
OLD_LEADER_LEAVES = Proposal(
    name="KIP-279, the old leader leaves the ISR",
    source="KIP-279, Rejected Alternatives",
    change=lambda known: replace(
        known, proposed=replace(known.proposed, isr_of_preferred=without_old_leader)
    ),
)
