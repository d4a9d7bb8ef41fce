"""Fixtures that tests of the harness leave for each other."""

from typing import Any

import pytest

from tests.support.plays_of_ci import Cell


@pytest.fixture(scope="session")
def played_with_processes() -> dict[Cell, dict[str, Any]]:
    """Lines of results of entries that one test has played, for the one that compares drivers."""
    return {}
