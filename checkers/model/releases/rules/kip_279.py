"""KIP-279: the leader's answer names its epoch, and the follower looks for a common one.

Jira KAFKA-6361. Read from kafka.server.AbstractFetcherThread.getOffsetTruncationState and
kafka.server.epoch.LeaderEpochFileCache.endOffsetFor, 2.0.0. The request is version 1 from
inter-broker protocol 2.0-IV0 on; before it the answer has no epoch and the old bug stays.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import FollowerLog, TruncationState
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd


def truncate(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate to the end of the largest common epoch, in as many rounds as that takes.

    An undefined answer falls back to the fetch offset: the high watermark in the first round, but
    in a later one whatever the round before left there. The KIP says high watermark.
    """
    log_end_offset = follower.log_end_offset
    if answer.end_offset == UNDEFINED_OFFSET:
        return TruncationState(offset=follower.fetch_offset, completed=True)
    if answer.epoch == UNDEFINED_EPOCH:
        return TruncationState(offset=min(answer.end_offset, log_end_offset), completed=True)
    own = follower.end_of_epoch(answer.epoch)
    if own.end_offset == UNDEFINED_OFFSET:
        return TruncationState(offset=min(answer.end_offset, log_end_offset), completed=True)
    if own.epoch != answer.epoch:
        return TruncationState(offset=min(own.end_offset, log_end_offset), completed=False)
    offset = min(own.end_offset, answer.end_offset, log_end_offset)
    return TruncationState(offset=offset, completed=True)


def tell_epoch_from_version_1(version: int) -> bool:
    """Return whether an answer of that version has a field for its epoch."""
    return version >= 1


KIP_279 = Rule(
    name="KIP-279",
    since=("2.0.0",),
    source="kafka.server.AbstractFetcherThread, 2.0.0",
    meaning=(
        "The leader's answer names the epoch that it is about. The follower looks for the largest "
        "common epoch, in several rounds if need be (KAFKA-6361)."
    ),
    change=lambda known: replace(known, tells_epoch=tell_epoch_from_version_1, truncate=truncate),
)

EPOCH_REQUEST_1 = Rule(
    name="OffsetForLeaderEpoch v1",
    since=("2.0.0",),
    protocol="2.0-IV0",
    source="kafka.server.ReplicaFetcherThread, 2.0.0",
    meaning=(
        "Followers ask in the version whose answer names its epoch; under an older protocol "
        "KIP-101's truncation stays."
    ),
    change=lambda known: replace(known, epoch_request_version=1),
)
