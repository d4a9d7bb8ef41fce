"""Exceptions of making, playing and showing a scenario.

HarnessError
├── UsageError      what was asked for does not exist or does not fit; exit code 64
├── ScenarioError   a scenario cannot be played as it is written
│   └── NotPossible  not as things stand now; `IfPossible` goes on after it
└── RunUnknown      a verdict was asked for, and nobody can say
"""


class HarnessError(Exception):
    """Root of everything that this package raises on purpose."""


class UsageError(HarnessError):
    """The caller's mistake; the message says what exists instead."""


class ScenarioError(HarnessError):
    """A step refers to something that is not there."""


class NotPossible(ScenarioError):
    """A step has nothing to act on as things stand, or Kafka refused it."""


class RunUnknown(HarnessError):
    """A run has no verdict: it broke off, nothing was acknowledged, or a checker failed."""
