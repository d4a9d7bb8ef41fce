"""Schedules for KRaft clusters: each fault acts there, and every kind that can occurs."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.acts import Mode
from kchaos.clusters.agent.points import POINTS
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import topic_settings_refused
from kchaos.harness.player.candidates import LOGS, MIXES, UPGRADES
from kchaos.harness.player.drawing import mixes_not_drawn, view_of
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.run.settings import require_trust

pytestmark = pytest.mark.slow

RELEASE = "4.1.2"
NOT_DRAWN = mixes_not_drawn(release_of(RELEASE), is_kraft=True)
# Clients run freely where they are disturbed.
PLAYED = [mix for mix in MIXES if mix not in (*NOT_DRAWN, "clients")]
_UPGRADED = ("FailLogDirectory", "RollBroker", "ThrottleReplication", "UpdateFeatures")
NODE = frozenset({k.Killable, k.Pausable, k.Restartable, k.Collectable})
_ON_DISK = ("LoseEpochs", "WipeLogDirectory", "SlowDisk")
_RARE = (
    *("IsolateBroker", "LoseTail", "LoseFile", "TearEpochs"),
    *("HoldPoint", "FreezeFollower", "SlowFetchReads"),
)


def cluster_of(
    scenario: k.Scenario, dead: set[int], paused: set[int], voters: frozenset[int]
) -> k.ClusterView:
    """The cluster that the scenario's next fault meets, as far as who runs is concerned."""

    def node(number: int) -> k.BrokerView:
        return k.BrokerView(
            broker=number,
            release=RELEASE,
            capabilities=NODE,
            is_running=number not in dead,
            is_paused=number in paused,
            is_registered=number not in dead,
            log_directories=spec.brokers[0].log_directories,
            points=frozenset(POINTS),
        )

    spec = scenario.cluster
    return k.ClusterView(
        brokers={broker.id: node(broker.id) for broker in spec.brokers},
        controller=spec.controller_ids[0],
        controllers={number: node(number) for number in spec.controller_ids},
        voters=voters,
        has_dynamic_quorum=spec.has_dynamic_quorum,
    )


def voters_after(voters: frozenset[int], step: Any) -> frozenset[int]:
    is_change = isinstance(step, k.Inject) and isinstance(
        step.fault, k.AddController | k.RemoveController
    )
    return voters ^ {step.fault.controller} if is_change else voters


@cache
def drawn(seed: int, mix: str) -> k.Scenario:
    """The schedule of a seed, drawn once for all tests."""
    return k.draw(seed, kafka=RELEASE, steps=25, mix=mix)


def acts_of(scenario: k.Scenario) -> list[Any]:
    return [step.do if isinstance(step, k.IfPossible) else step for step in scenario.steps]


@pytest.mark.parametrize("mix", PLAYED)
def test_no_fault_is_drawn_that_a_kraft_cluster_would_refuse(mix):
    for seed in range(25):
        scenario = drawn(seed, mix)
        assert scenario.cluster.is_kraft
        assert scenario.cluster.first_broker is None
        acting: dict[str, Any] = {}
        voters = frozenset(scenario.cluster.first_voters)
        for step in acts_of(scenario):
            ended = [fault for fault in acting.values() if type(fault).__name__ != "PauseBroker"]
            stopped = {each.broker for each in ended if hasattr(each, "end_session")}
            stopped |= {each.broker for each in ended if type(each).__name__ == "StopBroker"}
            paused = {
                fault.broker for fault in acting.values() if type(fault).__name__ == "PauseBroker"
            }
            if isinstance(step, k.Inject):
                seen = cluster_of(scenario, stopped, paused, voters)
                assert step.fault.available(seen) == "", (seed, step)
                voters = voters_after(voters, step)
                if step.fault.lasting:
                    acting[step.name] = step.fault
            elif isinstance(step, k.Heal):
                del acting[step.name]


@pytest.mark.parametrize("mix", PLAYED)
def test_at_most_one_controller_is_away_at_a_time(mix):
    for seed in range(25):
        scenario = drawn(seed, mix)
        controllers = set(scenario.cluster.controller_ids)
        away: set[str] = set()
        voters = frozenset(scenario.cluster.first_voters)
        for step in acts_of(scenario):
            if (after := voters_after(voters, step)) != voters:
                # Voters change while all controllers are there, and one of two is never missed.
                assert not away
                voters = after
            if isinstance(step, k.Inject) and getattr(step.fault, "broker", None) in controllers:
                if step.fault.lasting:
                    away.add(step.name)
                    assert len(voters) > 2
                elif type(step.fault).__name__ == "RollBroker":
                    assert not away
            elif isinstance(step, k.Inject) and type(step.fault).__name__ == "MoveController":
                assert not away
                assert len(voters) > 2
            elif isinstance(step, k.Heal):
                away.discard(step.name)
            assert len(away) <= 1


@pytest.mark.parametrize(("kafka", "is_some"), [("3.6.2", False), ("3.9.1", True)])
def test_some_clusters_have_a_dynamic_quorum_where_voters_change(kafka, is_some):
    elections = [
        k.draw(seed, kafka=kafka, steps=1, mix="elections", mode="kraft") for seed in range(9)
    ]
    assert {each.cluster.has_dynamic_quorum for each in elections} == {False, is_some}
    assert not k.draw(1, kafka=kafka, steps=1, mix="mixed", mode="kraft").cluster.has_dynamic_quorum


def test_every_kind_of_fault_of_kraft_is_drawn():
    kinds = Counter(
        (type(step.fault).__name__, getattr(step.fault, "api", ""))
        for mix in PLAYED
        for seed in range(40)
        for step in acts_of(drawn(seed, mix))
        if isinstance(step, k.Inject)
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
        ("AddController", ""),
        ("RemoveController", ""),
        ("CutLink", ""),
        *((name, "") for name in (*_ON_DISK, *_RARE, *_UPGRADED)),
    }
    assert set(kinds) == wanted


def test_disks_of_controllers_that_were_killed_lose_something():
    lost = Counter(
        type(step.fault).__name__
        for seed in range(40)
        for scenario in [drawn(seed, "disks")]
        for step in acts_of(scenario)
        if isinstance(step, k.Inject)
        and type(step.fault).__name__ in ("LoseTail", "WipeLogDirectory")
        and getattr(step.fault, "broker", None) in scenario.cluster.controller_ids
    )
    assert set(lost) == {"LoseTail", "WipeLogDirectory"}


def test_controllers_are_rolled_first_and_levels_are_raised_last():
    is_raised = False
    for seed in range(40):
        scenario = drawn(seed, UPGRADES)
        assert {broker.kafka for broker in scenario.cluster.brokers} == {"4.0.2"}
        nodes = {*scenario.cluster.controller_ids, *(each.id for each in scenario.cluster.brokers)}
        newer: set[int] = set()
        for step in acts_of(scenario):
            fault = step.fault if isinstance(step, k.Inject) else None
            if isinstance(fault, k.RollBroker):
                {RELEASE: newer.add, "4.0.2": newer.discard}[fault.kafka](fault.broker)
                controllers = {*scenario.cluster.controller_ids}
                assert controllers <= newer or newer <= controllers
            elif isinstance(fault, k.UpdateFeatures):
                assert newer == nodes
                assert fault.levels == (("metadata.version", 27),)
                is_raised = True
    assert is_raised


@pytest.mark.parametrize(
    ("kafka", "segments"),
    [
        ("3.9.1", ()),
        ("4.0.2", (("segment.bytes", "300"),)),
        ("4.1.2", (("internal.segment.bytes", "300"),)),
    ],
)
def test_logs_are_as_small_as_a_release_lets_them_be(kafka, segments):
    scenario = k.draw(1, kafka=kafka, steps=5, mix=LOGS, mode="kraft")
    (first,) = [step for step in scenario.steps[:1] if isinstance(step, k.CreateTopic)]
    assert first.configuration == segments
    assert topic_settings_refused(release_of(kafka), {}, dict(segments)) == ""
    assert ("log.segment.bytes" in scenario.cluster.properties) == (not segments)
    assert {broker.log_directories for broker in scenario.cluster.brokers} == {2}


def test_what_is_drawn_is_legal_and_the_same_for_the_same_seed():
    for seed in range(25):
        scenario = drawn(seed, "mixed")
        assert illegal_steps(view_of(scenario), scenario.steps) == []
        assert k.draw(seed, kafka=RELEASE, steps=25) == scenario


@pytest.mark.parametrize("mix", PLAYED)
def test_what_is_drawn_can_be_replayed_and_shrunk_without_trust(mix):
    for seed in range(10):
        require_trust(drawn(seed, mix), Path("scenario.json"))


@pytest.mark.parametrize("mix", ["mixed", "rare"])
def test_partitions_of_a_topic_have_equally_many_replicas(mix):
    """KRaft controllers refuse another assignment (INVALID_REPLICA_ASSIGNMENT)."""
    counts = [
        [len(replicas) for replicas in step.assignment]
        for seed in range(50)
        for step in acts_of(k.draw(seed, kafka=RELEASE, steps=1, mix=mix))
        if isinstance(step, k.CreateTopic)
    ]
    assert all(len(set(count)) == 1 for count in counts)
    assert any(len(count) > 1 for count in counts)


@pytest.mark.parametrize(
    ("mix", "kafka", "why"),
    [
        ("formats", RELEASE, "brokers ignore message formats there"),
        ("upgrades", "3.3.2", "it begins on the release line before, and none is known"),
    ],
)
def test_a_mix_that_has_no_form_with_kraft_is_refused_with_the_reason(mix, kafka, why):
    with pytest.raises(k.UsageError, match=f"the mix {mix} is not for {kafka} with KRaft: {why}"):
        k.draw(1, kafka=kafka, steps=5, mix=mix, mode="kraft")


@pytest.mark.parametrize(("kafka", "mode"), [("2.8.2", "kraft"), ("4.1.2", "zookeeper")])
def test_a_mode_that_a_release_does_not_have_is_refused(kafka: str, mode: Mode):
    with pytest.raises(k.ReleaseError, match=f"{kafka} (does not run with KRaft|has no ZooKeeper)"):
        k.draw(1, kafka=kafka, steps=1, mode=mode)
