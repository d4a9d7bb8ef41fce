"""KIP-501's solutions, played over a time line: that of a recorded run, or its own example.

The time line says when followers' fetches came, when they were read and answered, how the leader's
log grew, when it looked who is in sync, and when it died. A course is what comes of that under one
solution. What a time line cannot say is assumed, and named where it is: once the leader has moved
the other brokers fetch in time, unless they are named as slow too.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    LeaderAndIsr,
    elect_for_offline,
)
from kchaos.checkers.model.releases.proposed import keep_isr
from kchaos.checkers.model.releases.rules.last_in_isr import keep_last_member
from kchaos.studies.documents.kip_501_solutions import Solution
from kchaos.studies.explore.in_sync import FetchRead, Follower


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One fetch of a follower; times in seconds.

    Attributes:
        pending_from: When ReplicaManager has it, from which on it counts as pending; a request
            that waits at a link or in the request queue has not come so far.
        read_at: When the leader takes the fetch's time and its own log end.
        counted_at: When the read is over and counted; inf if it never was.
    """

    follower: int
    offset: int
    pending_from: float
    read_at: float
    counted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """Events of one partition while one broker led it.

    Attributes:
        assignment: Preferred replica first; elections go by it.
        isr: At the beginning.
        known: What the leader knew of its followers at the beginning, by id.
        log_ends: (time, the leader's log end offset from then on), ascending.
        checks: When the leader looked who is in sync, ascending.
        dies_at: When the leader died; None if it did not.
        back_at: When it was there again.
        down: Followers that died, and when.
        slow: Brokers that would be as slow as the leader if they led.
        level_is_in_sync: Whether who has the leader's end is in sync, as from 2.1.0 on.
        began: The first moment; ended: the last.
    """

    leader: int
    assignment: tuple[int, ...]
    isr: tuple[int, ...]
    lag_s: float
    known: Mapping[int, Follower]
    fetches: tuple[Fetch, ...]
    log_ends: tuple[tuple[float, int], ...]
    checks: tuple[float, ...]
    began: float
    ended: float
    dies_at: float | None = None
    back_at: float | None = None
    down: Mapping[int, float] = field(default_factory=dict)
    slow: frozenset[int] = frozenset()
    min_insync_replicas: int = 1
    level_is_in_sync: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseState:
    """Leader (-1 for none) and ISR from a time on, and why."""

    time: float
    leader: int
    isr: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Course of a time line under one solution.

    Attributes:
        states: From the beginning on.
        kept: (time, follower) of each look at which only a pending fetch kept it in the ISR.
        moves: How often the leader gave up.
        offline_s: For how long the partition had no leader.
        under_min_isr_s: For how long fewer were in sync than min.insync.replicas asks for.
    """

    solution: Solution
    states: tuple[CourseState, ...]
    kept: tuple[tuple[float, int], ...]
    moves: int
    offline_s: float
    under_min_isr_s: float


def play(line: TimeLine, solution: Solution, *, by_assignment: bool = True) -> Course:
    """Return the course of a time line under a solution.

    With `by_assignment` the first live in-sync replica of the assignment leads next, as in every
    release (PartitionStateMachine.offlinePartitionLeaderElection); otherwise the first of the ISR,
    which ends with the broker that gave up last, as in the document.
    """
    course = _Course(line, solution, by_assignment)
    for time, _, what, subject in sorted(_events(line, solution), key=lambda event: event[:2]):
        if course.is_over:
            break
        course.happen(time, what, subject)
    return course.finished()


_ORDER = {"counted": 0, "slow": 1, "down": 2, "check": 3, "dies": 4, "back": 5}


def _events(line: TimeLine, solution: Solution) -> Iterator[tuple[float, int, str, object]]:
    for fetch in line.fetches:
        if fetch.counted_at < math.inf:
            yield fetch.counted_at, _ORDER["counted"], "counted", fetch
        limit = solution.gives_up_after_s
        if limit is not None and fetch.pending_from + limit < fetch.counted_at:
            # What was slow before the time line begins is found when it does.
            yield max(fetch.pending_from + limit, line.began), _ORDER["slow"], "slow", fetch
    for time in line.checks:
        yield time, _ORDER["check"], "check", None
    for follower, time in line.down.items():
        yield time, _ORDER["down"], "down", follower
    if line.dies_at is not None:
        yield line.dies_at, _ORDER["dies"], "dies", None
    if line.back_at is not None:
        yield line.back_at, _ORDER["back"], "back", None


class _Course:
    """A course that is being played."""

    def __init__(self, line: TimeLine, solution: Solution, by_assignment: bool) -> None:
        self.line = line
        self.solution = solution
        self.by_assignment = by_assignment
        self.known = dict(line.known)
        self.states = [
            CourseState(time=line.began, leader=line.leader, isr=line.isr, why="at first")
        ]
        self.kept: list[tuple[float, int]] = []
        self.moves = 0
        self.dead: set[int] = set()

    @property
    def now(self) -> CourseState:
        return self.states[-1]

    @property
    def is_over(self) -> bool:
        """Whether nothing that the time line tells matters any more: another broker leads."""
        return self.now.leader not in (self.line.leader, -1)

    def happen(self, time: float, what: str, subject: object) -> None:
        match what, subject:
            case "counted", Fetch() as fetch if self.now.leader == self.line.leader:
                self._count(fetch)
            case "slow", Fetch() as fetch if self._is_pending(fetch, time):
                self._give_up(time, fetch)
            case "down", int(follower):
                self.dead.add(follower)
            case "check", _ if self.now.leader == self.line.leader:
                self._look(time)
            case "dies", _:
                self._die(time)
            case "back", _ if self.now.leader == -1:
                self._to(time, self.line.leader, self.now.isr, "the leader is back")
            case _:
                pass

    def _log_end(self, time: float) -> int:
        return max((end for since, end in self.line.log_ends if since <= time), default=0)

    def _is_pending(self, fetch: Fetch, time: float) -> bool:
        is_there = fetch.pending_from <= time < fetch.counted_at
        return is_there and self.now.leader == self.line.leader

    def _pending_offset(self, follower: int, time: float) -> int | None:
        pending = [
            fetch.offset
            for fetch in self.line.fetches
            if fetch.follower == follower and self._is_pending(fetch, time)
        ]
        return max(pending, default=None)

    def _count(self, fetch: Fetch) -> None:
        end = self._log_end(fetch.read_at)
        self.known[fetch.follower] = self.solution.counted(
            self.known.get(fetch.follower, Follower()),
            FetchRead(offset=fetch.offset, log_end_offset=end, read_at=fetch.read_at),
            fetch.counted_at,
        )
        isr = self.now.isr
        ends = [self._log_end(fetch.counted_at)]
        ends += [
            self.known[broker_id].log_end_offset for broker_id in isr if broker_id in self.known
        ]
        if fetch.follower not in isr and fetch.offset >= min(ends):
            why = f"{fetch.follower} has caught up"
            self._to(fetch.counted_at, self.line.leader, (*isr, fetch.follower), why)

    def _look(self, time: float) -> None:
        end = self._log_end(time)
        out = set()
        for broker_id in self.now.isr:
            if broker_id == self.line.leader:
                continue
            follower, pending = (
                self.known.get(broker_id, Follower()),
                self._pending_offset(broker_id, time),
            )
            if not self._lags(follower, end, time):
                continue
            if self.solution.keeps(follower, pending):
                self.kept.append((time, broker_id))
            else:
                out.add(broker_id)
        if out:
            isr = tuple(broker_id for broker_id in self.now.isr if broker_id not in out)
            self._to(time, self.line.leader, isr, f"{_named(out)} out of sync")

    def _lags(self, follower: Follower, end: int, time: float) -> bool:
        is_level = self.line.level_is_in_sync and follower.log_end_offset == end
        return not is_level and time - follower.caught_up_at > self.line.lag_s

    def _give_up(self, time: float, fetch: Fetch) -> None:
        """Move the leader to the end of the ISR, and let the controller elect another."""
        known = self.known.get(fetch.follower, Follower())
        again = self.now.time == time
        if again or not self.solution.keeps(known, fetch.offset):
            return
        isr, chosen = self._given_up(self.dead)
        why = f"{self.now.leader} gives up: {_seconds(time - fetch.pending_from)}"
        why += " with a fetch unanswered"
        self.moves += 1
        if chosen == self.now.leader:
            # What was noted at its election does not matter: it leads on, and is asked again.
            self._to(time, chosen, isr, f"{why}; it is chosen again")
            return
        self._to(time, chosen, isr, why)
        self._go_on_elsewhere(time)

    def _go_on_elsewhere(self, time: float) -> None:
        """Move the leadership on, as when every broker is slow and the first fetch would wait."""
        limit = self.solution.gives_up_after_s
        slow_until = max(
            (fetch.counted_at for fetch in self.line.fetches if fetch.pending_from <= time),
            default=time,
        )
        slow_until = min(slow_until, self.line.ended, self.line.dies_at or math.inf)
        while limit is not None and self.now.leader in self.line.slow and time + limit < slow_until:
            time += limit
            dead = {follower for follower, since in self.line.down.items() if since <= time}
            leader = self.now.leader
            if leader in dead:
                return
            isr, chosen = self._given_up(dead)
            self.moves += 1
            if chosen == leader:
                self._to(time, leader, isr, f"{leader} gives up as well; it is chosen again")
                return
            self._to(time, chosen, isr, f"{leader} gives up as well")

    def _given_up(self, dead: Collection[int]) -> tuple[tuple[int, ...], int]:
        """Return the ISR with the leader last in it, and who is elected then, perhaps the same."""
        leader = self.now.leader
        isr = (*(broker_id for broker_id in self.now.isr if broker_id != leader), leader)
        order = self.line.assignment if self.by_assignment else isr
        elected = self._elected(order, dead)
        return isr, leader if elected is None else elected.leader

    def _die(self, time: float) -> None:
        leader = self.line.leader
        elected = self._elected(self.line.assignment, self.dead | {leader})
        if elected is None:
            self._to(time, -1, (leader,), f"{leader} dies; nobody else is in sync")
            return
        self._to(time, elected.leader, elected.isr, f"{leader} dies")

    def _elected(self, order: tuple[int, ...], dead: Collection[int]) -> LeaderAndIsr | None:
        """Elect as for a partition without a leader, by an order of replicas."""
        context = ControllerContext(
            assignment=order,
            live=frozenset(order) - frozenset(dead),
            isr_without=keep_last_member,
            isr_of_preferred=keep_isr,
        )
        return elect_for_offline(context, LeaderAndIsr(leader=self.now.leader, isr=self.now.isr))

    def _to(self, time: float, leader: int, isr: tuple[int, ...], why: str) -> None:
        self.states.append(CourseState(time=time, leader=leader, isr=isr, why=why))

    def finished(self) -> Course:
        ends = [*(state.time for state in self.states[1:]), self.line.ended]
        spans = [
            (state, max(0.0, end - state.time))
            for state, end in zip(self.states, ends, strict=True)
        ]
        required = self.line.min_insync_replicas
        return Course(
            solution=self.solution,
            states=tuple(self.states),
            kept=tuple(self.kept),
            moves=self.moves,
            offline_s=sum(span for state, span in spans if state.leader < 0),
            under_min_isr_s=sum(
                span for state, span in spans if state.leader >= 0 and len(state.isr) < required
            ),
        )


def _named(brokers: set[int]) -> str:
    return " and ".join(map(str, sorted(brokers)))


def _seconds(time: float) -> str:
    return f"{time:.1f} s"
