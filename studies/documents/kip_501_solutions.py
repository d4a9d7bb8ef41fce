"""KIP-501's solutions (under discussion, never merged), laid over who is in sync by releases."""

from dataclasses import dataclass, replace

from kchaos.studies.explore.in_sync import FetchRead, Follower, counted, reaches_earlier_end

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

    def counted(self, follower: Follower, fetch: FetchRead, now: float) -> Follower:
        """Return what the leader knows after it counted a fetch whose read was over now."""
        count = counted_now if self.caught_up_now else counted
        return count(follower, fetch, now)

    def keeps(self, follower: Follower, pending_offset: int | None) -> bool:
        """Return whether a pending fetch keeps the follower in sync; None stands for no fetch."""
        if not self.keeps_who_waits or pending_offset is None:
            return False
        return reaches_earlier_end(pending_offset, follower.leader_log_end_offset)


SHIPPED = Solution(name="shipped")
FIRST_HALF = Solution(name="1, pending", keeps_who_waits=True)
SECOND_HALF = Solution(name="1, clock", caught_up_now=True)
SOLUTION_1 = Solution(name="solution 1", keeps_who_waits=True, caught_up_now=True)
SOLUTION_2 = replace(SOLUTION_1, name="solution 2", gives_up_after_s=PROCESS_TIME_MS / 1000)


def counted_now(follower: Follower, fetch: FetchRead, now: float) -> Follower:
    """Count a fetch as releases do; but a follower that has caught up has done so now."""
    after = counted(follower, fetch, now)
    earlier_end = min(fetch.log_end_offset, follower.leader_log_end_offset)
    if not reaches_earlier_end(fetch.offset, earlier_end):
        return after
    return replace(after, caught_up_at=max(after.caught_up_at, now))
