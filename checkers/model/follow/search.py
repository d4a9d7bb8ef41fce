"""Trace validation: a depth-first search for steps of the machine that explain a recorded run.

Order comes from the record: what passed at the links and what the scenario did are in one order,
ZooKeeper's transactions in another, and times say how the two may interleave. What none of that
orders is searched: when a leader looked at its log, when a broker handled a control request, when a
follower handled an answer. Each observation lets only those states go on that could be seen so. If
no state is left the run is not one that the model allows, and the observation that left none is
named, with what was possible before it.

A search that comes no further for some thousand states begins anew shortly before its furthest
point, in another order. Where two such searches come no further either, and one of them has looked
at all that follows, the observation behind that point is taken as one that no state explains.
Otherwise it is a suspect, and not proved.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import inf
from random import Random
from typing import Any, NamedTuple, overload

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.controller.recorded import unexplained
from kchaos.checkers.model.follow.internal_steps import (
    Touched,
    early_requests,
    internal_steps,
    likely_steps,
    touched,
)
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    ClientAnswered,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
    is_action,
)
from kchaos.checkers.model.follow.observed_steps import Excluded, take, take_decision
from kchaos.checkers.model.follow.other_rules import spared_by
from kchaos.checkers.model.follow.pruning import needed, step_at_once
from kchaos.checkers.model.follow.reachable import grows_too_early, is_out_of_reach, never_answered
from kchaos.checkers.model.follow.replica_moments import replica_moments
from kchaos.checkers.model.follow.unavoidable import Reached, unavoidable
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.predict import prediction_of
from kchaos.checkers.model.settle.rounds import settle
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import EMPTY, Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import ControllerElected, Decided, Produce, Snapshot
from kchaos.checkers.model.values.prediction import (
    Copied,
    DisallowedDecision,
    EmptiedBy,
    ImpossibleHighWatermark,
    PredictedReplica,
    Prediction,
    Promise,
)

CLOCKS_AGREE_S = 0.015
"""Seconds between two times up to which the order of their events is open.

ZooKeeper's are cut to milliseconds, and a link writes a message down before it sends it on.
"""
_MOST_REASONS = 200
_UNTIL_UNLIKELY = 500
"""States that may explain no more of a run until an unlikely branch is searched."""
PATIENCE = 4_000
"""States that may do so until a search begins anew in another order, which has half of them."""
KEPT = 2_500
"""So many branches are kept, the newest ones; a search may have as many again before it forgets."""
_BLOCK = 256
"""So many states of an explanation are made at a time."""
_UNHASHED = State({})
_BACK = (20, 100, 500)
"""Observations and decisions before the furthest point, from where the next searches begin."""
_LOOKS = 2
"""Searches in another order that confirm a suspect, one after the other.

None may come further, and one of them must have looked at all that follows.
"""


_QUIET_KINDS = (RequestSeen, ResponseSeen, Produce, ClientAnswered)
_QUIET = 30
"""So many observations of these kinds come next where several are taken at a stroke."""
_STROKE = 16
"""So many are taken at a stroke, at most. What goes before another kind is taken one by one."""
_STATES_A_LOOK = 500
_PROGRESS: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


class _Node(NamedTuple):
    """Where a search stands: how much of each order was taken, and the state then."""

    seen: int
    decided: int
    state: State


@dataclass(slots=True, eq=False)
class _Step:
    """Way to a node: the notes on it, and the node before.

    Attributes:
        node: Its state is `EMPTY` where the search has left the step behind.
        changes: What the step changed.
        is_late: Whether there is little hope that it leads to the end of the record.
        dead_end: Why it cannot lead there, or "".
        is_settled: Whether what it changed alone may have steps that leave no trace follow.
    """

    node: _Node
    notes: tuple[object, ...] = ()
    before: "_Step | None" = None
    changes: Mapping[Component, Any] = field(default_factory=dict)
    is_late: bool = False
    dead_end: str = ""
    is_settled: bool = False

    def remember(self) -> None:
        """Have its state again, by all that was changed before."""
        changes: dict[Component, Any] = {}
        step: _Step | None = self
        while step is not None:
            for component, value in step.changes.items():
                changes.setdefault(component, value)
            step = step.before
        self.node = self.node._replace(state=EMPTY.changed(changes))


class _Path(Sequence[Reached]):
    """An explanation: the state after each step, with what of the record was taken.

    States are made anew where they are asked for, a block of them at a time.
    """

    def __init__(self, record: Record, steps: Sequence[_Step]) -> None:
        self._record, self._steps = record, steps
        self._begins: list[State] = []
        self._block, self._states = -1, list[State]()
        state, changes = _UNHASHED, dict[Component, Any]()
        for index, step in enumerate(steps):
            changes.update(step.changes)
            if index % _BLOCK == 0:
                state, changes = state.changed(changes), {}
                self._begins.append(state)

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> Reached: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Reached]: ...
    def __getitem__(self, index: int | slice) -> Reached | Sequence[Reached]:
        """Return a state with its step."""
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        step = self._steps[place]
        promised = tuple(note for note in step.notes if isinstance(note, Promise))
        return Reached(self._state(place), self._item(place), promised, step.changes)

    def steps(self) -> Iterator[tuple[Seen | Decided | None, Mapping[Component, Any]]]:
        """Yield of each step what was taken and what it changed, without its state."""
        for place, step in enumerate(self._steps):
            yield self._item(place), step.changes

    def nodes(self) -> "_Nodes":
        """Return the same states, each with how much of each order was taken."""
        return _Nodes(self, self._steps)

    def _item(self, place: int) -> Seen | Decided | None:
        node, before = self._steps[place].node, self._steps[max(place - 1, 0)].node
        if node.seen > before.seen:
            return self._record.seen[before.seen]
        return self._record.decided[before.decided] if node.decided > before.decided else None

    def _state(self, place: int) -> State:
        block = place // _BLOCK
        if block != self._block:
            self._block, self._states = block, [self._begins[block]]
            for step in self._steps[block * _BLOCK + 1 : (block + 1) * _BLOCK]:
                self._states.append(self._states[-1].changed(step.changes))
        return self._states[place % _BLOCK]


class _Nodes(Sequence[tuple[State, int, int]]):
    """States of an explanation, with the numbers of observations and decisions taken by then."""

    def __init__(self, path: _Path, steps: Sequence[_Step]) -> None:
        self._path, self._steps = path, steps

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> tuple[State, int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[State, int, int]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> tuple[State, int, int] | Sequence[tuple[State, int, int]]:
        """Return a state with both numbers."""
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        node = self._steps[index].node
        return self._path[index].state, node.seen, node.decided


class _Branches:
    """Branches of a depth-first search, the newest last, and the nodes that it has seen.

    What lies far behind the newest branch is forgotten, so that memory does not grow with a run.

    Attributes:
        has_forgotten: Whether a branch was forgotten that may have led elsewhere.
    """

    def __init__(self, first: _Step) -> None:
        self.has_forgotten = False
        self._stack: deque[tuple[_Step, Iterator[_Step]]] = deque()
        self._late: list[tuple[int, int, _Step]] = []
        self._visited: dict[int, set[_Node]] = {}
        self._number = 0
        self.is_new(first.node)

    def is_new(self, node: _Node) -> bool:
        """Return whether a node is seen for the first time."""
        visited = self._visited.setdefault(_depth(node), set())
        before = len(visited)
        visited.add(node)
        return len(visited) > before

    def push(self, step: _Step, following: Iterator[_Step]) -> None:
        """Go on with a step."""
        self._stack.append((step, following))
        if len(self._stack) > 2 * KEPT:
            self._forget()

    def push_late(self, step: _Step) -> None:
        """Go on with a step when nothing else leads further."""
        self._number += 1
        heappush(self._late, (-_depth(step.node), -self._number, step))

    def pop_late(self) -> _Step | None:
        """Return the late step that explains the most, of equal ones the newest."""
        return heappop(self._late)[-1] if self._late else None

    def next(self) -> _Step | None:
        """Return the next step of the newest branch; None ends the branch."""
        following = next(self._stack[-1][1], None)
        if following is None:
            self._stack.pop()
        return following

    def __bool__(self) -> bool:
        return bool(self._stack)

    def _forget(self) -> None:
        """Forget all but the newest branches, and nodes that only forgotten ones lead to."""
        while len(self._stack) > KEPT:
            step, _ = self._stack.popleft()
            step.node = step.node._replace(state=EMPTY)
        self.has_forgotten = True
        least = min(_depth(step.node) for step, _ in self._stack)
        self._late = [late for late in self._late if -late[0] >= least]
        heapify(self._late)
        for depth in [depth for depth in self._visited if depth < least]:
            del self._visited[depth]


def follow(
    record: Record, *, generations: Mapping[int, Generation] | None = None, patience: int = PATIENCE
) -> Prediction:
    """Return what the model predicts of a run that was seen like this.

    `Prediction.emptied_by` names the observation after which no state was possible. Where
    `Prediction.limit` says that the search was given up, it names a suspect. The rest is predicted
    then as if the cluster had been left alone after each event, so that it can be shown.

    Args:
        record: What was seen.
        generations: In place of what `StartBroker` says.
        patience: How many states may explain no more of the run; see `PATIENCE`.

    Raises:
        ModelError: The record has an event that no state allows, such as the start of a broker
            that runs.
    """
    search = _Search(record, generations or {}, patience)
    last = search.run()
    limit = ""
    emptied: EmptiedBy | None = None
    if not search.is_complete:
        emptied = search.emptied_by()
        if search.gave_up:
            emptied = replace(emptied, is_proved=False)
            limit = "" if search.is_confirmed else suspected(emptied, search.looked_at)
    steps: list[_Step] = []
    at: _Step | None = last
    while at is not None:
        steps.append(at)
        at = at.before
    steps.reverse()
    notes = [note for step in steps for note in step.notes]
    if emptied is not None:
        copied = sorted({(note.label, note.broker) for note in notes if isinstance(note, Copied)})
        emptied = replace(emptied, explained=tuple(copied))
    state = last.node.state
    if not search.is_complete:
        state, more = _left_alone(search, last.node)
        notes += more
    prediction = prediction_of(state, notes, _snapshots(notes))
    path = _Path(record, steps)
    prediction = replace(prediction, moments=replica_moments(path.steps()))
    if search.is_complete:
        decisive = unavoidable(
            path,
            search.generations,
            is_compacted=record.is_compacted,
            promises=(note for note in notes if isinstance(note, Promise)),
        )
        spared = spared_by(record, path.nodes(), decisive)
        prediction = replace(prediction, unavoidable=spared, never_rests=decisive.never_rests)
    return replace(
        prediction,
        unexplained=() if record.decisions is None else tuple(unexplained(record.decisions)),
        emptied_by=emptied,
        limit=limit,
        states=search.looked_at,
    )


def suspected(suspect: EmptiedBy, states: int) -> str:
    """Return the sentence that a search was given up at a suspect."""
    return (
        f"of {states} states none explains what comes before {suspect.source or suspect.what} and "
        "then that; snapshots or AwaitQuiet between its acts leave fewer to look at"
    )


def _snapshots(notes: list[object]) -> dict[str, tuple[PredictedReplica, ...]]:
    by_label: dict[str, dict[int, tuple[PredictedReplica, ...]]] = {}
    for note in notes:
        if isinstance(note, Copied):
            by_label.setdefault(note.label, {})[note.broker] = note.replicas
    return {
        label: tuple(replica for _, replicas in sorted(brokers.items()) for replica in replicas)
        for label, brokers in by_label.items()
    }


@contextmanager
def watching_search(progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Call `progress` now and then in the block, with explained and all observations."""
    token = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


def progress() -> Callable[[int, int], None] | None:
    """Return what `watching_search` has called now, None outside of it."""
    return _PROGRESS.get()


def _quiet_until(record: Record) -> list[int]:
    """Return for each observation where the next one is of something but writes and fetches."""
    until, next_one = list[int](), len(record.seen)
    for index in range(len(record.seen) - 1, -1, -1):
        if not isinstance(record.seen[index].what, _QUIET_KINDS):
            next_one = index
        until.append(next_one)
    return [*reversed(until), len(record.seen)]


class _Search:
    """Depth first, what a cluster does at once first; no state is looked at twice.

    Unlikely branches are searched last: of these the one first that explains the most, and of equal
    ones the newest.

    Attributes:
        is_complete: Whether a state explains the whole record.
        gave_up: Whether the last search ended with states that were not looked at.
        is_confirmed: Whether searches in another order came no further, and one of them ended.
        looked_at: How many states were looked at.
    """

    def __init__(
        self, record: Record, generations: Mapping[int, Generation], patience: int
    ) -> None:
        self.record = record
        self.generations = generations
        self.lookahead = Lookahead(record)
        self.gave_up = False
        self.is_confirmed = False
        self.looked_at = 0
        self._patience = patience
        self._tell = _PROGRESS.get()
        self._progress = 0
        self._quiet_until = _quiet_until(record)
        given: dict[Component, Any] = {("deletes", topic): True for topic in record.deleting}
        for partition, offset in record.remote_deleted.items():
            given["remotely deleted", partition] = offset
        self._furthest = _Step(_Node(0, 0, EMPTY.changed(given)), changes=given)
        self._deepest: list[_Node] = []
        self._dead_ends: list[_Step] = []
        self.is_complete = self._is_end(self._furthest.node)

    def run(self) -> _Step:
        """Return the step that explains the whole record, or one that explains most of it."""
        self._search_depth_first()
        backs, ended = iter(_BACK), list[bool]()
        while self.gave_up and not self.is_confirmed:
            back = next(backs, None)
            if back is None:
                break
            before = _depth(self._furthest.node)
            has_ended = self._search_anew(back)
            further = _depth(self._furthest.node) - before
            ended = [] if further else [*ended, has_ended]
            self.is_confirmed = len(ended) >= _LOOKS and any(ended)
            if further >= back and not self.is_complete:
                # An order that is drawn may explain the rest by unlikely steps.
                self._search_depth_first()
                self.gave_up = not self.is_complete
                backs = iter(_BACK)
        return self._furthest

    def _search_depth_first(self) -> None:
        branches = _Branches(self._furthest)
        branches.push(self._furthest, self._next(self._furthest))
        since = 0
        while not self._is_over(self._patience):
            since = max(since, self._progress)
            if not branches or self.looked_at - since >= _UNTIL_UNLIKELY:
                late = branches.pop_late()
                if late is not None:
                    branches.push(late, self._next(late))
                    since = self.looked_at
                elif not branches:
                    break
            following = branches.next()
            if following is not None and branches.is_new(following.node):
                self._look_at(following)
                if following.is_late and not following.dead_end:
                    branches.push_late(following)
                elif not following.dead_end:
                    branches.push(following, self._next(following))
        # All that was left here is not all that there is.
        self.gave_up |= branches.has_forgotten and not self.is_complete

    def _search_anew(self, back: int) -> bool:
        """Search from some observations before the furthest point, in an order that is drawn.

        What explains the most goes first, likely or not, and of equal states the newest. It ends
        as far behind that point as it began before it. Return whether it looked at all that
        follows.
        """
        draw = Random(back)
        least, enough = (_depth(self._furthest.node) + step for step in (-back, back))
        step = self._furthest
        while step.before is not None and _depth(step.node) > least:
            step = step.before
        step.remember()
        self.gave_up, self._progress = False, self.looked_at
        visited = {step.node}
        branches: list[tuple[int, int, Iterator[_Step]]] = []

        def branch(step: _Step) -> None:
            following = [*self._next(step)]
            draw.shuffle(following)
            heappush(branches, (-_depth(step.node), -self.looked_at, iter(following)))

        branch(step)
        while branches and not self._is_over(self._patience // 2, enough):
            following = next(branches[0][-1], None)
            if following is None:
                heappop(branches)
            elif following.node not in visited:
                visited.add(following.node)
                self._look_at(following)
                if not following.dead_end:
                    branch(following)
        # All that was left here is not all that there is.
        self.gave_up = not self.is_complete
        return not branches

    def _look_at(self, following: _Step) -> None:
        """Count a new state, and note how far it explains the record."""
        self.looked_at += 1
        node = following.node
        if self._tell is not None and self.looked_at % _STATES_A_LOOK == 0:
            of_all = len(self.record.seen) + len(self.record.decided)
            self._tell(_depth(self._furthest.node), of_all)
        if following.dead_end:
            self._dead_ends.append(following)
        elif _depth(node) >= _depth(self._furthest.node):
            if _depth(node) > _depth(self._furthest.node):
                self._furthest, self._progress = following, self.looked_at
                self._deepest, self._dead_ends = [], []
            self._deepest.append(node)
        self.is_complete = self._is_end(node)

    def _is_over(self, patience: int, enough: float = inf) -> bool:
        """Return whether a search ends: with enough of the record, or since it gets no further."""
        if self.is_complete or _depth(self._furthest.node) >= enough:
            return True
        self.gave_up = self.looked_at - self._progress >= patience
        return self.gave_up

    def emptied_by(self) -> EmptiedBy:
        """Return what nothing explains after the states that explain the most, and why not."""
        reasons: dict[EmptiedBy, None] = {}
        for node in self._deepest[:_MOST_REASONS]:
            for decided in self._order(node)[:1]:
                reason = self._why_not(node, decided)
                if reason is not None:
                    reasons[reason] = None
        # Where a broker could have got on, what it would have said then tells more.
        telling = [exclusion for exclusion in reasons if not exclusion.is_pending] or list(reasons)
        if not telling or telling[0].is_pending:
            telling = [*self._why_no_further()] or telling
        if not telling:
            return EmptiedBy(source="", what="the end of the run", why="it was never reached")
        whys = dict.fromkeys(exclusion.why for exclusion in telling[:3])
        return replace(telling[0], why="; or ".join(whys))

    def _why_no_further(self) -> Iterator[EmptiedBy]:
        """Yield why the steps that came next after the most are dead ends."""
        most = max(map(_depth, self._deepest), default=0)
        for step in self._dead_ends:
            before = step.before
            if before is not None and _depth(before.node) >= most:
                item = self.record.seen[min(before.node.seen, len(self.record.seen) - 1)]
                yield EmptiedBy(
                    source=item.source, what=type(item.what).__name__, why=step.dead_end
                )

    def _is_end(self, node: _Node) -> bool:
        return node.seen == len(self.record.seen) and node.decided == len(self.record.decided)

    def _next(self, step: _Step) -> Iterator[_Step]:
        node = step.node
        if step.is_settled and self._is_quiet(node):
            # Strokes end at the same places, so that states before a wrong step meet again.
            for most in (_STROKE - node.seen % _STROKE, 1):
                following = self._at_a_stroke(step, most)
                if following is None:
                    break
                yield following
        at_once = step_at_once(node.state, self.lookahead, node.seen)
        if at_once is not None:
            yield self._step(step, at_once, node.seen, node.decided)
            return
        for world in internal_steps(node.state, self.lookahead, node.seen, node.decided):
            yield self._step(step, world, node.seen, node.decided)
        yield from self._observed(step)
        for world in early_requests(node.state, self.lookahead, node.seen):
            yield self._step(step, world, node.seen, node.decided)

    def _observed(self, step: _Step) -> Iterator[_Step]:
        node = step.node
        for decided in self._order(node):
            world = World(node.state)
            try:
                if decided:
                    take_decision(world, self.record.decided[node.decided].what)
                    yield self._step(step, world, node.seen, node.decided + 1)
                else:
                    self._see(world, node)
                    following = self._step(step, world, node.seen + 1, node.decided)
                    following.is_settled = True
                    yield following
            except Excluded:
                continue

    def _at_a_stroke(self, step: _Step, most: int) -> _Step | None:
        """Take some observations, and after each of them all likely steps that follow from it.

        Only the last state is looked at. Where it leads nowhere, fewer are taken. Return None if no
        observation can be taken so: then the search goes step by step.
        """
        (seen, decided, state), last = step.node, step
        pending = {*touched(state, step.changes)}
        changes, notes = dict[Component, Any](), list[object]()
        taken: list[tuple[_Step, State]] = []
        while True:
            world = self._likely(state, seen, decided, pending)
            if world is None:
                if changes or seen > last.node.seen:
                    last = _Step(_Node(seen, decided, EMPTY), tuple(notes), last, changes)
                    taken.append((last, state))
                    changes, notes = {}, []
                node, world = _Node(seen, decided, state), World(state)
                if seen - step.node.seen >= most or self._order(node) != (False,):
                    break
                try:
                    self._see(world, node)
                except Excluded:
                    break
                seen += 1
            after = needed(world.changes, self.lookahead, seen)
            state = state.changed(after, is_hashed=False)
            pending.update(touched(state, after))
            changes.update(after)
            notes += world.notes
        every = _all_changes(taken)
        if taken and self._leads_nowhere(state, every, seen):
            for place, (reached, after_it) in enumerate(taken):
                if self._leads_nowhere(after_it, reached.changes, reached.node.seen):
                    taken = taken[:place]
                    break
            else:
                taken = []
            every = _all_changes(taken)
        if not taken:
            return None
        last = taken[-1][0]
        last.node = last.node._replace(state=step.node.state.changed(every))
        last.is_settled = True
        return last

    def _leads_nowhere(self, state: State, changes: Mapping[Component, Any], seen: int) -> bool:
        """Return whether a state in which this was changed most likely explains no more."""
        return is_out_of_reach(state, changes, self.lookahead, seen) or bool(
            never_answered(state, changes, self.lookahead, seen)
        )

    def _likely(self, state: State, seen: int, decided: int, pending: set[Touched]) -> World | None:
        """Return the next likely step with what was touched, which stays pending alone."""
        for what in sorted(pending):
            for world in likely_steps(state, self.lookahead, seen, decided, what):
                if not world.is_unlikely:
                    return world
            pending.remove(what)
        return None

    def _is_quiet(self, node: _Node) -> bool:
        """Return whether nothing but writes and fetches happens now and soon after."""
        state = node.state
        return (
            not state.awaits
            and self._quiet_until[node.seen] - node.seen >= _QUIET
            and self._order(node) == (False,)
            and all(state(("control", broker_id)) is None for broker_id in state(("brokers",)))
        )

    def _step(self, before: _Step, world: World, seen: int, decided: int) -> _Step:
        state = before.node.state
        is_late, dead_end = False, ""
        changes: dict[Component, Any] = {}
        if world.changes:
            changes = needed(world.changes, self.lookahead, seen)
            state = state.changed(changes)
            is_late = (
                world.is_unlikely
                or is_out_of_reach(state, changes, self.lookahead, before.node.seen)
                or grows_too_early(before.node.state, changes, self.lookahead, before.node.seen)
            )
            dead_end = never_answered(state, changes, self.lookahead, seen)
        node = _Node(seen, decided, state)
        return _Step(node, tuple(world.notes), before, changes, is_late, dead_end)

    def _order(self, node: _Node) -> tuple[bool, ...]:
        """Return which of the two orders may go on, the likelier first: True for decisions."""
        seen, decided = self.record.seen, self.record.decided
        if node.seen == len(seen):
            return (True,) if node.decided < len(decided) else ()
        if node.decided == len(decided):
            return (False,)
        item, decision = seen[node.seen], decided[node.decided]
        if decision.what.zxid <= item.zxid:
            return (True,)
        apart = decision.time - item.time
        likely = apart <= 0
        if abs(apart) > CLOCKS_AGREE_S:
            return (likely,)
        return (likely, not likely)

    def _see(self, world: World, node: _Node) -> None:
        item = self.record.seen[node.seen]
        take(world, item.what, self.lookahead, generations=self.generations, decided=node.decided)

    def _why_not(self, node: _Node, decided: bool) -> EmptiedBy | None:
        """Return why the head of one order cannot be taken, None if it can or there is none."""
        if decided not in self._order(node):
            return None
        item: Seen | Decided
        item = self.record.decided[node.decided] if decided else self.record.seen[node.seen]
        try:
            if decided:
                take_decision(World(node.state), self.record.decided[node.decided].what)
            else:
                self._see(World(node.state), node)
        except Excluded as error:
            source = item.source if isinstance(item, Seen) else f"zxid 0x{item.what.zxid:x}"
            return EmptiedBy(
                source=source,
                what=type(item.what).__name__,
                why=str(error),
                is_pending=error.is_pending,
            )
        return None


def _all_changes(taken: Sequence[tuple[_Step, State]]) -> dict[Component, Any]:
    changes: dict[Component, Any] = {}
    for step, _ in taken:
        changes.update(step.changes)
    return changes


def _depth(node: _Node) -> int:
    return node.seen + node.decided


def _left_alone(search: _Search, node: _Node) -> tuple[State, list[object]]:
    """Go on from a node with events alone, each followed by all that can happen then."""
    state, notes = node.state, list[object]()
    rest: list[Seen | Decided] = [
        *search.record.seen[node.seen :],
        *search.record.decided[node.decided :],
    ]
    rest.sort(key=lambda item: item.time)
    world = World(state)
    for broker_id in world.broker_ids():
        # What was not handled while the run could be explained is not predicted.
        world.put_received(broker_id, ())
    elected = state(("elected",))
    if elected is not None:
        happen(world, ControllerElected(broker=elected), {})
    state = world.state(state)
    for item in rest:
        what = item.what
        if isinstance(what, Snapshot):
            copied = {
                note.broker
                for note in notes
                if isinstance(note, Copied) and note.label == what.label
            }
            for broker_id in World(state).broker_ids():
                if broker_id not in copied:
                    notes.append(Copied(what.label, broker_id, replicas_of(state, broker_id)))
            continue
        if not isinstance(item, Decided) and not is_action(what):
            continue
        world = World(state)
        try:
            happen(world, what, search.generations)  # type: ignore[arg-type]
        except ModelError:
            continue
        settle(world)
        state = world.state(state)
        kept = (DisallowedDecision, ImpossibleHighWatermark)
        notes += [note for note in world.notes if not isinstance(note, kept)]
    return state, notes
