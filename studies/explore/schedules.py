"""Schedules: what can be done to a cluster from outside, each act followed by all that it sets off.

What acts there are, and what each of them leads to, is in `acts`;
`studies.schedule_scenarios` makes a scenario of a schedule. It is a counterexample only if
everything stays broken once every fault is healed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.studies.explore.acts import (
    EXPLORED_KINDS,
    PROMISED,
    RECORDS,
    ActedBrokers,
    ActedCluster,
    uninformed,
)
from kchaos.studies.explore.at_once import PARTITION
from kchaos.studies.explore.canonical import form_of_schedules
from kchaos.studies.explore.moves import ChaosMove, healing
from kchaos.studies.explore.simulation import Promised, difference, lost
from kchaos.studies.explorer import Exploration, Move, Progress, Read, System, explore


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """The search space of schedules: brokers and bounds.

    Attributes:
        generations: As in `ActedBrokers`.
        records: How many records are written at most.
        leader_epoch: The highest leader epoch.
    """

    generations: Mapping[int, Generation]
    records: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A list of acts, and what the model says of each.

    Attributes:
        acts: What is done, and then what heals every fault that still acts.
        states: The state before the first act, and the one after each.
        healing: How many of the acts heal at the end.
        message: What is wrong once everything is healed; or, of a walk, how it ended.
    """

    acts: tuple[ChaosMove, ...]
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
    search = _ScheduleSearch(schedules)
    states = [search.begin()]
    numbers = {states[0]: 0}

    def body(move: ChaosMove) -> Callable[[Read], Mapping[Any, Any] | None]:
        def after(read: Read) -> Mapping[Any, Any] | None:
            state = search.after(states[read("state")], move)
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
        moves=[Move(move, body(move)) for move in search.acts()],
        invariants={"healed": lambda read: search.broken_when_healed(states[read("state")])},
    )
    exploration = explore(
        system, most_states=most_states, most_memory_mib=most_memory_mib, progress=progress
    )
    if exploration.violation is None:
        return None, exploration
    way = [states[visited["state"]] for visited in exploration.violation.states]
    acts = [move for move in exploration.violation.trace if isinstance(move, ChaosMove)]
    healing = search.healed(way[-1])
    schedule = Schedule(
        acts=(*acts, *(act for act, _ in healing)),
        states=(*way, *(state for _, state in healing)),
        healing=len(healing),
        message=exploration.violation.message,
    )
    return schedule, exploration


class _ScheduleSearch:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._cluster = ActedCluster(
            ActedBrokers(generations=schedules.generations),
            form_of_schedules(schedules.generations),
        )
        self._broken: dict[State, str] = {}
        self._healed_by: dict[tuple[State, ChaosMove], State] = {}

    def begin(self) -> State:
        """Return the state in which the first broker leads, and the second is preferred."""
        return self._cluster.begin()

    def acts(self) -> Iterator[ChaosMove]:
        """Yield every act that there may be."""
        return self._cluster.acts(EXPLORED_KINDS)

    def after(self, state: State, move: ChaosMove) -> State | None:
        """Return the state after an act and what it sets off, None where it cannot be done."""
        number: int = state(RECORDS)
        if move.kind.startswith("write") and number >= self._schedules.records:
            return None
        after = self._healed_by.pop((state, move), None)
        if after is None:
            after = self._cluster.after(state, move, f"record-{number}")
        if after is None:
            return None
        now = after(("state", PARTITION))
        return after if now.leader_epoch <= self._schedules.leader_epoch else None

    def broken_when_healed(self, state: State) -> str:
        """Return what is wrong after every fault was healed.

        What heals one fault leads to a state in which there is less to heal, and which most often
        was looked at before.
        """
        way = []
        while state not in self._broken:
            way.append(state)
            act = next(healing(World(state)), None)
            if act is None:
                self._broken[state] = _broken(World(state), state(PROMISED))
                break
            after = self._cluster.after(state, act)
            assert after is not None, f"{act} heals what acts"
            # It is one of the acts that are tried in this state when its turn comes.
            self._healed_by[state, act] = after
            state = after
        message = self._broken[state]
        self._broken.update(dict.fromkeys(way, message))
        return message

    def healed(self, state: State) -> list[tuple[ChaosMove, State]]:
        """Return the acts that heal every fault, sessions first, and the state after each."""
        return self._cluster.healed(state)


def wrong_at_end(schedule: Schedule) -> str:
    """Return what is wrong in the last state of a schedule, after all is healed, or ""."""
    last = schedule.states[-1]
    forgotten = sorted(uninformed(World(last)))
    return _broken(World(last), last(PROMISED)) or (
        f"broker {forgotten[0]} got no request" if forgotten else ""
    )


def _broken(world: World, promised: Promised) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    brokers = [world.broker(broker_id) for broker_id in world.assignment(PARTITION)]
    if state.leader == -1 or any(broker is None or broker.has_exited for broker in brokers):
        # That nobody leads, or that a process has ended itself, is another matter.
        return ""
    breach = difference(world) or lost(world, promised)
    return f"{breach} after all is healed" if breach else ""
