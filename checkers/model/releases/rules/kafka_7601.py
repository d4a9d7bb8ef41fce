"""KAFKA-7601: appending a batch without a leader epoch empties the epoch cache.

Otherwise a log that flaps between message formats answers the end of a format's last epoch with its
log end offset. Read from kafka.log.Log.append, 2.2.0 and 2.2.2; released in 2.2.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import Entries


def forget_entries(entries: Entries) -> Entries:
    """Return no entries (LeaderEpochFileCache.clearAndFlush)."""
    return ()


KAFKA_7601 = Rule(
    name="KAFKA-7601",
    since=("2.2.1",),
    source="kafka.log.Log, 2.2.2",
    meaning="Appending a batch without a leader epoch empties the epoch cache.",
    change=lambda known: replace(known, entries_after_old_batch=forget_entries),
)
