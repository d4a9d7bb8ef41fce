"""A leader's view of its followers, and what KIP-501's solutions would have made of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.dropped import fetch_wait_s
from kchaos.checkers.evidence.leader_view import FollowerSeen, LeaderView
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.harness.documents.kip_501_courses import Course, CourseState, play
from kchaos.harness.documents.kip_501_runs import LeaderTerm, time_lines
from kchaos.harness.documents.kip_501_solutions import SHIPPED, SOLUTION_1, SOLUTION_2
from kchaos.harness.report.loading import Loaded

_SAME_LOOK_S = 0.2
"""From 2.5 on a leader that finds somebody behind looks once more before it shrinks the ISR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRow:
    """One solution's course in one leader's term.

    Attributes:
        term: The partition and the leader.
        solution: Its name, and by what the next leader is chosen where that matters.
        in_sync: What became of the ISR.
        kept: Whom only a pending fetch kept, and how often.
        offline: For how long the partition had no leader.
    """

    term: str
    solution: str
    in_sync: str
    kept: str
    offline: str


def lagging_looks(loaded: Loaded) -> Iterator[tuple[float, str]]:
    """Yields time and text of each look of a leader that found a follower behind."""
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
            told = "; ".join(_follower_text(evidence, view, follower) for follower in behind)
            yield (
                view.time,
                f"leader {view.leader} looks who is in sync of {view.partition.topic}-"
                f"{view.partition.partition}, where its log ends at {view.log_end_offset}: {told}",
            )


def shadow_rows(loaded: Loaded) -> tuple[ShadowRow, ...]:
    """Each solution in each term whose leader dropped somebody, or would have been given up."""
    evidence, rows = loaded.evidence, []
    try:
        terms = [
            (partition, *term)
            for partition in (evidence.partitions if evidence.leader_views else ())
            for term in time_lines(evidence, partition)
        ]
    except CheckError:
        return ()  # The judgement says what cannot be read.
    for partition, term, line in terms:
        courses = [
            ("recorded", None),
            ("as shipped, by its rule", play(line, SHIPPED)),
            ("solution 1", play(line, SOLUTION_1)),
            ("solution 2, by assignment", play(line, SOLUTION_2)),
            ("solution 2, by ISR order", play(line, SOLUTION_2, by_assignment=False)),
        ]
        if len({course and (course.states, course.moves) for _, course in courses[1:]}) == 1:
            continue
        name = f"{partition.name} led by {term.leader}, epoch {term.leader_epoch}"
        zero = loaded.started_at
        rows += [
            _recorded(name, term, zero) if course is None else _row(name, solution, course, zero)
            for solution, course in courses
        ]
    return tuple(rows)


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


def _recorded(name: str, term: LeaderTerm, zero: float) -> ShadowRow:
    states = [
        CourseState(time=time, leader=leader, isr=isr, why="")
        for time, leader, isr in term.recorded
    ]
    offline = [state.time for state in states if state.leader < 0]
    back = [
        state.time for state in states if state.leader >= 0 and offline and state.time > offline[0]
    ]
    offline_s = (back[0] if back else term.ended) - offline[0] if offline else 0.0
    return ShadowRow(
        term=name,
        solution="recorded",
        in_sync=_states_text(states, zero),
        kept="",
        offline=f"{offline_s:.1f} s",
    )


def _row(name: str, solution: str, course: Course, zero: float) -> ShadowRow:
    kept = sorted({follower for _, follower in course.kept})
    return ShadowRow(
        term=name,
        solution=solution,
        in_sync=_states_text(course.states[1:], zero),
        kept=f"{len(course.kept)} times ({', '.join(map(str, kept))})" if kept else "",
        offline=f"{course.offline_s:.1f} s",
    )


def _states_text(states: tuple[CourseState, ...] | list[CourseState], zero: float) -> str:
    return (
        "; ".join(
            f"{state.time - zero:.1f}: leader {state.leader if state.leader >= 0 else 'none'}, ISR "
            f"{','.join(map(str, state.isr))}{f' ({state.why})' if state.why else ''}"
            for state in states
        )
        or "unchanged"
    )
