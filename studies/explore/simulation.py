"""Acts on a modelled cluster: each with all that is decided because of it, until all is quiet.

One partition; its controller is one more broker, which never stops. Disks lose nothing, and
`replica.lag.time.max.ms` runs out only by the move "shrink".
"""

from collections.abc import Mapping
from typing import Any

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.footprints import Footprints
from kchaos.checkers.model.settle.rounds import settle
from kchaos.checkers.model.state.state import Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Event
from kchaos.checkers.model.values.log import missing
from kchaos.checkers.model.values.prediction import PredictedProduce, Promise
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.moves import ChaosMove, events_of, healing
from kchaos.studies.explore.properties import unlike_leader

Promised = frozenset[tuple[int, str]]
"""Records that were acknowledged with acks=all: (offset, payload)."""


class SimulationMemory:
    """Steps that are remembered from one act to the next, for the same brokers.

    Args:
        generations: Broker id to what it does.
    """

    def __init__(self, generations: Mapping[int, Generation]) -> None:
        self.generations = generations
        self.footprints = Footprints()

    def let_happen(self, world: World, event: Event) -> bool:
        """Let an event take effect, as a step that is remembered."""
        happen(world, event, self.generations)
        return True


class SimulatedCluster:
    """A modelled cluster while it is acted upon.

    Attributes:
        world: As it is now.
        timeline: Every event, decisions included.
        is_acknowledged: Whether a client's produce was acknowledged.
        promised: What was acknowledged with acks=all.
    """

    def __init__(self, memory: SimulationMemory, state: State) -> None:
        self.world = World(state)
        self.timeline: list[Event] = []
        self.is_acknowledged = False
        self.promised: Promised = frozenset()
        self._memory = memory

    @property
    def changes(self) -> dict[Component, Any]:
        """Return what is otherwise than in the state before."""
        return self.world.changes

    def add(self, event: Event) -> None:
        """Let an event happen, and everything that brokers do because of it."""
        self.timeline.append(event)
        self._memory.footprints.perform(self.world, self._memory.let_happen, event)
        self.settle()

    def settle(self) -> None:
        """Let brokers do all that follows, and note what clients are answered."""
        world = self.world
        settle(world, self._memory.footprints.perform)
        for note in world.notes:
            if isinstance(note, PredictedProduce) and note.acknowledged:
                self.is_acknowledged = True
            if isinstance(note, Promise):
                self.promised |= {(note.base_offset, note.payload)}
        world.notes.clear()

    def act(self, deciding: InstantController, move: ChaosMove, operation: str = "") -> None:
        """Do something to the cluster, and let be decided what follows from it."""
        for event in events_of(self.world, deciding, move, operation):
            deciding.follow(event)

    def heal(self, deciding: InstantController) -> None:
        """Heal every fault, each once: a process that ends itself again stays as it is."""
        done: list[ChaosMove] = []
        while left := [move for move in healing(self.world) if move not in done]:
            self.act(deciding, left[0])
            done.append(left[0])


def difference(world: World) -> str:
    """Return which replica differs from the leader's, or ""."""
    state = world.partition_state(PARTITION)
    assert state is not None
    for broker_id, _ in unlike_leader(world, world.assignment(PARTITION)):
        return f"broker {broker_id} differs from leader {state.leader}"
    return ""


def lost(world: World, promised: Promised) -> str:
    """Return what the leader does not have and was acknowledged, or ""."""
    state = world.partition_state(PARTITION)
    assert state is not None
    gone = missing(world.known_replica(state.leader, PARTITION).log, promised)
    return f"what was acknowledged at offset {min(gone)[0]} is gone" if gone else ""
