"""KIP-501's solutions beside shipped code: over its own example, and over a recorded run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from kchaos.checkers.errors import ComparisonError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.run_directory import RunDirectory
from kchaos.studies.documents.comparison import Cell, Claim, Column, Comparison, Result, Row
from kchaos.studies.documents.kip_501_courses import Course, CourseState, TimeLine, play
from kchaos.studies.documents.kip_501_example import TX, TY, worked_example
from kchaos.studies.documents.kip_501_runs import LeaderTerm, time_lines
from kchaos.studies.documents.kip_501_solutions import (
    FIRST_HALF,
    SECOND_HALF,
    SHIPPED,
    SOLUTION_1,
    SOLUTION_2,
    Solution,
)
from kchaos.studies.documents.searching import Say, SearchBounds
from kchaos.studies.explore.in_sync import FetchRead, Follower

TITLE = "who stays in sync while the leader is slow to read for its followers"
_RECORDED = "recorded"
_RULES: Mapping[str, tuple[Solution, bool]] = {
    "shipped": (SHIPPED, True),
    "pending": (FIRST_HALF, True),
    "clock": (SECOND_HALF, True),
    "both": (SOLUTION_1, True),
    "moves": (SOLUTION_2, True),
    "moves ISR": (SOLUTION_2, False),
}
"""By column: the solution, and whether elections go by the assignment, as controllers do."""
_COLUMNS = (
    Column(key="shipped", title="what every release does"),
    Column(key="pending", title="first half of solution 1: a pending fetch keeps a follower"),
    Column(key="clock", title="second half of solution 1: caught up from the end of the read"),
    Column(key="both", title="solution 1: both halves"),
    Column(key="moves", title="solution 2: both, and the leader gives up after 500 ms"),
    Column(key="moves ISR", title="solution 2 if elections went by the order of the ISR"),
)
_SLOW = frozenset({1001, 1002, 1003})
_Tell = Callable[[TimeLine, Course], Cell]


def courses(line: TimeLine) -> dict[str, Course]:
    """Return the course under each column's rules."""
    return {
        key: play(line, solution, by_assignment=by_assignment)
        for key, (solution, by_assignment) in _RULES.items()
    }


def compare(_bounds: SearchBounds, _say: Say) -> Comparison:
    """Compare the document's example, and its named disadvantages."""
    asked: tuple[tuple[str, str, TimeLine, _Tell], ...] = (
        ("example", "Who is in sync while the read takes 25 s?", worked_example(), _isr),
        ("refused", "For how long are fewer than 2 in sync?", worked_example(), _refused),
        ("leader dies", "Who leads when 1001 dies at 20 s?", worked_example(dies_at=20.0), _leads),
        (
            "queued, dies",
            "And if the fetches wait in the request queue?",
            worked_example(dies_at=20.0, queued=True),
            _leads,
        ),
        (
            "1002 is down",
            "When is a follower dropped that dies at 0.2 s?",
            worked_example(down={1002: 0.2}),
            _dropped,
        ),
        (
            "down, pending",
            "And if it dies at 1 s, with its fetch pending?",
            worked_example(down={1002: 1.0}),
            _dropped,
        ),
        ("all slow", "How often does the leader give up?", worked_example(slow=_SLOW), _moves),
    )
    return Comparison(
        document="KIP-501",
        title=TITLE,
        columns=_COLUMNS,
        rows=tuple(
            Row(
                name=name,
                question=question,
                cells={key: tell(line, course) for key, course in courses(line).items()},
            )
            for name, question, line, tell in asked
        ),
        claims=tuple(_claims()),
        notes=(
            f"Times are seconds; tx is {TX:g}, ty {TY:g}. The leader looks every 5 s from 0 on.",
            "Under every rule writes with acks=all wait as long as the reads take; kept followers "
            "only turn a refusal into that.",
        ),
    )


def compare_run(path: Path, _say: Say) -> Comparison:
    """Return each rule's course in the terms of a recorded run.

    Raises:
        CheckError: The run cannot be read, or its leaders told nothing of their followers.
    """
    evidence = RunEvidence(RunDirectory.open(path))
    named_lines = [
        (f"{partition.name} led by {term.leader}, epoch {term.leader_epoch}", *line)
        for partition in evidence.partitions
        for line in time_lines(evidence, partition)
        for term in line[:1]
    ]
    if not named_lines:
        raise ComparisonError(
            f"{path}: no leader's view of its followers was seen. Run an entry of KIP-501, or "
            "name the points fetch-counted and isr-check in a broker's spec"
        )
    return Comparison(
        document="KIP-501",
        title=TITLE,
        columns=(Column(key=_RECORDED, title="what the run recorded"), *_COLUMNS),
        rows=tuple(row for result in named_lines for row in _rows_of(*result)),
        claims=tuple(_as_recorded(name, term, line) for name, term, line in named_lines),
        notes=("Times are seconds since the term's first look at the ISR.",),
    )


def _rows_of(name: str, term: LeaderTerm, line: TimeLine) -> Iterator[Row]:
    all_courses = courses(line)
    states = [
        CourseState(time=time, leader=leader, isr=isr, why="recorded")
        for time, leader, isr in term.recorded
        if time >= line.began
    ]
    recorded = Cell(text=_last_isr(line, states), detail=_told(line, states))
    cells = {key: _isr(line, course) for key, course in all_courses.items()}
    question = "What became of leader and ISR?"
    yield Row(name=name, question=question, cells={_RECORDED: recorded, **cells})
    if any(course.offline_s for course in all_courses.values()):
        offline = {key: _offline(course) for key, course in all_courses.items()}
        question = "For how long did nobody lead?"
        yield Row(name="- offline", question=question, cells=offline)
    if any(course.under_min_isr_s for course in all_courses.values()):
        refused = {key: _refused(line, course) for key, course in all_courses.items()}
        question = "For how long were fewer in sync than min.insync.replicas?"
        yield Row(name="- refused", question=question, cells=refused)
    if any(course.moves for course in all_courses.values()):
        moves = {key: _moves(line, course) for key, course in all_courses.items()}
        question = "How often does the leader give up?"
        yield Row(name="- gives up", question=question, cells=moves)


def _as_recorded(name: str, term: LeaderTerm, line: TimeLine) -> Claim:
    """Return whether the releases' rule gives the recorded course; else the rest says little."""
    first = CourseState(time=line.began, leader=line.leader, isr=line.isr, why="")
    recorded = [
        CourseState(time=time, leader=leader, isr=isr, why="")
        for time, leader, isr in term.recorded
        if time >= line.began
    ]
    seen = list(_changes([first, *recorded]))
    given = list(_changes(play(line, SHIPPED).states))
    same = seen == given
    return Claim(
        said=f"{name}: what the rule of releases gives was recorded",
        seen=f"{len(given)} changes by the rule, {len(seen)} recorded",
        holds=same,
    )


def _changes(states: Iterable[CourseState]) -> Iterator[tuple[int, tuple[int, ...] | int]]:
    """Yield leader and ISR of each change; for joins the ISR's size, as order may vary."""
    for before, after in pairwise(states):
        grows = set(before.isr) < set(after.isr)
        yield after.leader, len(after.isr) if grows else tuple(sorted(after.isr))


def _isr(line: TimeLine, course: Course) -> Cell:
    states = course.states[1:]
    wrong = any(
        state.leader < 0 or not set(line.isr) - line.down.keys() <= set(state.isr)
        for state in states
    )
    return Cell(
        result=Result.WRONG if wrong else Result.RIGHT,
        text=_last_isr(line, states),
        numbers={"changes": len(states), "kept": len(course.kept)},
        detail=_told(line, states),
    )


def _last_isr(line: TimeLine, states: tuple[CourseState, ...] | list[CourseState]) -> str:
    """Return the smallest ISR and its time, or that it did not change."""
    if not states:
        return "all stay"
    least = min(states, key=lambda state: (state.leader >= 0, len(state.isr)))
    since = f"{least.time - line.began + _zero(line):.1f}"
    if least.leader < 0:
        return f"offline at {since}"
    return f"{len(least.isr)} in sync at {since}, leader {least.leader}"


def _told(line: TimeLine, states: tuple[CourseState, ...] | list[CourseState]) -> tuple[str, ...]:
    return tuple(
        f"{state.time - line.began + _zero(line):.1f}: leader "
        f"{state.leader if state.leader >= 0 else 'none'}, ISR {','.join(map(str, state.isr))}, "
        f"{state.why}"
        for state in states
    )


def _zero(line: TimeLine) -> float:
    """Return the zero of the example's times; a run's count from the first look."""
    return line.began if line.began < 1 else 0.0


def _offline(course: Course) -> Cell:
    return Cell(
        result=Result.WRONG if course.offline_s else Result.RIGHT,
        text=f"{course.offline_s:.1f} s",
        numbers={"offline_s": course.offline_s},
        detail=(f"nobody led for {course.offline_s:.1f} s",) * bool(course.offline_s),
    )


def _refused(line: TimeLine, course: Course) -> Cell:
    seconds = course.under_min_isr_s
    return Cell(
        result=Result.WRONG if seconds else Result.RIGHT,
        text=f"{seconds:.1f} s",
        numbers={"under_min_isr_s": seconds},
        detail=_told(line, course.states[1:]),
    )


def _leads(line: TimeLine, course: Course) -> Cell:
    last = course.states[-1]
    return Cell(
        result=Result.WRONG if last.leader < 0 else Result.RIGHT,
        text="nobody" if last.leader < 0 else str(last.leader),
        numbers={"offline_s": course.offline_s},
        detail=_told(line, course.states[1:]),
    )


def _dropped(line: TimeLine, course: Course) -> Cell:
    (down,) = line.down
    dropped = next((state for state in course.states if down not in state.isr), None)
    if dropped is None:
        text = "never" if course.states[-1].leader == line.leader else "(moved)"
        return Cell(result=Result.NONE, text=text)
    return Cell(
        result=Result.RIGHT,
        text=f"{dropped.time:.1f}",
        numbers={"dropped_at": dropped.time},
        detail=_told(line, course.states[1:]),
    )


def _moves(line: TimeLine, course: Course) -> Cell:
    return Cell(
        result=Result.WRONG if course.moves > 1 else Result.RIGHT,
        text=f"{course.moves}",
        numbers={"moves": course.moves, "leaders": len({state.leader for state in course.states})},
        detail=_told(line, course.states[1:6]),
    )


def _claims() -> Iterator[Claim]:
    example = worked_example()
    after = [TX + 10 + tenth / 10 for tenth in range(1, 150)]
    dropping = [time for time in after if _first_drop(example, (time,)) == time]
    yield Claim(
        said="Any in-sync replica check after tx+10s … would result in false",
        seen=f"of {len(after)} looks after tx+10 s {len(dropping)} drop the followers. The time "
        "counts from the fetch before tx, so that one look up to 0.5 s earlier does too",
        holds=len(dropping) == len(after),
    )
    phases = [number / 10 for number in range(50)]
    drops = [_first_drop(example, tuple(phase + 5 * n for n in range(5))) for phase in phases]
    lags = [time - (TX - 0.5) for time in drops if time is not None]
    yield Claim(
        said="can lag behind the leader replica upto 1.5 * replica.lag.time.max.ms",
        seen=f"from {min(lags):.1f} to {max(lags):.1f} s, by when the leader looks",
        holds=max(lags) <= 15.0,
    )
    kept = play(example, SOLUTION_1)
    yield Claim(
        said="While the fetch request is being processed, insync replica checks … return true",
        seen=f"{len(kept.kept)} looks find a follower that only its pending fetch keeps; the ISR "
        f"changes {len(kept.states) - 1} times",
        holds=len(kept.states) == 1,
    )
    yield _caught_up()
    moved, by_isr = play(example, SOLUTION_2), play(example, SOLUTION_2, by_assignment=False)
    yield Claim(
        said="Leader will also lose the leadership and one of the insync replicas becomes a leader",
        seen=f"controllers elect by the assignment, whatever the order of the ISR: "
        f"{moved.states[-1].leader} leads on; by the order of the ISR "
        f"{by_isr.states[-1].leader} would",
        holds=moved.states[-1].leader != example.leader,
    )
    queued = play(worked_example(dies_at=20.0, queued=True), SOLUTION_2)
    yield Claim(
        said="it can still happen when there are requests queued up",
        seen=f"{queued.offline_s:.1f} s offline, under solution 2 as well: what is queued is not "
        "pending",
        holds=queued.offline_s > 0,
    )
    thrash = play(worked_example(slow=_SLOW), SOLUTION_2, by_assignment=False)
    yield Claim(
        said="ISR thrashing may occur when there are intermitten issues across brokers",
        seen=f"{thrash.moves} leaders in 25 s if all three are slow and elections went by the ISR",
        holds=thrash.moves > 1,
    )


def _first_drop(line: TimeLine, checks: tuple[float, ...]) -> float | None:
    states = play(replace(line, checks=checks), SHIPPED).states[1:]
    return states[0].time if states and len(states[0].isr) == 1 else None


def _caught_up() -> Claim:
    before = Follower(
        log_end_offset=950, leader_log_end_offset=1002, fetched_at=TX, caught_up_at=TX - 0.5
    )
    fetch = FetchRead(offset=1002, log_end_offset=1100, read_at=TY)
    at = {
        solution.name: solution.counted(before, fetch, TY + 25).caught_up_at
        for solution in (SHIPPED, SOLUTION_1)
    }
    return Claim(
        said="Once the fetch request is served, lastCaughtupTime is set as ty+25",
        seen=f"under solution 1 to ty+{at[SOLUTION_1.name] - TY:g}; shipped code sets it to "
        f"tx+{at[SHIPPED.name] - TX:g}, the time of the fetch before",
        holds=at[SOLUTION_1.name] == TY + 25,
    )
