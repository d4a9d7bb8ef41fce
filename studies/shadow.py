"""A section of a report: courses that KIP-501's solutions would have taken in the run."""

from kchaos.checkers.errors import CheckError
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.sections import Section, SectionRow
from kchaos.studies.documents.kip_501_courses import Course, CourseState, play
from kchaos.studies.documents.kip_501_runs import LeaderTerm, time_lines
from kchaos.studies.documents.kip_501_solutions import SHIPPED, SOLUTION_1, SOLUTION_2


def shadow_section(loaded: Loaded) -> Section | None:
    """Return the section; None for a run in which all solutions take the same course."""
    rows = shadow_rows(loaded)
    if not rows:
        return None
    return Section(
        name="shadow",
        title="What KIP-501's solutions would have done",
        note="The rules of a proposal that no release has, over this leader's own view; seconds "
        "since the beginning.",
        columns=("leader's term", "rule", "offline", "kept by a pending fetch", "leader and ISR"),
        rows=rows,
    )


def shadow_rows(loaded: Loaded) -> tuple[SectionRow, ...]:
    """Return each solution in each term that dropped a follower, or would have been given up."""
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
            _recorded(name, term, zero)
            if course is None
            else _of_course(name, solution, course, zero)
            for solution, course in courses
        ]
    return tuple(rows)


def _recorded(name: str, term: LeaderTerm, zero: float) -> SectionRow:
    states = [
        CourseState(time=time, leader=leader, isr=isr, why="")
        for time, leader, isr in term.recorded
    ]
    offline = [state.time for state in states if state.leader < 0]
    back = [
        state.time for state in states if state.leader >= 0 and offline and state.time > offline[0]
    ]
    offline_s = (back[0] if back else term.ended) - offline[0] if offline else 0.0
    return _row(name, "recorded", f"{offline_s:.1f} s", "", _states_text(states, zero))


def _of_course(name: str, solution: str, course: Course, zero: float) -> SectionRow:
    followers = sorted({follower for _, follower in course.kept})
    kept = f"{len(course.kept)} times ({', '.join(map(str, followers))})" if followers else ""
    in_sync = _states_text(course.states[1:], zero)
    return _row(name, solution, f"{course.offline_s:.1f} s", kept, in_sync)


def _row(term: str, solution: str, offline: str, kept: str, in_sync: str) -> SectionRow:
    text = f"{solution}: offline {offline}{f'; kept {kept}' if kept else ''}; {in_sync}"
    return SectionRow(group=term, cells=(solution, offline, kept or "-", in_sync), text=text)


def _states_text(states: tuple[CourseState, ...] | list[CourseState], zero: float) -> str:
    return (
        "; ".join(
            f"{state.time - zero:.1f}: leader {state.leader if state.leader >= 0 else 'none'}, ISR "
            f"{','.join(map(str, state.isr))}{f' ({state.why})' if state.why else ''}"
            for state in states
        )
        or "unchanged"
    )
