"""A Heal of a fault that could not be injected, and the order in which all are healed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers.observations import Healed, StepNotPossible
from kchaos.clusters.errors import MetadataRefused, MetadataUnavailable
from kchaos.harness.play.fault_stack import FaultStack


class Impossible:
    lasting = True

    def __init__(self, error: Exception) -> None:
        self.error = error

    @contextmanager
    def inject(self, _cluster: Any, _journal: Any) -> Iterator[None]:
        raise self.error
        yield


@pytest.fixture
def play() -> k.Play:
    seen: list[Any] = []
    journal = cast(Any, SimpleNamespace(observed=seen.append))
    faults = FaultStack(cluster=cast(Any, None), journal=journal)
    cluster = SimpleNamespace(spec=SimpleNamespace(tiered=False))
    return cast(
        k.Play, SimpleNamespace(faults=faults, observed=seen.append, seen=seen, cluster=cluster)
    )


@pytest.mark.parametrize(
    "error", [k.NotAvailable("is down"), MetadataRefused("goes on"), MetadataUnavailable("silent")]
)
def test_it_is_passed_over_and_noted_whatever_the_refusal(play: Any, error: Exception):
    k.IfPossible(do=k.Inject(name="h", fault=cast(Any, Impossible(error)))).perform(play)
    k.Heal(name="h").perform(play)

    assert [(type(each), each.name) for each in play.seen] == [
        (StepNotPossible, "Inject"),
        (StepNotPossible, "Heal"),
    ]


def test_a_heal_of_what_nobody_tried_to_inject_is_refused(play: k.Play):
    with pytest.raises(k.NotPossible, match="no fault named 'h' acts"):
        k.Heal(name="h").perform(play)


class Acting:
    """A fault that has the acts of another one, and does nothing."""

    lasting = True

    def __init__(self, like: type[k.Fault]) -> None:
        self.performs = like.performs

    @contextmanager
    def inject(self, _cluster: Any, _journal: Any) -> Iterator[k.Injection]:
        yield k.Injection(fault="Acting")


def test_a_broker_is_started_once_nothing_of_it_is_held(play: Any):
    inject: Callable[[str, Any], k.Injection] = play.faults.inject
    for name, like in (
        ("cut", k.CutLink),
        ("killed", k.KillBroker),
        ("killed later", k.KillBroker),
        ("held later", k.HoldRequests),
    ):
        inject(name, Acting(like))

    play.faults.heal_all()

    healed = [each.name for each in play.seen if isinstance(each, Healed)]
    assert healed == ["held later", "cut", "killed later", "killed"]
