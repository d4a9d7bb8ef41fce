"""KIP-501's own worked example as a time line, and its two broker properties."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kchaos.checkers.errors import ModelError
from kchaos.studies.documents.kip_501_courses import Fetch, TimeLine
from kchaos.studies.documents.kip_501_solutions import (
    ENABLE,
    PROCESS_TIME,
    PROCESS_TIME_MS,
    SHIPPED,
    SOLUTION_2,
    Solution,
)
from kchaos.studies.explore.in_sync import Follower

TX, TY, TOOK_S = 0.0, 0.5, 25.0
"""The example's tx and ty, and how long the fetch at ty takes, in seconds."""
EVERY_S, ENDED_S = 0.5, 60.0
"""Seconds between fetches of a follower that waits for nothing, and until the time line ends."""


def solution_of(properties: Mapping[str, str]) -> Solution:
    """Return the solution that the document's two broker properties select.

    Raises:
        ModelError: A value that the document does not allow.
    """
    enabled = properties.get(ENABLE, "false")
    if enabled not in ("true", "false"):
        raise ModelError(f"{ENABLE}={enabled}: it is true or false (default false)")
    given = properties.get(PROCESS_TIME)
    if given is not None and not (given.isascii() and given.isdigit() and int(given) > 0):
        raise ModelError(
            f"{PROCESS_TIME}={given}: milliseconds above 0 (default {PROCESS_TIME_MS})"
        )
    if enabled == "false":
        if given is not None:
            raise ModelError(
                f"{PROCESS_TIME} applies only if {ENABLE} is true: set both, or neither"
            )
        return SHIPPED
    if given is None:
        return SOLUTION_2
    return replace(SOLUTION_2, gives_up_after_s=int(given) / 1000)


def worked_example(
    *,
    dies_at: float | None = None,
    queued: bool = False,
    down: Mapping[int, float] | None = None,
    slow: frozenset[int] = frozenset(),
) -> TimeLine:
    """Return the document's example, with tx = 0 and ty = 0.5.

    Both followers fetch at 950 when the leader's log ends at 1002, and at 1002 when it ends at
    1100; that takes 25 s. Before and after they fetch every 500 ms, as replica.fetch.wait.max.ms
    has it. The leader looks every half of replica.lag.time.max.ms, from 0 on.

    Args:
        dies_at: When the leader dies.
        queued: Whether the second fetch waits in the request queue, and not in ReplicaManager.
        down: Followers that die, and when; they fetch no more.
        slow: Other brokers whose reads take as long.
    """
    gone = down or {}
    leader, followers = 1001, (1002, 1003)
    fetches = [
        fetch
        for follower in followers
        for fetch in _fetches(follower, until_s=gone.get(follower, math.inf), queued=queued)
    ]
    before = Follower(
        log_end_offset=850, leader_log_end_offset=950, fetched_at=-EVERY_S, caught_up_at=-EVERY_S
    )
    return TimeLine(
        leader=leader,
        assignment=(leader, *followers),
        isr=(leader, *followers),
        lag_s=10.0,
        known=dict.fromkeys(followers, before),
        fetches=tuple(fetches),
        log_ends=((-1.0, 1002), (0.4, 1100)),
        checks=tuple(5.0 * number for number in range(13)),
        began=-0.5,
        ended=ENDED_S,
        dies_at=dies_at,
        down=gone,
        slow=slow,
        min_insync_replicas=2,
    )


def _fetches(follower: int, *, until_s: float, queued: bool) -> Iterator[Fetch]:
    """Yield what a follower fetches until it dies: at tx, at ty, and on from when that took."""
    yield Fetch(follower=follower, offset=950, pending_from=TX, read_at=TX, counted_at=0.01)
    counted_at = TY + TOOK_S
    if until_s > TY:
        came = counted_at - 0.01 if queued else TY
        yield Fetch(
            follower=follower, offset=1002, pending_from=came, read_at=TY, counted_at=counted_at
        )
    at = counted_at + 0.01
    while at < min(until_s, ENDED_S):
        yield Fetch(
            follower=follower, offset=1100, pending_from=at, read_at=at, counted_at=at + 0.01
        )
        at += EVERY_S
