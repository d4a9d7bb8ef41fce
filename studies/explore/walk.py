"""Random lists of moves: walks, of what the model says is possible, and moves that need not be."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.harness.player.weighted import drawn_kind, drawn_move
from kchaos.studies.explore.acts import KINDS, RECORDS, ActedCluster
from kchaos.studies.explore.at_once import PARTITION
from kchaos.studies.explore.moves import LISTED_KINDS, ChaosMove
from kchaos.studies.explore.schedules import Schedule


class MoveWeight(NamedTuple):
    """Weights of a kind of move, relative to those of the others; 0 for never.

    Attributes:
        walked: In a walk, where a move of that kind is possible.
        listed: In a list, where none need be possible. Damage is healed, and there is data to lose.
    """

    walked: float
    listed: float


MOVE_WEIGHTS: Mapping[str, MoveWeight] = {
    "write-one": MoveWeight(3, 3),
    "write-pair": MoveWeight(2, 3),
    "write-all": MoveWeight(3, 3),
    "prefer": MoveWeight(10, 1),
    "reorder": MoveWeight(5, 0),
    "kill": MoveWeight(2, 2),
    "terminate": MoveWeight(1.5, 1),
    "restart": MoveWeight(4, 3),
    "expire": MoveWeight(3, 2),
    "register": MoveWeight(4, 3),
    "cut": MoveWeight(3, 2),
    "heal": MoveWeight(4, 3),
    "hold-answers": MoveWeight(1, 1),
    "hold-next-answers": MoveWeight(2, 1),
    "release": MoveWeight(3, 3),
    "bounce": MoveWeight(2, 0),
    "pause": MoveWeight(0, 1),
    "resume": MoveWeight(0, 3),
    "shrink": MoveWeight(0, 1),
    "cut-controller": MoveWeight(0, 1),
    "heal-controller": MoveWeight(0, 3),
}
"""By kind of move."""
WIDE_WALK_WEIGHTS: Mapping[str, float] = {
    kind: weight.walked for kind, weight in MOVE_WEIGHTS.items() if weight.walked
}
"""Weights of wide walks, which have every kind of act that there is."""
WALK_WEIGHTS: Mapping[str, float] = {
    kind: weight for kind, weight in WIDE_WALK_WEIGHTS.items() if kind != "bounce"
}
"""Weights of the other walks."""
LIST_WEIGHTS: Mapping[str, float] = {kind: MOVE_WEIGHTS[kind].listed for kind in LISTED_KINDS}
"""Weights of lists of moves."""
_WRITES = ("write-one", "write-pair", "write-all")


def walk(
    cluster: ActedCluster,
    random: Random,
    *,
    steps: int,
    weights: Mapping[str, float] = WALK_WEIGHTS,
) -> Schedule:
    """Return a list of acts that are drawn one by one, and what heals every fault then.

    It is shorter than it was to be where no act that has a weight is possible any more; its message
    says so.

    Args:
        cluster: What there is to act upon.
        random: Draws.
        steps: How many acts; those that heal at the end do not count.
        weights: By kind of act.
    """
    state = cluster.begin()
    kinds = sorted(kind for kind in KINDS if weights.get(kind, 0) > 0)
    acts: list[ChaosMove] = []
    states = [state]
    while len(acts) < steps:
        operation = f"record-{len(acts)}"
        possible = {kind: possible_acts(cluster, state, operation, (kind,)) for kind in kinds}
        eager = _WRITES if _is_nothing_written(states) else ()
        drawn = drawn_move(random, possible, weights, eager=eager)
        if drawn is None:
            break
        act, state = drawn
        acts.append(act)
        states.append(state)
    healing = cluster.healed(state)
    ended = f", for nothing was possible after {len(acts)}" if len(acts) < steps else ""
    return Schedule(
        acts=(*acts, *(act for act, _ in healing)),
        states=(*states, *(after for _, after in healing)),
        healing=len(healing),
        message=f"{len(acts)} acts{ended}",
    )


def conflicts(schedule: Schedule) -> int:
    """Return at how many offsets replicas had different records, at any time.

    Only such replicas can come to differ: a walk without any shows no divergence on any release.
    """
    payloads: dict[int, set[str]] = {}
    for state in schedule.states:
        world = World(state)
        for broker in world.assignment(PARTITION):
            for batch in world.known_replica(broker, PARTITION).log.batches:
                payloads.setdefault(batch.base_offset, set()).add(batch.payload)
    return sum(len(different) > 1 for different in payloads.values())


def drawn_moves(
    random: Random,
    brokers: Sequence[int],
    *,
    steps: int,
    weights: Mapping[str, float] = LIST_WEIGHTS,
) -> Iterator[ChaosMove]:
    """Yield moves of any two brokers, whatever is possible: a list of them can be cut down freely.

    Args:
        random: Draws.
        brokers: Those that hold the partition.
        steps: How many moves.
        weights: By kind of move.
    """
    for _ in range(steps):
        broker = random.choice(brokers)
        other = random.choice([each for each in brokers if each != broker])
        yield ChaosMove(drawn_kind(random, tuple(weights), weights), broker, other)


def possible_acts(
    cluster: ActedCluster, state: State, operation: str, kinds: tuple[str, ...] = KINDS
) -> Iterator[tuple[ChaosMove, State]]:
    """Yield every act of these kinds that is possible, and the state after it, in a fixed order."""
    for act in cluster.acts(kinds):
        after = cluster.after(state, act, operation)
        if after is not None:
            yield act, after


def _is_nothing_written(states: list[State]) -> bool:
    """Return whether nobody has written since the present leader epoch began."""
    now = states[-1]
    epoch = now(("state", PARTITION)).leader_epoch
    same = [state for state in states if state(("state", PARTITION)).leader_epoch == epoch]
    return bool(same[0](RECORDS) == now(RECORDS))
