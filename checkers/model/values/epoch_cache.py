"""The leader epoch cache of one replica: where each leader's epoch began in its log.

The entries are what `leader-epoch-checkpoint` holds. How an epoch is assigned and how a request for
an epoch's end offset is answered changed between releases: `rules` has those functions. Here is
what never changed. Read from kafka.server.epoch.LeaderEpochFileCache, 1.1.1, 2.0.1, 2.8.2, 3.6.2.
"""

from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that was written under it (inclusive)."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to "where does this epoch end": the epoch that was found, its end (exclusive).

    Both are -1 when undefined; the epoch alone is -1 in an answer of version 0, which has no epoch.
    """

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class EpochQuestion(NamedTuple):
    """A follower's question about leader epochs: one epoch's end, or, in a proposal, several.

    Attributes:
        epoch: The epoch whose end is asked for.
        ends: The follower's own epochs with the ends that they have in its log, ascending; no
            release sends them.
    """

    epoch: int
    ends: tuple[EpochEnd, ...] = ()


Entries = tuple[EpochEntry, ...]


class EpochsOfLog(NamedTuple):
    """A leader epoch cache, and the log end offset that it takes for the end of its last epoch."""

    entries: Entries
    log_end_offset: int


EntriesOnDisk = tuple[tuple[int, int], ...]
"""(epoch, start offset) of each entry of a leader-epoch-checkpoint, in its order."""


def latest_epoch(entries: Entries) -> int:
    """Return the last entry's epoch, or -1 for an empty cache."""
    return entries[-1].epoch if entries else UNDEFINED_EPOCH


def truncate_from_end(entries: Entries, end_offset: int) -> Entries:
    """Return the entries that start before `end_offset`."""
    if entries and entries[-1].start_offset >= end_offset:
        return tuple(entry for entry in entries if entry.start_offset < end_offset)
    return entries


def truncate_from_start(entries: Entries, start_offset: int) -> Entries:
    """Return the entries from `start_offset` on; the one that covers it is rewritten to it."""
    later = tuple(entry for entry in entries if entry.start_offset > start_offset)
    earlier = [entry for entry in entries if entry.start_offset <= start_offset]
    if not earlier:
        return entries
    return (EpochEntry(earlier[-1].epoch, start_offset), *later)


def end_of_epoch(entries: Entries, requested_epoch: int) -> EpochEnd:
    """Return the largest cached epoch not above the requested, and where the next one starts.

    For an epoch between two entries only; callers handle the latest epoch and undefined ones.
    """
    later = [entry for entry in entries if entry.epoch > requested_epoch]
    earlier = [entry for entry in entries if entry.epoch <= requested_epoch]
    return EpochEnd(earlier[-1].epoch, later[0].start_offset)
