"""Schedules: what can be done to a cluster from outside, each act followed by all that it sets off.

Interleavings as fine as the machine's cannot be forced upon real brokers. A schedule can: links cut
and healed, sessions that end and come back, preferred elections, produces. After each act the
cluster is left alone until nothing changes, as in a scenario, so that a schedule becomes one. It is
a counterexample only if everything stays broken once every fault is healed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkers.explorer import Exploration, Move, Progress, Read, System, explore
from checkers.model.controlling import PARTITION, Controlling
from checkers.model.events import Event, PartitionState, TopicCreated
from checkers.model.generation import Generation
from checkers.model.moves import Move as Act
from checkers.model.moves import events_of
from checkers.model.predicting import left_alone_after
from checkers.model.prediction import PredictedProduce, Promise
from checkers.model.relevance import relevant_replica
from checkers.model.requests import Controller
from checkers.model.state import EMPTY, Broker, Checkpoint, State
from checkers.model.world import World

_RECORDS = ("records",)
_PROMISED = ("promised",)
_CZXID = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """What schedules are looked at.

    The brokers hold one partition; one more broker is the controller. The first broker leads in
    epoch 1, and the second is the preferred leader.

    Attributes:
        generations: Broker id to what it does.
        records: How many records are written at most.
        leader_epoch: The highest leader epoch.
    """

    generations: Mapping[int, Generation]
    records: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A shortest list of acts after which not even healing everything makes the replicas equal.

    Attributes:
        acts: What is done, and then what heals every fault that still acts.
        states: The state before the first act, and the one after each.
        healing: How many of the acts heal at the end.
        message: What is wrong once everything is healed.
    """

    acts: tuple[Act, ...]
    states: tuple[State, ...]
    healing: int
    message: str


def find_schedule(
    schedules: Schedules,
    *,
    most_states: int,
    most_memory_mib: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[Schedule | None, Exploration]:
    """Return a shortest schedule that breaks something, if there is one, and how it was found.

    Args:
        schedules: What is looked at.
        most_states: How many states are looked at at most.
        most_memory_mib: Searching ends when the process holds more than this many MiB.
        progress: Is called while it searches.
    """
    playing = _Playing(schedules)
    states = [playing.begin()]
    numbers = {states[0]: 0}

    def body(move: Act) -> Callable[[Read], Mapping[Any, Any] | None]:
        def after(read: Read) -> Mapping[Any, Any] | None:
            state = playing.after(states[read("state")], move)
            if state is None:
                return None
            if state not in numbers:
                numbers[state] = len(states)
                states.append(state)
            return {"state": numbers[state]}

        return after

    # One component, for all that an act sets off reads nearly everything.
    system = System(
        initial={"state": 0},
        moves=[Move(move, body(move)) for move in playing.acts()],
        invariants={"healed": lambda read: playing.broken_when_healed(states[read("state")])},
    )
    found = explore(
        system, most_states=most_states, most_memory_mib=most_memory_mib, progress=progress
    )
    if found.violation is None:
        return None, found
    way = [states[one["state"]] for one in found.violation.states]
    acts = [move for move in found.violation.trace if isinstance(move, Act)]
    healing = playing.healed(way[-1])
    schedule = Schedule(
        acts=(*acts, *(act for act, _ in healing)),
        states=(*way, *(played.state for _, played in healing)),
        healing=len(healing),
        message=found.violation.message,
    )
    return schedule, found


class _Playing:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._replicas = tuple(sorted(schedules.generations))
        first, second, *rest = self._replicas
        self._order = (second, first, *rest)

    def begin(self) -> State:
        """Return the state in which the first broker leads, and the second is preferred."""
        playing = _Played(EMPTY, self._schedules.generations)
        playing.controlling(self._replicas).begin(self._schedules.generations)
        playing.add(TopicCreated(topic=PARTITION.topic, assignment=(self._order,)))
        known = playing.world().partition_state(PARTITION)
        assert known is not None
        playing.add(replace(known, leader_epoch=known.leader_epoch + 1))
        extra = {_RECORDS: 0, _PROMISED: frozenset()}
        return _canonical(playing.state.changed(extra), self._schedules.generations)

    def acts(self) -> list[Act]:
        """Return every act that there may be."""
        found = [Act("prefer", -1)]
        for broker in self._replicas:
            kinds = ("write-one", "write-all", "expire", "register")
            found += [Act(kind, broker) for kind in kinds]
        for source in self._replicas:
            for target in self._replicas:
                if source < target:
                    found += [Act(kind, source, target) for kind in ("cut", "heal")]
        return found

    def after(self, state: State, move: Act) -> State | None:
        """Return the state after an act and what it sets off, None where it cannot be done."""
        number: int = state(_RECORDS)
        is_write = move.kind.startswith("write")
        if is_write and number >= self._schedules.records:
            return None
        playing = self._played(state, move, f"record-{number}")
        if not playing.has_changed:
            return None
        if move.kind == "write-all" and not playing.is_acknowledged:
            # A scenario could not wait for it.
            return None
        now = playing.world().partition_state(PARTITION)
        assert now is not None
        if now.leader_epoch > self._schedules.leader_epoch:
            return None
        return _canonical(
            playing.state.changed(
                {
                    _RECORDS: number + is_write,
                    _PROMISED: state(_PROMISED) | playing.promised,
                }
            ),
            self._schedules.generations,
        )

    def broken_when_healed(self, state: State) -> str:
        """Return what is wrong after every fault was healed."""
        promised = state(_PROMISED)
        for _, played in self.healed(state):
            state, promised = played.state, promised | played.promised
        return _broken(World(state), promised)

    def healed(self, state: State) -> list[tuple[Act, "_Played"]]:
        """Return the acts that heal every fault, sessions first, and what comes of each."""
        world = World(state)
        expired = sorted(set(world.assignment(PARTITION)) - set(world.registered()))
        acts = [Act("register", broker) for broker in expired]
        acts += [Act("heal", cut.source, cut.target) for cut in world.cuts()]
        found: list[tuple[Act, _Played]] = []
        for act in acts:
            found.append((act, self._played(state, act, "")))
            state = found[-1][1].state
        return found

    def _played(self, state: State, move: Act, operation: str) -> "_Played":
        playing = _Played(state, self._schedules.generations)
        controlling = playing.controlling(self._order)
        if move.broker == -1:
            move = move._replace(broker=self._replicas[0])
        for event in events_of(playing.world(), controlling, move, operation):
            controlling.follow(event)
        return playing


class _Played:
    """One act while it is played: the state so far, and what has happened."""

    def __init__(self, state: State, generations: Mapping[int, Generation]) -> None:
        self.state = state
        self.has_changed = False
        self.is_acknowledged = False
        self.promised: frozenset[tuple[int, str]] = frozenset()
        self._generations = generations

    def world(self) -> World:
        return World(self.state)

    def controlling(self, replicas: tuple[int, ...]) -> Controlling:
        return Controlling(world=self.world, add=self.add, replicas=replicas, czxid=_CZXID)

    def add(self, event: Event) -> None:
        self.has_changed = True
        self.state, notes = left_alone_after(self.state, event, self._generations)
        for note in notes:
            if isinstance(note, PredictedProduce) and note.acknowledged:
                self.is_acknowledged = True
            if isinstance(note, Promise):
                self.promised |= {(note.base_offset, note.payload)}


def _broken(world: World, promised: frozenset[tuple[int, str]]) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    brokers = [world.broker(broker_id) for broker_id in world.assignment(PARTITION)]
    if state.leader == -1 or any(broker is None or broker.has_exited for broker in brokers):
        # That nobody leads, or that a process has ended itself, is another matter.
        return ""
    log = world.known_replica(state.leader, PARTITION).log
    for broker_id in world.assignment(PARTITION):
        own = world.known_replica(broker_id, PARTITION).log
        if (own.batches, own.log_end_offset) != (log.batches, log.log_end_offset):
            return f"broker {broker_id} differs from leader {state.leader} after all is healed"
    present = {(batch.base_offset, batch.payload) for batch in log.batches}
    lost = sorted(offset for offset, payload in promised if (offset, payload) not in present)
    return f"what was acknowledged at offset {lost[0]} is gone after all is healed" if lost else ""


def _canonical(state: State, generations: Mapping[int, Generation]) -> State:
    """Return the state without what says only how often something was done before."""
    changes: dict[Any, Any] = {}
    for component, value in state.components().items():
        match component[0], value:
            case "answer", _:
                changes[component] = None
            case "checkpoint", _:
                changes[component] = Checkpoint()
            case "cuts", _:
                changes[component] = tuple(sorted(value, key=lambda cut: (cut.source, cut.target)))
            case "replica", _:
                changes[component] = relevant_replica(generations[component[1]], value)
            case "registered", _:
                changes[component] = tuple((broker, _CZXID) for broker, _ in value)
            case _, Broker():
                # After each act everybody has heard of every registration.
                changes[component] = replace(value, epoch=min(value.epoch, _CZXID))
            case _, Controller():
                seen = tuple((broker, _CZXID) for broker, _ in value.seen)
                changes[component] = replace(value, seen=seen)
            case _, PartitionState():
                changes[component] = replace(value, version=0)
    return state.changed(changes)
