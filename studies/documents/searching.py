"""Bounds of a comparison, and what exhaustive and random schedules say of one alternative."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from kchaos.checkers.model.releases.generation import Generation
from kchaos.studies.documents.comparison import Cell, Result
from kchaos.studies.explore import drawn_moves, system_of
from kchaos.studies.explore.actions import Elect
from kchaos.studies.explore.bounds import Machine
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explorer import explore

Say = Callable[[str], None]
MOVES = 30
"""Moves of a random schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBounds:
    """Reach of a comparison beyond the document's own scenarios.

    Attributes:
        schedules: How many random schedules each alternative is put through.
        seed: From which they are drawn; the same for every alternative.
        most_states: How many states one exploration keeps at most; 0 explores nothing.
    """

    schedules: int = 100
    seed: int = 1
    most_states: int = 200_000


def explored(
    machine: Machine, wanted: str, bounds: SearchBounds, preferred: int | None = None
) -> Cell:
    """Return whether a property holds in every state, with the shortest way to where it breaks.

    Args:
        machine: What is explored.
        wanted: Name of a property of `studies.explore.properties`.
        bounds: Where it ends.
        preferred: The one replica for which a preferred election may happen; None for any, which
            stands for a preferred replica that is reassigned in between.
    """
    system = system_of(machine, (wanted,), is_symmetric=preferred is None)
    if preferred is not None:
        moves = [move for move in system.moves if _may_happen(move.label, preferred)]
        system = replace(system, moves=moves)
    outcome = explore(system, most_states=bounds.most_states)
    numbers = {"states": outcome.distinct, "depth": outcome.depth}
    if outcome.violation is not None:
        trace = tuple(str(step) for step in outcome.violation.trace)
        return Cell(
            result=Result.WRONG,
            text=f"breaks after {len(trace)}",
            numbers=numbers | {"steps": len(trace)},
            detail=(*trace, f"so {outcome.violation.message}"),
        )
    if outcome.is_complete:
        return Cell(result=Result.RIGHT, text="holds", numbers=numbers)
    return Cell(
        result=Result.UNKNOWN,
        text="unknown",
        numbers=numbers,
        detail=(f"{outcome.limit} ended it after {outcome.distinct:,} states",),
    )


def _may_happen(action: object, preferred: int) -> bool:
    return not isinstance(action, Elect) or action.leader == preferred


def drawn(generations: Mapping[int, Generation], bounds: SearchBounds, *, is_unclean: bool) -> Cell:
    """Return how many random schedules end with logs that differ, or with a promise broken."""
    setup = Setup(generations=generations, is_unclean=is_unclean)
    broken: list[str] = []
    for number in range(bounds.seed, bounds.seed + bounds.schedules):
        moves = tuple(drawn_moves(Random(number), tuple(generations), steps=MOVES))
        violation = play(setup, moves).violation
        if violation:
            broken.append(f"seed {number}: {violation}")
    return Cell(
        result=Result.WRONG if broken else Result.RIGHT,
        text=f"{len(broken)} of {bounds.schedules}",
        numbers={"schedules": bounds.schedules, "broken": len(broken)},
        detail=tuple(broken[:3]),
    )
