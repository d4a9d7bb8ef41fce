"""Trace validation: a depth-first search for steps of the machine that explain a recorded run.

Order comes from the record: what passed at the links and what the scenario did are in one order,
ZooKeeper's transactions in another, and times say how the two may interleave. What none of that
orders is searched: when a leader looked at its log, when a broker handled a control request, when a
follower handled an answer. Each observation lets only those states go on that could be seen so. If
no state is left the run is not one that the model allows, and the observation that left none is
named, with what was possible before it.

A search that comes no further for some thousand states begins anew shortly before its furthest
point, in another order. Where two such searches come no further either, the observation behind that
point is taken as one that no state explains. Otherwise it is a suspect, and not proved.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.controller.recorded import unexplained
from kchaos.checkers.model.follow.internal_steps import early_requests, internal_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record, Seen, is_action
from kchaos.checkers.model.follow.observed_steps import Excluded, take, take_decision
from kchaos.checkers.model.follow.other_rules import spared_by
from kchaos.checkers.model.follow.pruning import needed, step_at_once
from kchaos.checkers.model.follow.reachable import is_out_of_reach, never_answered
from kchaos.checkers.model.follow.replica_moments import replica_moments
from kchaos.checkers.model.follow.unavoidable import Reached, unavoidable
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.predict import prediction_of
from kchaos.checkers.model.settle.rounds import settle
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import EMPTY, Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import ControllerElected, Decided, Snapshot
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
_BACK = (20, 100, 500)
"""Observations and decisions before the furthest point, from where the next searches begin."""
_CONFIRMED_BY = 2
"""Searches in another order that confirm a suspect if they come no further, one after the other."""


_STATES_A_LOOK = 500
_PROGRESS: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


class _Node(NamedTuple):
    """Where a search stands: how much of each order was taken, and the state then."""

    seen: int
    decided: int
    state: State


class _Step(NamedTuple):
    """Way to a node: the notes on it, and the node before.

    Attributes:
        is_late: Whether there is little hope that it leads to the end of the record.
        dead_end: Why it cannot lead there, or "".
    """

    node: _Node
    notes: tuple[object, ...]
    before: "_Step | None"
    is_late: bool = False
    dead_end: str = ""


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
            if search.confirmed < _CONFIRMED_BY:
                limit = (
                    f"of {search.looked_at} states none explains what comes before "
                    f"{emptied.source or emptied.what} and then that; snapshots or AwaitQuiet "
                    "between its acts leave fewer to look at"
                )
    steps: list[_Step] = []
    at: _Step | None = last
    while at is not None:
        steps.append(at)
        at = at.before
    notes = [note for step in reversed(steps) for note in step.notes]
    if emptied is not None:
        copied = sorted({(note.label, note.broker) for note in notes if isinstance(note, Copied)})
        emptied = replace(emptied, explained=tuple(copied))
    state = last.node.state
    if not search.is_complete:
        state, more = _left_alone(search, last.node)
        notes += more
    prediction = prediction_of(state, notes, _snapshots(notes))
    path = [*search.reached(reversed(steps))]
    prediction = replace(prediction, moments=replica_moments(path))
    if search.is_complete:
        decisive = unavoidable(path, search.generations, is_compacted=record.is_compacted)
        nodes = [step.node for step in reversed(steps)]
        spared = spared_by(record, [(at.state, at.seen, at.decided) for at in nodes], decisive)
        prediction = replace(prediction, unavoidable=spared, never_rests=decisive.never_rests)
    return replace(
        prediction,
        unexplained=() if record.decisions is None else tuple(unexplained(record.decisions)),
        emptied_by=emptied,
        limit=limit,
        states=search.looked_at,
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
def watching_search(progress: Callable[[int, int], None]) -> Iterator[None]:
    """Call `progress` now and then in the block, with explained and all observations."""
    token = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


class _Search:
    """Depth first, what a cluster does at once first; no state is looked at twice.

    Unlikely branches are searched last: of these the one first that explains the most, and of equal
    ones the newest.

    Attributes:
        is_complete: Whether a state explains the whole record.
        gave_up: Whether the last search ended with states that were not looked at.
        confirmed: How many searches in another order, one after the other, came no further.
        looked_at: How many states were looked at.
    """

    def __init__(
        self, record: Record, generations: Mapping[int, Generation], patience: int
    ) -> None:
        self.record = record
        self.generations = generations
        self.lookahead = Lookahead(record)
        self.gave_up = False
        self.confirmed = 0
        self.looked_at = 0
        self._patience = patience
        self._tell = _PROGRESS.get()
        self._progress = 0
        given: dict[Component, Any] = {("deletes", topic): True for topic in record.deleting}
        for partition, offset in record.remote_deleted.items():
            given["remotely deleted", partition] = offset
        self._furthest = _Step(_Node(0, 0, EMPTY.changed(given)), (), None)
        self._deepest: list[_Node] = []
        self._dead_ends: list[_Step] = []
        self.is_complete = self._is_end(self._furthest.node)

    def run(self) -> _Step:
        """Return the step that explains the whole record, or one that explains most of it."""
        self._search_depth_first()
        for back in _BACK:
            if not self.gave_up or self.confirmed == _CONFIRMED_BY:
                break
            before = _depth(self._furthest.node)
            self._search_anew(back)
            self.confirmed = self.confirmed + 1 if _depth(self._furthest.node) == before else 0
        return self._furthest

    def _search_depth_first(self) -> None:
        stack = [self._next(self._furthest)]
        visited = {self._furthest.node}
        late: list[tuple[int, int, _Step]] = []
        since = 0
        while (stack or late) and not self._is_over(self._patience):
            since = max(since, self._progress)
            if late and (not stack or self.looked_at - since >= _UNTIL_UNLIKELY):
                stack.append(self._next(heappop(late)[-1]))
                since = self.looked_at
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
            elif following.node not in visited:
                visited.add(following.node)
                self._look_at(following)
                if following.is_late and not following.dead_end:
                    heappush(late, (-_depth(following.node), -self.looked_at, following))
                elif not following.dead_end:
                    stack.append(self._next(following))

    def _search_anew(self, back: int) -> None:
        """Search from some observations before the furthest point, in an order that is drawn.

        What explains the most goes first, likely or not, and of equal states the newest.
        """
        step, draw = self._furthest, Random(back)
        least = _depth(step.node) - back
        while step.before is not None and _depth(step.node) > least:
            step = step.before
        self.gave_up, self._progress = False, self.looked_at
        visited = {step.node}
        branches: list[tuple[int, int, Iterator[_Step]]] = []

        def branch(step: _Step) -> None:
            following = [*self._next(step)]
            draw.shuffle(following)
            heappush(branches, (-_depth(step.node), -self.looked_at, iter(following)))

        branch(step)
        while branches and not self._is_over(self._patience // 2):
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
                self._deepest = []
            self._deepest.append(node)
        self.is_complete = self._is_end(node)

    def _is_over(self, patience: int) -> bool:
        """Return whether a search ends: with the record, or since nothing more is explained."""
        if self.is_complete:
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

    def reached(self, steps: Iterable[_Step]) -> Iterator[Reached]:
        """Yield the state after each step, with what of the record was taken."""
        for step in steps:
            node, before = step.node, step.before
            item: Seen | Decided | None = None
            if before is not None and node.seen > before.node.seen:
                item = self.record.seen[before.node.seen]
            elif before is not None and node.decided > before.node.decided:
                item = self.record.decided[before.node.decided]
            promised = tuple(note for note in step.notes if isinstance(note, Promise))
            yield Reached(node.state, item, promised)

    def _is_end(self, node: _Node) -> bool:
        return node.seen == len(self.record.seen) and node.decided == len(self.record.decided)

    def _next(self, step: _Step) -> Iterator[_Step]:
        node = step.node
        at_once = step_at_once(node.state, self.lookahead, node.seen)
        if at_once is not None:
            yield self._step(step, at_once, node.seen, node.decided)
            return
        for world in internal_steps(node.state, self.lookahead, node.seen, node.decided):
            yield self._step(step, world, node.seen, node.decided)
        for decided in self._order(node):
            world = World(node.state)
            try:
                if decided:
                    take_decision(world, self.record.decided[node.decided].what)
                    yield self._step(step, world, node.seen, node.decided + 1)
                else:
                    self._see(world, node)
                    yield self._step(step, world, node.seen + 1, node.decided)
            except Excluded:
                continue
        for world in early_requests(node.state, self.lookahead, node.seen):
            yield self._step(step, world, node.seen, node.decided)

    def _step(self, before: _Step, world: World, seen: int, decided: int) -> _Step:
        state = before.node.state
        is_late, dead_end = False, ""
        if world.changes:
            changes = needed(world.changes, self.lookahead)
            state = state.changed(changes)
            is_late = world.is_unlikely or is_out_of_reach(
                state, changes, self.lookahead, before.node.seen
            )
            dead_end = never_answered(state, changes, self.lookahead, seen)
        return _Step(_Node(seen, decided, state), tuple(world.notes), before, is_late, dead_end)

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
