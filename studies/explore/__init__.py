"""Explicit-state model checking: every interleaving of the machine, and schedules to be played."""

from kchaos.studies.explore.acts import ActedBrokers, ActedCluster
from kchaos.studies.explore.schedules import Schedule, Schedules, find_schedule
from kchaos.studies.explore.system import system_of
from kchaos.studies.explore.walk import drawn_moves, walk

__all__ = [
    "ActedBrokers",
    "ActedCluster",
    "Schedule",
    "Schedules",
    "drawn_moves",
    "find_schedule",
    "system_of",
    "walk",
]
