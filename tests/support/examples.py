"""The number of examples that a test draws: all with `make examples`, and fewer in CI."""

import os


def examples(number: int) -> int:
    """Return how many of so many examples are drawn: a third unless all are asked for."""
    return number if os.environ.get("KCHAOS_ALL_EXAMPLES") else number // 3
