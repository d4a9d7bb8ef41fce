"""Brokers that the controller has told nothing, by what came to them at their links."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos.harness.gates.uninitialised as module
from kchaos.clusters.links import ApiKey
from kchaos.harness.gates.uninitialised import uninitialised
from kchaos.harness.play.play import Play
from tests.support.stand_ins import StandInCluster


def record(api_key: ApiKey, target: int, **more: Any) -> SimpleNamespace:
    values = {"direction": "request", "fate": "passed"} | more
    return SimpleNamespace(api_key=api_key, target=target, **values)


TOLD_0 = record(ApiKey.LEADER_AND_ISR, 0)
TOLD_1 = record(ApiKey.LEADER_AND_ISR, 1)


def play_of(records: list[SimpleNamespace], *, started: dict[int, int] | None = None) -> Play:
    metadata = SimpleNamespace(registration=lambda broker: SimpleNamespace(czxid=40 + broker))
    in_order = [
        record(**vars(message) | {"sequence": place}) for place, message in enumerate(records)
    ]
    cluster = StandInCluster(records=cast(Any, in_order), metadata=metadata)
    play = Play(cluster=cast(Any, cluster), run=cast(Any, None), say=print)
    play.observer.links_started.update(started or {})
    return play


@pytest.fixture(autouse=True)
def _a_controller_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "controller_works", lambda _play: "while the controller worked")
    monkeypatch.setattr(module, "_QUIET_S", 0.0)


def test_a_broker_that_got_a_leader_and_isr_is_told():
    assert uninitialised(play_of([TOLD_0, TOLD_1]), [0, 1]) == {}


def test_a_broker_that_got_none_is_not_and_what_it_got_is_said():
    records = [TOLD_0, record(ApiKey.UPDATE_METADATA, 1)]
    assert uninitialised(play_of(records), [0, 1]) == {
        1: "broker 1 is registered with czxid 41, and its process got no LeaderAndIsr and 1 "
        "UpdateMetadata; nor did it while the controller worked, nor for 0 s more"
    }


@pytest.mark.parametrize(
    "other",
    [
        record(ApiKey.LEADER_AND_ISR, 1, direction="response"),
        record(ApiKey.LEADER_AND_ISR, 1, fate="held"),
        record(ApiKey.LEADER_AND_ISR, 1, fate="abandoned"),
        record(ApiKey.STOP_REPLICA, 1),
    ],
)
def test_what_did_not_reach_it_or_is_something_else_does_not_count(other: SimpleNamespace):
    assert list(uninitialised(play_of([TOLD_0, other]), [0, 1])) == [1]


def test_what_an_earlier_process_of_it_got_does_not_count():
    records = [TOLD_0, TOLD_1, TOLD_0]
    assert list(uninitialised(play_of(records, started={1: 2}), [0, 1])) == [1]
    assert uninitialised(play_of([*records, TOLD_1], started={1: 2}), [0, 1]) == {}


def test_a_controller_that_tells_it_while_it_is_awaited_has_told_it(
    monkeypatch: pytest.MonkeyPatch,
):
    play = play_of([TOLD_0])

    def tells(_play: Play) -> str:
        cast(Any, play.cluster).links.records.append(record(**vars(TOLD_1) | {"sequence": 1}))
        return "at last"

    monkeypatch.setattr(module, "controller_works", tells)
    assert uninitialised(play, [0, 1]) == {}


def test_what_a_broker_was_told_is_known_however_many_fetches_came_after_it():
    play = play_of([TOLD_0, TOLD_1, *[record(ApiKey.FETCH, 0, source=1, detail=None)] * 9])
    cast(Any, play.cluster).links.most_of_an_api = 3
    assert uninitialised(play, [0, 1]) == {}


def test_without_links_nobody_can_say():
    play = play_of([])
    cast(Any, play.cluster).links = None
    assert uninitialised(play, [0, 1]) == {}
