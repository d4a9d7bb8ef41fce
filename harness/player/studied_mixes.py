"""The mixes of walks, which the package `kchaos.studies` draws: it is found by its entry points."""

from collections.abc import Callable
from importlib.metadata import entry_points

from kchaos.harness.errors import UsageError
from kchaos.harness.run.scenario import Scenario

GROUP = "kchaos.mixes"
"""Entry points: by the name of a mix, what draws it, with the arguments of `walks.draw_walk`."""
WALKS = "walks"
WIDE_WALKS = "wide-walks"
"""The mix of walks with more replicas, older message formats, and bounces that nobody sees."""
WALKED = (WALKS, WIDE_WALKS)


def drawer_of(mix: str) -> Callable[..., Scenario]:
    """Return what draws a mix of walks.

    Raises:
        UsageError: No installed package draws it.
    """
    for point in entry_points(group=GROUP):
        if point.name == mix:
            drawer: Callable[..., Scenario] = point.load()
            return drawer
    raise UsageError(
        f"the mix {mix} comes from the package kchaos.studies, which is not installed: install "
        "kchaos whole (pip install kchaos), or take another mix, such as mixed"
    )
