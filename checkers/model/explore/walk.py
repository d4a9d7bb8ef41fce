"""Random lists of acts: walks, of what the model says is possible, and moves that need not be."""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

from kchaos.checkers.model.controller.at_once import PARTITION
from kchaos.checkers.model.explore.acts import KINDS, RECORDS, ActedCluster
from kchaos.checkers.model.explore.moves import KINDS as MOVES
from kchaos.checkers.model.explore.moves import ChaosMove
from kchaos.checkers.model.explore.schedules import Schedule
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World

WEIGHTS: Mapping[str, float] = {
    "write-one": 3,
    "write-pair": 2,
    "write-all": 3,
    "prefer": 10,
    "reorder": 5,
    "kill": 2,
    "terminate": 1.5,
    "restart": 4,
    "expire": 3,
    "register": 4,
    "cut": 3,
    "heal": 4,
    "hold-answers": 1,
    "hold-next-answers": 2,
    "release": 3,
}
"""Weight of each kind of act where it is possible, relative to the others."""
WIDE_WEIGHTS: Mapping[str, float] = {**WEIGHTS, "bounce": 2}
"""The same with every kind of act that there is."""
MOVE_WEIGHTS: Mapping[str, float] = {
    **dict.fromkeys(MOVES, 1),
    **dict.fromkeys(("write-one", "write-all", "write-pair"), 3),
    **dict.fromkeys(("restart", "register", "heal", "heal-controller", "release", "resume"), 3),
    **dict.fromkeys(("cut", "kill", "expire"), 2),
}
"""The same for moves that need not be possible: damage is healed, and there is data to lose."""
_EAGER = 2.5
"""Factor of eager kinds: writes where records of a leader epoch are still missing, since only
replicas with such records can come to differ."""


def walk(
    cluster: ActedCluster, random: Random, *, steps: int, weights: Mapping[str, float] = WEIGHTS
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
    drawn = tuple(kind for kind in KINDS if weights.get(kind, 0) > 0)
    acts: list[ChaosMove] = []
    states = [state]
    while len(acts) < steps:
        # Of a kind that is not chosen no second act is looked for: each takes a simulation.
        possible = {
            kind: possible_acts(cluster, state, f"record-{len(acts)}", (kind,)) for kind in drawn
        }
        first = {kind: act for kind, rest in possible.items() for act in islice(rest, 1)}
        kinds = sorted(first)
        if not kinds:
            break
        writes = [kind for kind in kinds if kind.startswith("write")]
        eager = writes if _is_nothing_written(states) else []
        kind = drawn_kind(random, kinds, weights, eager=eager)
        act, state = random.choice([first[kind], *possible[kind]])
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
    weights: Mapping[str, float] = MOVE_WEIGHTS,
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


def drawn_kind(
    random: Random,
    kinds: Sequence[str],
    weights: Mapping[str, float],
    *,
    eager: Container[str] = (),
) -> str:
    """Return one of the kinds, each as likely as its weight says, an eager one more so."""
    chances = [weights[kind] * (_EAGER if kind in eager else 1) for kind in kinds]
    (kind,) = random.choices(kinds, chances)
    return kind


def possible_acts(
    cluster: ActedCluster, state: State, operation: str, kinds: tuple[str, ...] = KINDS
) -> Iterator[tuple[ChaosMove, State]]:
    """Yield every act of these kinds that is possible, and the state after it, in a fixed order."""
    for act in cluster.acts(kinds):
        after = cluster.after(state, act, operation)
        if after is not None:
            yield act, after


def _is_nothing_written(states: list[State]) -> bool:
    """Tell whether nobody has written since the present leader epoch began."""
    now = states[-1]
    epoch = now(("state", PARTITION)).leader_epoch
    same = [state for state in states if state(("state", PARTITION)).leader_epoch == epoch]
    return bool(same[0](RECORDS) == now(RECORDS))
