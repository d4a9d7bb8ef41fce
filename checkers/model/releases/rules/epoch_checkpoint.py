"""Since 3.8.0 leader-epoch-checkpoint is rewritten asynchronously after a truncation.

The file of a running broker may still have entries that memory has dropped; an assignment writes it
at once. Read from org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache
(`truncateFromEndAsyncFlush`), 3.7.0 and 3.8.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

ASYNCHRONOUS = Rule(
    name="asynchronous epoch checkpoint",
    since=("3.8.0",),
    source="kafka.log.UnifiedLog, 3.8.0",
    meaning=(
        "A truncation writes the epoch checkpoint file later, from a scheduler: a copy of the "
        "disk may have stale entries (KAFKA-16541)."
    ),
    change=lambda known: replace(
        known, file_may_hold=lambda file_entries, entries: file_entries[: len(entries)] == entries
    ),
)
