"""Schedules for KRaft clusters: each fault acts there, and every kind that can occurs."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.acts import Mode
from kchaos.clusters.agent.points import POINTS
from kchaos.clusters.api import Collectable, Killable, Pausable, Restartable
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.faults.view import BrokerView, ClusterView
from kchaos.harness.errors import UsageError
from kchaos.harness.player.candidates import MIXES
from kchaos.harness.player.drawing import draw, mixes_not_drawn, view_of
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.settings import require_trust
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject

pytestmark = pytest.mark.slow

RELEASE = "4.1.2"
NOT_DRAWN = mixes_not_drawn(release_of(RELEASE), is_kraft=True)
PLAYED = [mix for mix in MIXES if mix not in NOT_DRAWN]
NODE = frozenset({Killable, Pausable, Restartable, Collectable})
_ON_DISK = ("LoseEpochs", "WipeLogDirectory", "SlowDisk")
_RARE = (
    *("IsolateBroker", "LoseTail", "LoseFile", "TearEpochs"),
    *("HoldPoint", "FreezeFollower", "SlowFetchReads"),
)


def cluster_of(scenario: Scenario, dead: set[int], paused: set[int]) -> ClusterView:
    """The cluster that the scenario's next fault meets, as far as who runs is concerned."""

    def node(number: int) -> BrokerView:
        return BrokerView(
            broker=number,
            release=RELEASE,
            capabilities=NODE,
            is_running=number not in dead,
            is_paused=number in paused,
            is_registered=number not in dead,
            points=frozenset(POINTS),
        )

    spec = scenario.cluster
    return ClusterView(
        brokers={broker.id: node(broker.id) for broker in spec.brokers},
        controller=spec.controller_ids[0],
        controllers={number: node(number) for number in spec.controller_ids},
    )


@cache
def drawn(seed: int, mix: str) -> Scenario:
    """The schedule of a seed, drawn once for all tests."""
    return draw(seed, kafka=RELEASE, steps=25, mix=mix)


def acts_of(scenario: Scenario) -> list[Any]:
    return [step.do if isinstance(step, IfPossible) else step for step in scenario.steps]


@pytest.mark.parametrize("mix", PLAYED)
def test_no_fault_is_drawn_that_a_kraft_cluster_would_refuse(mix):
    for seed in range(25):
        scenario = drawn(seed, mix)
        assert scenario.cluster.is_kraft
        assert scenario.cluster.first_broker is None
        acting: dict[str, Any] = {}
        for step in acts_of(scenario):
            ended = [fault for fault in acting.values() if type(fault).__name__ != "PauseBroker"]
            stopped = {each.broker for each in ended if hasattr(each, "end_session")}
            stopped |= {each.broker for each in ended if type(each).__name__ == "StopBroker"}
            paused = {
                fault.broker for fault in acting.values() if type(fault).__name__ == "PauseBroker"
            }
            if isinstance(step, Inject):
                seen = cluster_of(scenario, stopped, paused)
                assert step.fault.available(seen) == "", (seed, step)
                if step.fault.lasting:
                    acting[step.name] = step.fault
            elif isinstance(step, Heal):
                del acting[step.name]


@pytest.mark.parametrize("mix", PLAYED)
def test_at_most_one_controller_is_away_at_a_time(mix):
    for seed in range(25):
        scenario = drawn(seed, mix)
        controllers = set(scenario.cluster.controller_ids)
        away: set[str] = set()
        for step in acts_of(scenario):
            if isinstance(step, Inject) and getattr(step.fault, "broker", None) in controllers:
                away.add(step.name)
                assert len(controllers) == 3
            elif isinstance(step, Inject) and type(step.fault).__name__ == "MoveController":
                assert not away
                assert len(controllers) == 3
            elif isinstance(step, Heal):
                away.discard(step.name)
            assert len(away) <= 1


def test_every_kind_of_fault_of_kraft_is_drawn():
    kinds = Counter(
        (type(step.fault).__name__, getattr(step.fault, "api", ""))
        for mix in PLAYED
        for seed in range(40)
        for step in acts_of(drawn(seed, mix))
        if isinstance(step, Inject)
    )
    wanted = {
        ("FenceBroker", ""),
        ("UnregisterBroker", ""),
        ("CutControllers", ""),
        ("MoveController", ""),
        ("HoldRequests", "BrokerHeartbeat"),
        ("HoldRequests", "AlterPartition"),
        ("HoldRequests", "Fetch"),
        ("KillBroker", ""),
        ("StopBroker", ""),
        ("PauseBroker", ""),
        ("PreferredElection", ""),
        ("CutLink", ""),
        *((name, "") for name in (*_ON_DISK, *_RARE)),
    }
    assert set(kinds) == wanted


def test_what_is_drawn_is_legal_and_the_same_for_the_same_seed():
    for seed in range(25):
        scenario = drawn(seed, "mixed")
        assert illegal_steps(view_of(scenario), scenario.steps) == []
        assert draw(seed, kafka=RELEASE, steps=25) == scenario


@pytest.mark.parametrize("mix", PLAYED)
def test_what_is_drawn_can_be_replayed_and_shrunk_without_trust(mix):
    for seed in range(10):
        require_trust(drawn(seed, mix), Path("scenario.json"))


def test_partitions_of_a_topic_have_equally_many_replicas():
    """KRaft controllers refuse another assignment (INVALID_REPLICA_ASSIGNMENT)."""
    counts = [
        [len(replicas) for replicas in step.assignment]
        for seed in range(50)
        for step in acts_of(draw(seed, kafka=RELEASE, steps=1))
        if isinstance(step, CreateTopic)
    ]
    assert all(len(set(count)) == 1 for count in counts)
    assert any(len(count) > 1 for count in counts)


@pytest.mark.parametrize("mix", sorted(NOT_DRAWN))
def test_a_mix_that_is_about_zookeeper_or_the_model_is_refused(mix):
    with pytest.raises(UsageError, match=f"the mix {mix} is not for 4.1.2"):
        draw(1, kafka=RELEASE, steps=5, mix=mix)


@pytest.mark.parametrize(("kafka", "mode"), [("2.8.2", "kraft"), ("4.1.2", "zookeeper")])
def test_a_mode_that_a_release_does_not_have_is_refused(kafka: str, mode: Mode) -> None:
    with pytest.raises(ReleaseError, match=f"{kafka} (does not run with KRaft|has no ZooKeeper)"):
        draw(1, kafka=kafka, steps=1, mode=mode)
