"""Explores every state of a small system, breadth first, so that counterexamples are shortest."""

from kchaos.studies.explorer.errors import BoundsError, ExplorerError, ProcessError, RuleError
from kchaos.studies.explorer.exploring import Exploration, Progress, Violation, explore
from kchaos.studies.explorer.system import Component, Move, Permutation, Read, System, Value

__all__ = [
    "BoundsError",
    "Component",
    "Exploration",
    "ExplorerError",
    "Move",
    "Permutation",
    "ProcessError",
    "Progress",
    "Read",
    "RuleError",
    "System",
    "Value",
    "Violation",
    "explore",
]
