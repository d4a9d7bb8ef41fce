"""Explores every state of a small system, breadth first, so that counterexamples are shortest."""

from kchaos.checkers.explorer.errors import BoundsError, ExplorerError, ProcessError, RuleError
from kchaos.checkers.explorer.exploring import Exploration, Progress, Violation, explore
from kchaos.checkers.explorer.system import Component, Move, Permutation, Read, System, Value

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
