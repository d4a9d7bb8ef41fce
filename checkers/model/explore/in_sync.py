"""KIP-501 (under discussion, never merged): who is in sync, as releases say and as it proposes.

Read from kafka.cluster.Replica (updateLogReadResult, updateFetchState) and
kafka.cluster.Partition (getOutOfSyncReplicas, isFollowerOutOfSync, maybeExpandIsr), 2.0.1, 2.1.0,
2.8.2 and 3.9.0. Times are seconds on the leader's clock.
"""

from dataclasses import dataclass, replace

ENABLE = "follower.fetch.pending.reads.insync.enable"
PROCESS_TIME = "follower.fetch.process.time.max.ms"
PROCESS_TIME_MS = 500
"""The document's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A solution for followers whose fetches their leader is slow to read.

    Attributes:
        keeps_who_waits: First half of solution 1: a follower is in sync while a fetch of its is
            pending that starts at or above the leader's log end of its earlier fetch.
        caught_up_now: Second half: who has caught up is so from the moment at which that is
            counted, not from that of the fetch.
        gives_up_after_s: Solution 2: with a follower's fetch pending for longer, the leader gives
            up its leadership; None for never.
    """

    name: str
    keeps_who_waits: bool = False
    caught_up_now: bool = False
    gives_up_after_s: float | None = None


SHIPPED = Solution(name="shipped")
FIRST_HALF = Solution(name="1, pending", keeps_who_waits=True)
SECOND_HALF = Solution(name="1, clock", caught_up_now=True)
SOLUTION_1 = Solution(name="solution 1", keeps_who_waits=True, caught_up_now=True)
SOLUTION_2 = replace(SOLUTION_1, name="solution 2", gives_up_after_s=PROCESS_TIME_MS / 1000)


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


def counted(
    follower: Follower,
    solution: Solution,
    *,
    offset: int,
    log_end_offset: int,
    read_at: float,
    now: float,
) -> Follower:
    """Return what the leader knows after it counted a fetch.

    Args:
        offset: Where the fetch starts.
        log_end_offset: The leader's, when the fetch was read.
        read_at: When the leader took the time of the fetch, just before it read its log.
        now: When the read was over.
    """
    caught_up_at = follower.caught_up_at
    if offset >= log_end_offset:
        caught_up_at = max(caught_up_at, now if solution.caught_up_now else read_at)
    elif offset >= follower.leader_log_end_offset:
        caught_up_at = max(caught_up_at, now if solution.caught_up_now else follower.fetched_at)
    return Follower(
        log_end_offset=offset,
        leader_log_end_offset=log_end_offset,
        fetched_at=read_at,
        caught_up_at=caught_up_at,
    )


def keeps(solution: Solution, follower: Follower, pending_offset: int | None) -> bool:
    """Return whether a pending fetch keeps the follower in sync; None stands for no such fetch."""
    if not solution.keeps_who_waits or pending_offset is None:
        return False
    return reaches_earlier_end(pending_offset, follower.leader_log_end_offset)


def reaches_earlier_end(offset: int, leader_end_offset: int) -> bool:
    """Return whether a fetch starts where the leader's log ended at the fetch before, or above."""
    return offset >= leader_end_offset
