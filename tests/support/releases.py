"""Releases that a test is run for: each, of which `make quick` has the first and the last."""

from collections.abc import Sequence
from typing import Any

import pytest


def each_release(releases: Sequence[str]) -> list[Any]:
    """Return parameters of a test; those between the first and the last are slow."""
    ends = (releases[0], releases[-1])
    return [
        pytest.param(release, marks=() if release in ends else pytest.mark.slow)
        for release in releases
    ]
