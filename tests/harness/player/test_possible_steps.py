"""Steps that are only tried, and gates that ask for what the cluster can still do."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NotSent
from kchaos.harness.gates import gates
from kchaos.harness.run.scenario import step_from_json, step_to_json
from tests.support.stand_ins import StandInBroker, StandInCluster, link_record, play_on

CONTROLLER = 2
NODE = 100
"""The controller of KRaft."""
LED_BY_0 = {"leader": 0, "leader_epoch": 3, "isr": (0, 1), "controller_epoch": 2}
TIMEOUT = k.AwaitTimeout(waited_for="x", last_seen="y", remedy="", timeout_s=1)
EXITED = k.BrokerExited(name="broker 1", exit_code=1, last_lines=(), log="server.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    error: Exception

    def perform(self, _play: k.Play) -> None:
        raise self.error


def metadata_with(
    registered: Sequence[int],
    state: LeaderAndIsr,
    controller: int,
    forgotten: Sequence[int],
    voters: int,
) -> SimpleNamespace:
    return SimpleNamespace(
        one_look=contextlib.nullcontext,
        controller=lambda: controller,
        controller_epoch=lambda: 2,
        voters=lambda: frozenset(range(NODE, NODE + voters)),
        registered=lambda: frozenset(registered),
        is_forgotten=lambda broker: broker in forgotten,
        topics=lambda: ["t"],
        assignment=lambda _: {0: (0, 1)},
        state=lambda *_: state,
    )


def play_with(
    tmp_path: Path,
    *,
    registered: Sequence[int] = (0, 1, 2),
    running: Sequence[int] = (0, 1, 2),
    kept_back: Sequence[tuple[int, int | None]] = (),
    unclean: bool = False,
    told: Sequence[LinkRecord] = (),
    kraft: bool = False,
    is_paused: bool = False,
    voters: int = 1,
    forgotten: Sequence[int] = (),
    **state: Any,
) -> k.Play:
    """A play on three brokers; with KRaft on voters besides, whose leader may be paused."""
    properties = {"unclean.leader.election.enable": str(unclean).lower()}
    known = LeaderAndIsr(**{**LED_BY_0, **state})
    cluster = StandInCluster(
        brokers=(0, 1, 2),
        records=told,
        kept_back=kept_back,
        folder=tmp_path,
        metadata=metadata_with(registered, known, NODE if kraft else CONTROLLER, forgotten, voters),
    )
    if kraft:
        cluster.spec = replace(cluster.spec, brokers=k.brokers_of("4.1.2", (0, 1, 2)))
        cluster.controllers = {
            node: StandInBroker(cluster, node, 1, is_paused and node == NODE)
            for node in range(NODE, NODE + voters)
        }
    for broker in cluster.brokers.values():
        broker.properties = properties
        if broker.id not in running:
            broker.process = None
    return play_on(cluster, tmp_path)


@pytest.fixture(autouse=True)
def disks(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Last offset on each disk; every state counts as delivered."""
    ends = {0: 9, 1: 9}
    monkeypatch.setattr(gates, "is_delivered", lambda *_: True)
    monkeypatch.setattr(gates, "last_offset", lambda _, broker, __: ends[broker])
    return ends


def lacks(play: k.Play, gate: Any) -> str:
    """What the gate still lacked, "" if it held."""
    try:
        gate.perform(play)
    except k.AwaitTimeout as error:
        return error.last_seen
    return ""


LEADER, IN_SYNC, LEVEL = (
    gate(timeout_s=0.0) for gate in (k.AwaitLeader, k.AwaitInSync, k.AwaitLevel)
)


@pytest.mark.parametrize(
    "error", [TIMEOUT, k.NoEffect("no"), k.NotPossible("no"), NotSent("no")], ids=repr
)
def test_what_cannot_be_done_now_is_an_observation(tmp_path: Path, error: Exception):
    play = play_with(tmp_path)
    k.IfPossible(do=Fails(error=error)).perform(play)
    (seen,) = play.run.read_lines("observations.jsonl")
    assert (seen["kind"], seen["name"], seen["reason"]) == ("not-possible", "Fails", str(error))
    assert seen["seconds"] >= 0


@pytest.mark.parametrize(
    "error", [EXITED, k.ScenarioError("which epoch?"), KeyError("x")], ids=repr
)
def test_what_makes_a_run_unknown_still_does(tmp_path: Path, error: Exception):
    with pytest.raises(type(error)):
        k.IfPossible(do=Fails(error=error)).perform(play_with(tmp_path))


@pytest.mark.parametrize(
    "step", [k.Heal(name="x"), k.AwaitHeld(name="x"), k.AwaitAnswer(operation="x")]
)
def test_what_was_never_injected_or_written_cannot_be_healed_or_awaited(tmp_path: Path, step: Any):
    play = play_with(tmp_path)
    with pytest.raises(k.NotPossible, match="'x'"):
        step.perform(play)


@pytest.mark.parametrize(
    "step",
    [
        k.IfPossible(do=k.Inject(name="a", fault=k.CutLink(source=0, target=1))),
        k.IfPossible(do=k.Inject(name="b", fault=k.PreferredElection(topic="t", partition=0))),
        k.IfPossible(do=k.AwaitInSync(timeout_s=3.0)),
        k.IfPossible(do=k.Heal(name="a")),
    ],
)
def test_a_step_in_a_step_survives_its_json_form(step: Any):
    assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == step


def test_all_is_there(tmp_path: Path):
    play = play_with(tmp_path)
    assert [lacks(play, gate) for gate in (LEADER, IN_SYNC, LEVEL)] == ["", "", ""]


def test_a_leader_that_could_be_elected_is_awaited(tmp_path: Path):
    play = play_with(tmp_path, registered=(1, 2), running=(1, 2))
    assert lacks(play, LEADER) == "t-0 has leader 0, and could have one of [1]"


@pytest.mark.parametrize(
    "cannot",
    [
        {"registered": (1, 2), "running": (1, 2), "isr": (0,)},
        {"registered": (2,), "running": (2,), "leader": -1},
        {"kept_back": [(0, None)]},
        {"registered": (1, 2), "kept_back": [(CONTROLLER, None)]},
    ],
    ids=["not in the ISR", "nobody lives", "its session lives", "no controller"],
)
def test_a_leader_that_there_cannot_be_is_not_awaited(tmp_path: Path, cannot: dict[str, Any]):
    assert lacks(play_with(tmp_path, **cannot), LEADER) == ""


def test_a_leader_that_nobody_can_tell_need_not_have_heard_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gates, "is_delivered", lambda *_: False)
    assert lacks(play_with(tmp_path), LEADER) == "broker 0 has not heard that it leads t-0"
    (tmp_path / "cut").mkdir()
    assert lacks(play_with(tmp_path / "cut", kept_back=[(CONTROLLER, 0)]), LEADER) == ""


def test_where_unclean_elections_are_allowed_any_replica_can_lead(tmp_path: Path):
    gone: dict[str, Any] = {"registered": (1, 2), "running": (1, 2), "isr": (0,), "unclean": True}
    play = play_with(tmp_path, **gone)
    assert "could have one of [1]" in lacks(play, LEADER)


def test_a_broker_that_is_about_to_register_is_awaited(tmp_path: Path):
    play = play_with(tmp_path, registered=(0, 2), isr=(0,))
    assert lacks(play, IN_SYNC) == "[1] run, and are not registered"


def test_a_broker_that_cannot_register_is_not_awaited(tmp_path: Path):
    play = play_with(tmp_path, registered=(0, 2), isr=(0,), kept_back=[(1, None)])
    assert lacks(play, IN_SYNC) == ""


def test_an_able_replica_outside_the_isr_is_awaited(tmp_path: Path):
    assert "[1] are not in the ISR of t-0" in lacks(play_with(tmp_path, isr=(0,)), IN_SYNC)


@pytest.mark.parametrize(
    "kept_back", [[(1, 0)], [(CONTROLLER, 1)], [(1, CONTROLLER)], [(1, None)], [(0, CONTROLLER)]]
)
def test_a_replica_that_a_cut_keeps_away_is_not_awaited(
    tmp_path: Path, kept_back: list[tuple[int, int | None]], disks: dict[int, int]
):
    disks[1] = 5
    play = play_with(tmp_path, isr=(0,), kept_back=kept_back)
    assert [lacks(play, gate) for gate in (IN_SYNC, LEVEL)] == ["", ""]


@pytest.mark.parametrize(
    ("lacking", "gate", "said"),
    [
        ({"registered": (1, 2)}, LEADER, "t-0 has leader 0, and could have one of [1]"),
        ({"isr": (0,)}, IN_SYNC, "[1] are not in the ISR of t-0"),
        ({}, LEVEL, "t-0 ends at 6 on broker 1, and at 10 on its leader 0"),
    ],
    ids=["no leader", "not in sync", "behind"],
)
def test_what_is_to_come_is_awaited_with_kraft_while_its_controller_can_decide(
    tmp_path: Path, disks: dict[int, int], lacking: dict[str, Any], gate: Any, said: str
):
    disks[1] = 5
    assert said in lacks(play_with(tmp_path / "works", kraft=True, **lacking), gate)
    assert lacks(play_with(tmp_path / "paused", kraft=True, is_paused=True, **lacking), gate) == ""


@pytest.mark.parametrize(
    ("kept_back", "said"),
    [([], f"controller {NODE} cannot decide, and another one can lead"), ([(101, 102)], "")],
    ids=["elected soon", "cut off from each other"],
)
def test_another_controller_of_kraft_is_awaited_where_the_others_can_elect_it(
    tmp_path: Path, kept_back: list[tuple[int, int | None]], said: str
):
    play = play_with(tmp_path, kraft=True, is_paused=True, voters=3, kept_back=kept_back)
    assert [lacks(play, gate) for gate in (LEADER, IN_SYNC, LEVEL)] == [said] * 3


def test_a_fenced_broker_is_awaited(tmp_path: Path):
    play = play_with(tmp_path, kraft=True, registered=(0, 2), isr=(0,))
    assert lacks(play, IN_SYNC) == "[1] run, and are not registered"


@pytest.mark.parametrize(
    "why",
    [{"kept_back": [(1, NODE)]}, {"forgotten": (1,)}, {"running": (0, 2)}],
    ids=["cut off from the controller", "unregistered", "dead"],
)
def test_a_fenced_broker_that_nothing_brings_back_is_not_awaited(
    tmp_path: Path, why: dict[str, Any], disks: dict[int, int]
):
    disks[1] = 5
    play = play_with(tmp_path, kraft=True, registered=(0, 2), isr=(0,), **why)
    assert [lacks(play, gate) for gate in (LEADER, IN_SYNC, LEVEL)] == ["", "", ""]


def test_a_broker_whose_heartbeats_are_held_is_not_able_although_it_is_not_fenced(tmp_path: Path):
    play = play_with(tmp_path, kraft=True, isr=(0,), kept_back=[(1, NODE)])
    assert lacks(play, IN_SYNC) == ""


def test_what_a_former_controller_wrote_behind_the_present_one_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    partition = {"topic": "t", "partition": 0, "leader": 0, "leader_epoch": 2, "isr": (0, 1)}
    said = {"controller_epoch": 2, "live_brokers": (0, 1, 2), "partitions": [partition]}
    told = link_record(ApiKey.UPDATE_METADATA, CONTROLLER, 0, detail=said)
    monkeypatch.setattr(gates, "is_delivered", lambda *_: False)
    behind = play_with(tmp_path, told=[told], isr=(0,), controller_epoch=1)
    assert [lacks(behind, gate) for gate in (LEADER, IN_SYNC, LEVEL)] == ["", "", ""]
    now = play_with(tmp_path / "now", told=[told], isr=(0,))
    assert lacks(now, LEADER) == "broker 0 has not heard that it leads t-0"
    assert "[1] are not in the ISR of t-0" in lacks(now, IN_SYNC)


def test_a_follower_that_ends_earlier_is_awaited(tmp_path: Path, disks: dict[int, int]):
    disks[1] = 5
    assert lacks(play_with(tmp_path), LEVEL) == (
        "t-0 ends at 6 on broker 1, and at 10 on its leader 0"
    )
