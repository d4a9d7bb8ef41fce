"""A leader's knowledge of one follower by time: when it fetched, and since when it lags.

Read from kafka.cluster.Replica (updateLogReadResult, updateFetchState), 2.0.1, 2.1.0, 2.8.2 and
3.9.0. Times are seconds on the leader's clock, or a count that rises.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A leader's knowledge of one follower, as kafka.cluster.Replica has it.

    Attributes:
        log_end_offset: The offset of its last fetch that was counted, -1 for none.
        leader_log_end_offset: The leader's own when that fetch was read.
        fetched_at: When it was read.
        caught_up_at: Since when it lags.
    """

    log_end_offset: int = -1
    leader_log_end_offset: int = 0
    fetched_at: float = 0.0
    caught_up_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRead:
    """A follower's fetch, as its leader read it.

    Attributes:
        offset: Where the fetch starts.
        log_end_offset: The leader's, when the fetch was read.
        read_at: When the leader took the time of the fetch, just before it read its log.
    """

    offset: int
    log_end_offset: int
    read_at: float


Counted = Callable[[Follower, FetchRead, float], Follower]
"""From (leader's knowledge, fetch, when its read was over) to the knowledge after that."""


def counted(follower: Follower, fetch: FetchRead, now: float) -> Follower:
    """Return what the leader knows after it counted a fetch; when the read was over is no matter.

    Who reaches the leader's log end had caught up when the fetch was read, and who reaches that of
    the fetch before had when that one was.
    """
    caught_up_at = follower.caught_up_at
    if fetch.offset >= fetch.log_end_offset:
        caught_up_at = max(caught_up_at, fetch.read_at)
    elif reaches_earlier_end(fetch.offset, follower.leader_log_end_offset):
        caught_up_at = max(caught_up_at, follower.fetched_at)
    return Follower(
        log_end_offset=fetch.offset,
        leader_log_end_offset=fetch.log_end_offset,
        fetched_at=fetch.read_at,
        caught_up_at=caught_up_at,
    )


def reaches_earlier_end(offset: int, leader_end_offset: int) -> bool:
    """Return whether a fetch starts where the leader's log ended at the fetch before, or above."""
    return offset >= leader_end_offset
