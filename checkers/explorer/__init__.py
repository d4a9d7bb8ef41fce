"""Explores every state of a small system, breadth first, so that counterexamples are shortest."""

from checkers.explorer.errors import BoundsError, ExplorerError, ProcessError, RuleError
from checkers.explorer.exploring import Exploration, Progress, Violation, explore
from checkers.explorer.system import Component, Move, Permutation, Read, System, Value

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
