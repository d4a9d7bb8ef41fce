"""A leader's view of its followers, as moments of the report."""

import math
from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.dropped import fetch_wait_s
from kchaos.checkers.evidence.leader_view import FollowerSeen, LeaderView
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.harness.report.loading import Loaded

_SAME_LOOK_S = 0.2
"""From 2.5 on a leader that finds somebody behind looks once more before it shrinks the ISR."""


def lagging_looks(loaded: Loaded) -> Iterator[tuple[float, str]]:
    """Yield time and text of each check by which a leader found a follower behind."""
    evidence = loaded.evidence
    wait_s = fetch_wait_s(loaded.scenario.cluster)
    told_at: dict[tuple[int, TopicPartition], float] = {}
    for view in _views(evidence):
        behind = [
            follower
            for follower in view.followers
            if follower.log_end_offset != view.log_end_offset
            and view.time - follower.last_caught_up_at > wait_s
        ]
        if view.is_check and behind:
            before = told_at.get((view.leader, view.partition), -math.inf)
            told_at[(view.leader, view.partition)] = view.time
            if view.time - before < _SAME_LOOK_S:
                continue
            views = "; ".join(_follower_text(evidence, view, follower) for follower in behind)
            yield (
                view.time,
                f"leader {view.leader} looks who is in sync of {view.partition.topic}-"
                f"{view.partition.partition}, where its log ends at {view.log_end_offset}: {views}",
            )


def _views(evidence: RunEvidence) -> tuple[LeaderView, ...]:
    try:
        return evidence.leader_views
    except CheckError:
        return ()  # The judgement says what cannot be read.


def _follower_text(evidence: RunEvidence, view: LeaderView, follower: FollowerSeen) -> str:
    text = f"broker {follower.follower} is at {follower.log_end_offset}, "
    text += f"fetched {_ago(view, follower.last_fetch_at)}, "
    text += f"caught up {_ago(view, follower.last_caught_up_at)}"
    waits = [
        each.kept_from
        for each in evidence.overdue_fetches
        if (each.follower, each.leader) == (follower.follower, view.leader)
        and each.kept_from < view.time < (math.inf if each.kept_until is None else each.kept_until)
    ]
    if waits:
        text += f", and a fetch of it has waited here for {view.time - min(waits):.1f} s"
    return text


def _ago(view: LeaderView, time: float | None) -> str:
    return f"{view.time - time:.1f} s ago" if time else "never"
