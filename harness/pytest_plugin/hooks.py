"""Hooks that pytest loads in every run of an environment that has kchaos installed.

The rest of kchaos is imported when a test uses it.
"""

import pytest

from kchaos.harness.pytest_plugin import fixtures, reporting
from kchaos.harness.pytest_plugin.options import add_options, configure


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add kchaos's options to pytest, each with a twin in its ini file."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register markers, fixtures and reports."""
    configure(config)
    config.pluginmanager.register(fixtures, "kchaos-fixtures")
    config.pluginmanager.register(reporting, "kchaos-reporting")
