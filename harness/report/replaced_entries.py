"""Entries of a leader epoch cache that a new one replaced, as a broker's own log tells.

Kafka logs both lines from 2.0.1 on (LeaderEpochFileCache.truncateAndAppend, Log.truncateTo).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.checkpoints import EpochEntry

_ENTRY = r"EpochEntry\(epoch=(\d{1,10}), startOffset=(\d{1,19})\)"
_REPLACED = re.compile(rf"New epoch entry {_ENTRY} caused truncation of conflicting entries (.*)")
_CUT_NOTHING = re.compile(r"Log partition=(\S+), .*Truncating to (\d{1,19}) has no effect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A new entry of a cache took the place of others.

    Attributes:
        entry: The new one.
        removed: Those that it replaced, in the order of the cache.
        cut_nothing_at: The last truncation before it, if that had no effect since the log ended
            there; None if none did.
    """

    entry: EpochEntry
    removed: tuple[EpochEntry, ...]
    cut_nothing_at: int | None


def replaced_entries(log: Sequence[str], partition: TopicPartition) -> list[Replaced]:
    """Return each such line of one broker's log about one partition, oldest first."""
    cache = f"[LeaderEpochCache {partition.name}] "
    replaced = []
    cut_nothing_at = None
    for line in log:
        if (cut := _CUT_NOTHING.search(line)) and cut[1] == partition.name:
            cut_nothing_at = int(cut[2])
        elif cache in line and (replacing := _REPLACED.search(line)):
            replaced.append(
                Replaced(
                    entry=_entry(replacing[1], replacing[2]),
                    removed=tuple(_entry(*each) for each in re.findall(_ENTRY, replacing[3])),
                    cut_nothing_at=cut_nothing_at,
                )
            )
    return replaced


def _entry(leader_epoch: str, start_offset: str) -> EpochEntry:
    return EpochEntry(leader_epoch=int(leader_epoch), start_offset=int(start_offset))
