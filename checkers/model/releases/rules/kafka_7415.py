"""KAFKA-7415: a leader notes its epoch before any append, and knows what lies below its first.

Read from kafka.server.epoch.LeaderEpochFileCache (`assign`, `endOffsetFor`) and
kafka.cluster.Partition.makeLeader, 2.0.1 and 2.1.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Entries,
    EpochEnd,
    EpochEntry,
    end_of_epoch,
    latest_epoch,
)


def assign_epoch(entries: Entries, epoch: int, offset: int) -> Entries:
    """Return the entries with this one last; what contradicts it is removed, since it is newer."""
    if entries and entries[-1].epoch == epoch and offset >= entries[-1].start_offset:
        return entries
    kept = tuple(entry for entry in entries if entry.epoch < epoch and entry.start_offset < offset)
    return (*kept, EpochEntry(epoch, offset))


def answer_epoch(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    """Return where the requested epoch ends; one below the first cached ends where that begins."""
    if requested_epoch == UNDEFINED_EPOCH or requested_epoch > latest_epoch(entries):
        return UNDEFINED
    if requested_epoch == latest_epoch(entries):
        return EpochEnd(requested_epoch, log_end_offset)
    if requested_epoch < entries[0].epoch:
        return EpochEnd(requested_epoch, entries[0].start_offset)
    return end_of_epoch(entries, requested_epoch)


KAFKA_7415 = Rule(
    name="KAFKA-7415",
    since=("2.0.1",),
    source="kafka.cluster.Partition, 2.0.1",
    meaning=(
        "A new leader notes its epoch and log end offset before any append. Entries that "
        "contradict a newer one are removed. An epoch below the first cached one ends where that "
        "begins."
    ),
    change=lambda known: replace(
        known,
        assign_epoch=assign_epoch,
        entries_of_new_leader=assign_epoch,
        answer_epoch=answer_epoch,
    ),
)
