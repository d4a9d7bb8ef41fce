"""Cross-check of times: zxids that kchaos read beside ZooKeeper's log, and the machine's clocks."""

import math
from bisect import bisect_right
from collections.abc import Iterator

from kchaos.checkers.evidence.actions import ACTIONS
from kchaos.checkers.evidence.run import RunEvidence

_CLOCK_S = 10.0
"""Most seconds by which the clock of this machine may be put during a run."""
_PUT_BACK_S = 0.05
"""Most seconds by which the clock may be put back before times order nothing any more."""
_FIRST = 20
"""So many messages at first say how far the two clocks are apart."""
_ASIDE_S = 1.0
"""Most seconds for which the harness waits for its turn between a zxid and its clock.

The time for which the machine stood still in between comes on top.
"""


def time_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield times that cannot order what happened.

    **Verifies**: that each zxid of an action is the last one of ZooKeeper's log when the action
    began, and each of a snapshot when it was taken, up to a second; that the clock was not put back
    while links noted both its time and a monotonic one.
    **Does not verify**: which of two things within a second came first, the model searches that; a
    clock that was put back in a run without links.
    """
    yield from _zxids(evidence)
    yield from _put_back(evidence)


def _zxids(evidence: RunEvidence) -> Iterator[str]:
    """Yield times at which the read zxid was not the newest that ZooKeeper had written."""
    if evidence.is_migration:
        return  # Two logs number decisions, and actions name positions in either.
    if evidence.is_kraft:
        # A record can be read once it is flushed, and a majority of the voters has it.
        aside_s = _CLOCK_S
        changes = [(entry.offset, entry.time_ms / 1000) for entry in evidence.metadata_logs.entries]
    else:
        aside_s = _ASIDE_S
        changes = sorted((change.zxid, change.time_ms / 1000) for change in evidence.znode_changes)
    zxids = [zxid for zxid, _ in changes]
    for what, zxid, began in _read(evidence):
        next_one = bisect_right(zxids, zxid)
        if zxid <= 0 or not math.isfinite(began):
            continue
        later, earlier = changes[next_one : next_one + 1], changes[:next_one][-1:]
        beside = [("after", *change, began - change[1]) for change in later]
        beside += [("before", *change, change[1] - began) for change in earlier]
        for late, position, changed, apart_s in beside:
            stood_s = evidence.stood_still_s(min(began, changed), max(began, changed))
            if apart_s > aside_s + stood_s:
                apart = f"{apart_s:.1f} s {late} {evidence.positions} {position}"
                yield f"{what} has {evidence.positions} {zxid} and began {apart}"


def _read(evidence: RunEvidence) -> Iterator[tuple[str, int, float]]:
    """Yield each zxid that the harness read, with its subject and the time before the read."""
    for number, action in enumerate(evidence.actions, start=1):
        yield (
            f"{ACTIONS}:{number}",
            action.zxid,
            action.time if action.began is None else action.began,
        )
    for taken in evidence.snapshots:
        yield f"snapshot {taken.label!r}", taken.zxid, taken.time


def _put_back(evidence: RunEvidence) -> Iterator[str]:
    """Yield files whose clock went back, so that their times give no order.

    The first messages say how far both clocks are apart; later ones are compared with that.
    """
    messages = evidence.links or ()
    # A thread may be kept waiting between its looks at both clocks: one message is no measure.
    first = (message.wall_time_s - message.monotonic_s for message in messages[:_FIRST])
    least = min(first, default=0.0)
    for message in messages[_FIRST:]:
        ahead = message.wall_time_s - message.monotonic_s
        if ahead < least - _PUT_BACK_S:
            yield (
                f"{message.read_at}: the clock went back by {least - ahead:.2f} s, so times do "
                "not tell what came first"
            )
            return
