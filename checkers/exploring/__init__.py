"""The model's machine under the explorer: every interleaving, and schedules that can be played."""

from kchaos.checkers.exploring.from_outside import Acted, Acting
from kchaos.checkers.exploring.interleavings import system_of
from kchaos.checkers.exploring.schedules import Schedule, Schedules, find_schedule
from kchaos.checkers.exploring.walking import walk

__all__ = ["Acted", "Acting", "Schedule", "Schedules", "find_schedule", "system_of", "walk"]
