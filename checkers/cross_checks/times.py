"""Cross-check of times: those of actions.jsonl, and zxids, beside all other times of the run."""

import math
from bisect import bisect_right
from collections.abc import Iterator

from kchaos.checkers.evidence.actions import ACTIONS
from kchaos.checkers.evidence.history import HISTORY
from kchaos.checkers.evidence.hits import HITS
from kchaos.checkers.evidence.observed import OBSERVATIONS, lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import TIER
from kchaos.checkers.observations import StartUp

_OUTSIDE_S = 120.0
_CLOCK_S = 10.0
"""Most seconds by which the clock of this machine may be put during a run."""
_PUT_BACK_S = 0.05
"""Most seconds by which the clock may be put back before times order nothing any more."""
_FIRST = 20
"""So many messages at first say how far the two clocks are apart."""
_STOPPING_S = 120.0
"""Most seconds for a cluster to stop, and its logs to be copied."""
_BY_KCHAOS = (ACTIONS, HISTORY, OBSERVATIONS, TIER)
"""Files of the process, which show when the run began and how long it took."""
_ASIDE_S = 1.0
"""Most seconds for which the harness waits for its turn between a zxid and its clock."""


def time_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields what cannot have been when it says.

    **Verifies**: that zxids of actions never go back, and each is the last one of ZooKeeper's log
    when the action began, that of a snapshot when it was taken, up to a second; that beginnings
    come before ends, that steps exist, and that all times lie within the run; that the clock was
    not put back while links noted both its time and one that only goes on.
    **Does not verify**: which of two things within a second came first, the model searches that; a
    clock that was put back in a run without links.
    """
    yield from _order(evidence)
    yield from _zxids(evidence)
    yield from _times(evidence)
    yield from _length(evidence)
    yield from _put_back(evidence)


def _order(evidence: RunEvidence) -> Iterator[str]:
    latest = -1
    for number, action in enumerate(evidence.actions, start=1):
        if action.zxid < latest:
            yield f"{ACTIONS}:{number} has zxid {action.zxid}, after {latest}"
        latest = max(latest, action.zxid)
        if action.began is not None and action.began > action.time:
            yield f"{ACTIONS}:{number} began after it was done"
        if action.step > len(evidence.scenario.steps):
            yield (
                f"{ACTIONS}:{number} belongs to step {action.step}, which the scenario does not "
                "have"
            )


def _zxids(evidence: RunEvidence) -> Iterator[str]:
    """A zxid is read right before what it is of: what ZooKeeper wrote before, and no more."""
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
        if next_one < len(changes) and changes[next_one][1] < began - aside_s:
            late, change = "after", changes[next_one]
        elif next_one and changes[next_one - 1][1] > began + aside_s:
            late, change = "before", changes[next_one - 1]
        else:
            continue
        apart = f"{abs(began - change[1]):.1f} s {late} zxid {change[0]}"
        yield f"{what} has zxid {zxid} and began {apart}"


def _read(evidence: RunEvidence) -> Iterator[tuple[str, int, float]]:
    """Each zxid that the harness read, with what it is of and when that began."""
    for number, action in enumerate(evidence.actions, start=1):
        yield (
            f"{ACTIONS}:{number}",
            action.zxid,
            action.time if action.began is None else action.began,
        )
    for taken in evidence.snapshots:
        yield f"snapshot {taken.label!r}", taken.zxid, taken.time


def _times(evidence: RunEvidence) -> Iterator[str]:
    begun = evidence.description.started_at
    if begun is None:
        return
    seconds = evidence.outcome.seconds
    if seconds is not None and seconds < 0:
        yield f"the run took {seconds} s"
    latest = math.inf if seconds is None else begun + max(seconds, 0)
    for what, times in _all_times(evidence).items():
        aside = _CLOCK_S if what in _BY_KCHAOS else _OUTSIDE_S
        outside = [time for time in times if not begun - aside <= time <= latest + aside]
        if outside:
            yield f"{what} has {len(outside)} times outside the run, such as {outside[0]}"


def _length(evidence: RunEvidence) -> Iterator[str]:
    """The run began and ended when what was observed first and last says so."""
    begun, seconds = evidence.description.started_at, evidence.outcome.seconds
    if begun is None or seconds is None or not evidence.outcome.finished:
        return
    for line, start in lines_of(evidence.observed, StartUp):
        began = line.time - start.seconds
        if abs(began - begun) > _ASIDE_S:
            yield f"{line.read_at} began at {began}, and the run at {begun}"
    latest = max((observation.time for observation in evidence.observed), default=math.inf)
    if begun + seconds > latest + _STOPPING_S:
        yield f"the run ended {begun + seconds - latest:.0f} s after the last of {OBSERVATIONS}"


def _put_back(evidence: RunEvidence) -> Iterator[str]:
    """Times of several files order nothing if the clock that they are of went back.

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
                f"{message.read_at}: the clock was put back by {least - ahead:.2f} s, so times do "
                "not tell what came first"
            )
            return


def _all_times(evidence: RunEvidence) -> dict[str, list[float]]:
    ended = (operation.ended_at for operation in evidence.client_operations)
    copied = [broker for snapshot in evidence.snapshots for broker in snapshot.brokers.values()]
    return {
        ACTIONS: [action.time for action in evidence.actions],
        OBSERVATIONS: [observation.time for observation in evidence.observed],
        HISTORY: [
            *(operation.invoked_at for operation in evidence.client_operations),
            *(time for time in ended if time is not None),
        ],
        "links.jsonl": [message.wall_time_s for message in evidence.links or ()],
        HITS: [hit.time for hit in evidence.hits],
        "zookeeper/": [change.time_ms / 1000 for change in evidence.znode_changes],
        "metadata/": [decision.time for decision in evidence.decisions if evidence.is_kraft],
        TIER: [
            *(reading.time for reading in evidence.tier_readings),
            *(listed.time for listed in evidence.listed_offsets),
        ],
        "snapshots/": [
            *(snapshot.time for snapshot in evidence.snapshots),
            *(
                t
                for replica in copied
                for t in (replica.read_from, replica.read_until)
                if t is not None
            ),
        ],
    }
