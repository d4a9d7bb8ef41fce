"""Exceptions of exploring a state space.

ExplorerError
├── BoundsError     a bound that leaves nothing to explore
├── RuleError       a move, an invariant or a symmetry that does not fit the system's components
└── ProcessError    a process that explores its part ended before it was told to
"""

from kchaos.checkers.errors import CheckError


class ExplorerError(CheckError):
    """Root of everything that the explorer raises on purpose."""


class BoundsError(ExplorerError, ValueError):
    """A bound is zero or less; the message names it and the value that was given."""


class RuleError(ExplorerError):
    """A move, an invariant or a symmetry is not well formed; the message names it and says how."""


class ProcessError(ExplorerError):
    """A process that explores its part has ended or failed; the message says what it said last."""
