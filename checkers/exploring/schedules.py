"""Schedules: what can be done to a cluster from outside, each act followed by all that it sets off.

Interleavings as fine as the machine's cannot be forced upon real brokers. A schedule can: links cut
and healed, sessions that end and come back, preferred elections, produces. After each act the
cluster is left alone until nothing changes, as in a scenario, so that a schedule becomes one. It is
a counterexample only if everything stays broken once every fault is healed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kchaos.checkers.explorer import Exploration, Move, Progress, Read, System, explore
from kchaos.checkers.exploring.playing import Played, Playing, Promised, difference, lost
from kchaos.checkers.model.controlling import PARTITION, Controlling
from kchaos.checkers.model.events import PartitionState, TopicCreated
from kchaos.checkers.model.generation import Generation
from kchaos.checkers.model.moves import Move as Act
from kchaos.checkers.model.relevance import relevant_replica
from kchaos.checkers.model.requests import Controller
from kchaos.checkers.model.state import EMPTY, Broker, Checkpoint, Component, State
from kchaos.checkers.model.world import World

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
        states=(*way, *(state for _, state in healing)),
        healing=len(healing),
        message=found.violation.message,
    )
    return schedule, found


class _Playing:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._playing = Playing(schedules.generations)
        self._replicas = tuple(sorted(schedules.generations))
        first, second, *rest = self._replicas
        self._order = (second, first, *rest)
        self._broken: dict[State, str] = {}
        self._healed_by: dict[tuple[State, Act], State] = {}

    def begin(self) -> State:
        """Return the state in which the first broker leads, and the second is preferred."""
        played = Played(self._playing, EMPTY)
        _controlling(played, self._replicas).begin(self._schedules.generations)
        played.add(TopicCreated(topic=PARTITION.topic, assignment=(self._order,)))
        known = played.world.partition_state(PARTITION)
        assert known is not None
        played.add(replace(known, leader_epoch=known.leader_epoch + 1))
        extra = {_RECORDS: 0, _PROMISED: frozenset()}
        return self._state_after(EMPTY, {**played.changes, **extra})

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
        found = self._healed_by.pop((state, move), None)
        if found is None:
            found = self._acted(state, move, f"record-{number}", number + is_write)
        if found is None:
            return None
        now = found(("state", PARTITION))
        return found if now.leader_epoch <= self._schedules.leader_epoch else None

    def broken_when_healed(self, state: State) -> str:
        """Return what is wrong after every fault was healed.

        What heals one fault leads to a state in which there is less to heal, and which most often
        was looked at before.
        """
        way = []
        while state not in self._broken:
            way.append(state)
            act = _healing(World(state))
            if act is None:
                self._broken[state] = _broken(World(state), state(_PROMISED))
                break
            after = self._heal(state, act)
            # It is one of the acts that are tried in this state when its turn comes.
            self._healed_by[state, act] = after
            state = after
        message = self._broken[state]
        self._broken.update(dict.fromkeys(way, message))
        return message

    def healed(self, state: State) -> list[tuple[Act, State]]:
        """Return the acts that heal every fault, sessions first, and the state after each."""
        found = []
        while (act := _healing(World(state))) is not None:
            state = self._heal(state, act)
            found.append((act, state))
        return found

    def _heal(self, state: State, act: Act) -> State:
        after = self._acted(state, act, "", state(_RECORDS))
        assert after is not None, f"{act} heals what acts"
        return after

    def _acted(self, state: State, move: Act, operation: str, records: int) -> State | None:
        played = Played(self._playing, state)
        one = move._replace(broker=self._replicas[0]) if move.broker == -1 else move
        played.act(_controlling(played, self._order), one, operation)
        # A scenario could not wait for an acknowledgement that does not come.
        if not played.timeline or (move.kind == "write-all" and not played.is_acknowledged):
            return None
        extra = {_RECORDS: records, _PROMISED: state(_PROMISED) | played.promised}
        return self._state_after(state, {**played.changes, **extra})

    def _state_after(self, state: State, changes: Mapping[Component, Any]) -> State:
        value = self._playing.footprints.value
        return state.changed(
            {
                component: value(_canonical(self._schedules.generations, component, changed))
                for component, changed in changes.items()
            }
        )


def _controlling(played: Played, replicas: tuple[int, ...]) -> Controlling:
    return Controlling(world=lambda: played.world, add=played.add, replicas=replicas, czxid=_CZXID)


def _healing(world: World) -> Act | None:
    """Return what heals one fault, sessions first; None where nothing is left to heal."""
    registered = world.registered()
    for broker in sorted(world.assignment(PARTITION)):
        if broker not in registered and world.running(broker) is not None:
            return Act("register", broker)
    for cut in world.cuts():
        return Act("heal", cut.source, cut.target)
    return None


def _broken(world: World, promised: Promised) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    brokers = [world.broker(broker_id) for broker_id in world.assignment(PARTITION)]
    if state.leader == -1 or any(broker is None or broker.has_exited for broker in brokers):
        # That nobody leads, or that a process has ended itself, is another matter.
        return ""
    found = difference(world) or lost(world, promised)
    return f"{found} after all is healed" if found else ""


def _canonical(generations: Mapping[int, Generation], component: Component, value: Any) -> Any:
    """Return the value without what says only how often something was done before."""
    match component[0], value:
        case _, None:
            return None
        case "answer", _:
            return None
        case "checkpoint", _:
            return Checkpoint()
        case "cuts", _:
            return tuple(sorted(value, key=lambda cut: (cut.source, cut.target)))
        case "replica", _:
            generation = generations.get(component[1])
            return value if generation is None else relevant_replica(generation, value)
        case "registered", _:
            return tuple((broker, _CZXID) for broker, _ in value)
        case _, Broker():
            # After each act everybody has heard of every registration.
            return replace(value, epoch=min(value.epoch, _CZXID))
        case _, Controller():
            return replace(value, seen=tuple((broker, _CZXID) for broker, _ in value.seen))
        case _, PartitionState():
            return replace(value, version=0)
    return value
