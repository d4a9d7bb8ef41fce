"""KAFKA-10554 (as in KIP-595): the Fetch response itself tells where the logs diverge.

A follower whose cache is not empty fetches from its log end offset at once and says the last epoch
that it has; the leader answers with a diverging epoch in place of records. Read from
kafka.cluster.Partition.readRecords, kafka.server.AbstractFetcherThread (`partitionFetchState`,
`truncateOnFetchResponse`) and ReplicaManager.initialFetchOffset, 2.7.0, 2.8.0 and 2.8.2. A follower
is gated by inter-broker protocol 2.7-IV1; a leader answers so whenever a Fetch says that epoch.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, Generation, TruncationState
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import fetch_from_log_end
from kchaos.checkers.model.releases.rules.initial_fetch_offset import truncate_first
from kchaos.checkers.model.values import epoch_cache
from kchaos.checkers.model.values.replica import FetchState, Replica
from kchaos.checkers.model.values.requests import FetchAnswer, PartitionRequest


def fetch_at_once_with_epoch(replica: Replica) -> FetchState:
    """Fetch from the log end offset; without any epoch begin with truncation as before."""
    return fetch_from_log_end(replica) if replica.entries else truncate_first(replica)


def fetch_with_epoch(fetch: FetchState, entries: epoch_cache.Entries) -> int:
    """Say the last epoch that was fetched, else the last one in the log, -1 for none.

    The fetcher takes it from what it appends (AbstractFetcherThread.processFetchRequest), and reads
    the cache anew when it begins or truncates.
    """
    return fetch.unnoted_epoch if fetch.unnoted_epoch >= 0 else epoch_cache.latest_epoch(entries)


def answer_diverging(
    end: epoch_cache.EpochEnd, asked: PartitionRequest, replica: Replica
) -> FetchAnswer | None:
    """Answer where the last fetched epoch ends, if the follower has more of it or a later one."""
    if end.end_offset == epoch_cache.UNDEFINED_OFFSET:
        return FetchAnswer(error="OFFSET_OUT_OF_RANGE")
    if end.epoch < asked.requested_epoch or end.end_offset < asked.fetch_offset:
        return FetchAnswer(diverging=end, high_watermark=replica.high_watermark)
    return None


def _truncate_on_fetch(known: Generation) -> Generation:
    def truncate_once(answer: epoch_cache.EpochEnd, follower: FollowerLog) -> TruncationState:
        # What is left to truncate comes with the next Fetch response.
        return replace(known.truncate(answer, follower), completed=True)

    return replace(
        known,
        first_fetch=fetch_at_once_with_epoch,
        last_fetched_epoch=fetch_with_epoch,
        remembers_fetched_epoch=True,
        truncate=truncate_once,
        high_watermark_at_divergence=lambda replica, answer: min(
            replica.log.log_end_offset, answer.high_watermark
        ),
    )


KAFKA_10554 = Rule(
    name="KAFKA-10554",
    since=("2.8.0",),
    protocol="2.7-IV1",
    source="kafka.server.AbstractFetcherThread, 2.8.0",
    meaning=(
        "A follower with a leader epoch fetches from its log end offset at once, and says its last "
        "fetched epoch. It truncates when the Fetch response names a diverging one (as in "
        "KIP-595)."
    ),
    change=_truncate_on_fetch,
)


DIVERGING_EPOCH = Rule(
    name="diverging epoch in the Fetch response",
    since=("2.7.0",),
    source="kafka.cluster.Partition, 2.7.0",
    meaning=(
        "A leader that gets a Fetch with the last fetched epoch answers where the logs diverge, in "
        "place of records. It does so whatever its own protocol is (KIP-595). Followers of 2.7 do "
        "not send it."
    ),
    change=lambda known: replace(known, answer_diverging=answer_diverging),
)
