"""Another controller is awaited than the one that was paused."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.clusters.api import Cluster
from kchaos.faults import MoveController

BEFORE: dict[str, int | None] = {"controller": 100, "controller_epoch": 5}


class Offices:
    """The controller and its epoch at each look."""

    def __init__(self, *offices: tuple[int | None, int]) -> None:
        self._coming = iter(offices)
        self._epoch = 0

    def controller(self) -> int | None:
        controller, self._epoch = next(self._coming)
        return controller

    def controller_epoch(self) -> int:
        return self._epoch


@pytest.mark.parametrize(
    ("paused", "offices", "elected"),
    [
        # It was elected anew just before its pause.
        (100, [(100, 6), (None, 6), (101, 7)], (101, 7)),
        (100, [(100, 5), (101, 6)], (101, 6)),
        # With ZooKeeper nobody is paused, and the old one may win again.
        (None, [(100, 5), (None, 5), (100, 6)], (100, 6)),
    ],
)
def test_it_is_over_when_another_than_the_paused_controller_is_elected(
    paused: int | None, offices: list[Any], elected: tuple[int, int]
):
    cluster = cast(Cluster, SimpleNamespace(metadata=Offices(*offices)))
    effect = MoveController()._await_elected(cluster, BEFORE, paused)
    assert (effect["controller"], effect["controller_epoch"]) == elected
