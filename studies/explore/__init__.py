"""Explicit-state model checking: every interleaving of the machine, and schedules to be played."""

from kchaos.checkers.model.explore.acts import ActedBrokers, ActedCluster
from kchaos.checkers.model.explore.schedules import Schedule, Schedules, find_schedule
from kchaos.checkers.model.explore.system import system_of
from kchaos.checkers.model.explore.walk import drawn_move, drawn_moves, walk

__all__ = [
    "ActedBrokers",
    "ActedCluster",
    "Schedule",
    "Schedules",
    "drawn_move",
    "drawn_moves",
    "find_schedule",
    "system_of",
    "walk",
]
