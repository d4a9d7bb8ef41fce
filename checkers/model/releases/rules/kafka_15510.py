"""From KAFKA-15080 to KAFKA-15510 a follower forgets its last fetched epoch.

A fetcher thread computes a partition's lag at the first answer after it was told the leader. In
3.5.1 to 3.6.2 it takes the last fetched epoch from the same answer, also from one without records:
then it has none, and says none until it has appended again or reset its offset. The leader sees no
diverging epoch meanwhile. Read from kafka.server.AbstractFetcherThread (`processFetchRequest`,
`fetchOffsetAndTruncate`), 3.5.0, 3.5.1, 3.6.2 and 3.7.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kafka_10554 import fetch_with_epoch
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_EPOCH, Entries
from kchaos.checkers.model.values.replica import FetchState, LastFetchedEpoch, Replica


def fetch_with_epoch_unless_forgotten(fetch: FetchState, entries: Entries) -> int:
    """Say the last epoch in the log, or none where the thread has forgotten it."""
    if fetch.last_fetched_epoch is LastFetchedEpoch.FORGOTTEN:
        return UNDEFINED_EPOCH
    return fetch_with_epoch(fetch, entries)


def forget_without_records(fetch: FetchState, batches: int) -> FetchState:
    """Learn the epoch from records; forget it at the first answer if that has none."""
    if batches:
        return replace(fetch, last_fetched_epoch=LastFetchedEpoch.KNOWN)
    if fetch.last_fetched_epoch is LastFetchedEpoch.FORGOTTEN_NEXT:
        return replace(fetch, last_fetched_epoch=LastFetchedEpoch.FORGOTTEN)
    return fetch


def _forget(known: Generation) -> Generation:
    def first_fetch(replica: Replica) -> FetchState:
        begins = known.first_fetch(replica)
        return replace(begins, last_fetched_epoch=LastFetchedEpoch.FORGOTTEN_NEXT)

    return replace(
        known,
        first_fetch=first_fetch,
        last_fetched_epoch=fetch_with_epoch_unless_forgotten,
        fetch_after_append=forget_without_records,
    )


EPOCH_LOST = Rule(
    name="last fetched epoch lost",
    since=("3.5.1",),
    until=("3.7.0",),
    protocol="2.7-IV1",
    source="kafka.server.AbstractFetcherThread, 3.5.1",
    meaning=(
        "A fetch that brings nothing right after a follower got its leader makes it forget "
        "its last fetched epoch. So it says none until it has appended again (from KAFKA-15080 to "
        "KAFKA-15510)."
    ),
    change=_forget,
)
