"""Plays lists of moves, drawn at random or given, and says which property broke.

A `ChaosMove` is what a chaos run could do. It becomes events, the decisions that controller and
leaders would take (elections, changes of the ISR) come of themselves, and so there is a timeline
that `predict` understands and that can be played on real brokers. A move that is not possible just
then does nothing, so that lists of moves can be cut down freely.

Two properties are checked:

- **agreement**: after every move, each member of the ISR that ZooKeeper holds, running or not, has
  exactly the batches that the leader has below the leader's high watermark; and once everything is
  healed, restarted and settled, all logs are equal as a whole;
- **promises**: once everything is healed, every record that was acknowledged with acks=all is still
  at its offset in the leader's log. With unclean elections this is not promised and not checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import EMPTY
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Event
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.moves import ChaosMove
from kchaos.studies.explore.properties import isr_member_unlike
from kchaos.studies.explore.simulation import SimulatedCluster, SimulationMemory, difference, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The cluster that is explored.

    Attributes:
        generations: Broker id to what it does; these hold the partition, in this order. The
            controller is one more broker.
        is_unclean: Whether unclean elections are on.
        min_insync_replicas: `min.insync.replicas`.
        checks_agreement: Whether agreement is checked; without it only promises are.
    """

    generations: Mapping[int, Generation]
    is_unclean: bool = False
    min_insync_replicas: int = 1
    checks_agreement: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesPlayed:
    """Result of a list of moves.

    Attributes:
        timeline: Every event, decisions included.
        violation: Which property broke and how, or "".
    """

    timeline: tuple[Event, ...]
    violation: str


def play(setup: Setup, moves: Sequence[ChaosMove]) -> MovesPlayed:
    """Return the timeline that the moves give and the first property that broke in it."""
    simulated = SimulatedCluster(_memory_of(tuple(setup.generations.items())), EMPTY)
    deciding = InstantController(
        world=lambda: simulated.world,
        add=simulated.add,
        replicas=tuple(setup.generations),
        is_unclean=setup.is_unclean,
        min_insync_replicas=setup.min_insync_replicas,
    )
    deciding.begin(setup.generations)
    violation = ""
    for index, move in enumerate(moves):
        simulated.act(deciding, move, f"w{index}")
        violation = _disagreement(simulated.world) if setup.checks_agreement else ""
        if violation:
            break
    if not violation:
        simulated.heal(deciding)
        violation = _broken_when_healed(setup, simulated)
    return MovesPlayed(timeline=tuple(simulated.timeline), violation=violation)


@lru_cache(maxsize=4)
def _memory_of(generations: tuple[tuple[int, Generation], ...]) -> SimulationMemory:
    """Return what lists of moves on the same brokers remember together."""
    return SimulationMemory(dict(generations))


def _broken_when_healed(setup: Setup, simulated: SimulatedCluster) -> str:
    world = simulated.world
    state = world.partition_state(PARTITION)
    assert state is not None
    violation = _disagreement(world) if setup.checks_agreement else ""
    if not violation and state.leader == -1 and setup.checks_agreement:
        return f"agreement: healed, but the partition has no leader; ISR {state.isr}"
    if not violation and setup.checks_agreement and difference(world):
        return f"agreement: healed, but {difference(world)}"
    if violation or setup.is_unclean:
        return violation
    if state.leader == -1:
        return "promises: healed, but the partition has no leader"
    gone = lost(world, simulated.promised)
    return f"promises: {gone}" if gone else ""


def _disagreement(world: World) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    leader = world.replica(state.leader, PARTITION)
    broker = world.broker(state.leader)
    if leader is None or broker is None or not broker.is_running:
        return ""
    if leader.leader != state.leader or leader.leader_epoch != state.leader_epoch:
        return ""
    member = isr_member_unlike(world, leader)
    if member is None:
        return ""
    return (
        f"agreement: broker {member} is in the ISR of leader {state.leader} in epoch "
        f"{state.leader_epoch}, but differs below high watermark {leader.high_watermark}"
    )
