"""Steps that no cluster could take are refused before one is started."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import ExpireSession, FastBounce, FenceBroker, HoldRequests, KillBroker
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.catalogue.entry import Expectation
from kchaos.harness.errors import ScenarioError
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.steps_checked import check_modes, check_steps
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import (
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Reassign,
    Step,
    TakeSnapshot,
)
from tests.support.plays_of_ci import scenario_of_cell

OWN = {release: release for release in ("2.8.2", "4.1.2")}
TOPIC = CreateTopic(topic="t", assignment=((0, 1),))
NOBODY = AwaitState(topic="t", partition=0, leader=-1)
HOLD = Inject(name="fetches", fault=HoldRequests(name="fetches", api="Fetch"))
BOUNCE = Inject(name="bounce", fault=FastBounce(broker=0))


def scenario(*steps: Step) -> Scenario:
    cluster = ClusterSpec(brokers=brokers_of("2.8.2", (0, 1)))
    return Scenario(entry="e", case="", release="2.8.2", cluster=cluster, steps=steps)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [TOPIC, Inject(name="k", fault=KillBroker(broker=7))],
            r"step 1 \(Inject\): the cluster has no broker 7; it has 0, 1$",
        ),
        (
            [AwaitHighWatermark(topic="t", partition=0, brokers=(0, 7), high_watermark=1)],
            r"step 0 \(AwaitHighWatermark\): the cluster has no broker 7",
        ),
        (
            [TOPIC, HOLD, Heal(name="fetch")],
            r"step 2 \(Heal\): no fault named 'fetch' acts; those that do: fetches$",
        ),
        ([BOUNCE, Heal(name="bounce")], r"no fault named 'bounce' acts; those that do: none"),
        (
            [CreateTopic(topic="t", assignment=((0, 1), (1, 9)))],
            r"step 0 \(CreateTopic\): the cluster has no broker 9; it has 0, 1$",
        ),
        (
            [TOPIC, Reassign(topic="t", partition=0, replicas=(0, 9))],
            r"step 1 \(Reassign\): the cluster has no broker 9",
        ),
        ([HOLD, HOLD], r"step 1 \(Inject\): a fault named 'fetches' acts already: heal it"),
        (
            [TOPIC, IfPossible(do=Inject(name="k", fault=KillBroker(broker=7)))],
            r"step 1 \(Inject\): the cluster has no broker 7; it has 0, 1$",
        ),
        ([TakeSnapshot(label="s")] * 2, "there is a snapshot 's' already"),
    ],
)
def test_a_step_that_no_cluster_could_take_is_refused_with_its_place(
    steps: list[Step], said: str, tmp_path: Path
):
    with pytest.raises(ScenarioError, match=said):
        play(scenario(*steps), options=RunOptions(runs_directory=tmp_path / "runs"), say=print)
    assert [*tmp_path.iterdir()] == []


def test_what_is_healed_may_be_injected_again_and_what_may_be_impossible_is_left_to_the_run() -> (
    None
):
    possible = IfPossible(do=Heal(name="none"))
    check_steps(scenario(TOPIC, NOBODY, HOLD, Heal(name="fetches"), HOLD, BOUNCE, BOUNCE, possible))


def test_what_was_injected_only_if_possible_may_be_healed():
    check_steps(scenario(TOPIC, IfPossible(do=HOLD), Heal(name="fetches")))


@pytest.mark.parametrize(
    ("witness", "said"),
    [
        ({"rounds": {"follower": 1}}, "no witness has the form 'rounds'"),
        ({"round": {"folower": 1}}, "a witness of the form 'round' has no field 'folower'"),
        ({"log": {"broker": 1}}, "a witness of the form 'log' needs the field 'pattern'"),
        ({"log": {"pattern": "("}}, r"'\(' is no regular expression"),
        ({"link": {"partition": {"fetch_ofset": 1}}}, "partition has no field 'fetch_ofset'"),
        ({"link": {"detail": {"eror": 1}}}, "detail has no field 'eror'"),
        ({"hit": {"points": "p"}}, "a witness of the form 'hit' has no field 'points'"),
        ({"operation": {"errorcode": 1}}, "has no field 'errorcode'"),
        ({"observed": {"broker": 1}}, "needs the field 'kind'"),
        ({"magics": {"snapshot": "final", "broker": 1, "partition": "t-0"}}, "the field 'runs'"),
        ({}, "no object with one form"),
        ("round", "no object with one form"),
    ],
)
def test_a_witness_that_no_run_could_have_is_refused_before_one_is_played(
    witness: object, said: str, tmp_path: Path
):
    expectation = {"safe": False, "findings": [], "witness": [witness]}
    made = replace(scenario(TOPIC), expectation=expectation)
    with pytest.raises(ScenarioError, match=rf"expectation: witness\[0\]: .*{said}"):
        play(made, options=RunOptions(runs_directory=tmp_path / "runs"), say=print)
    assert [*tmp_path.iterdir()] == []


def test_an_expectation_of_the_catalogue_needs_a_witness_that_there_can_be():
    with pytest.raises(ValueError, match="needs a witness"):
        Expectation(safe=False, findings=(("divergence", (0, 1), 0, 0),))
    with pytest.raises(ValueError, match="needs a witness"):
        Expectation(safe=True)
    with pytest.raises(ValueError, match="has no field 'folower'"):
        Expectation(safe=True, witness=({"round": {"folower": 1}},))


def kraft_scenario(*steps: Step) -> Scenario:
    cluster = ClusterSpec(brokers=brokers_of("4.1.2", (0, 1)))
    return Scenario(entry="e", case="", release="4.1.2", cluster=cluster, steps=steps)


def test_a_fault_of_the_other_mode_is_refused_and_names_its_counterpart():
    expire = Inject(name="expire", fault=ExpireSession(broker=0))
    fence = Inject(name="fence", fault=FenceBroker(broker=0))

    with pytest.raises(ScenarioError, match=r"step 0 .*ExpireSession cannot act: .*FenceBroker"):
        check_modes(kraft_scenario(expire), OWN)
    with pytest.raises(ScenarioError, match=r"step 0 .*FenceBroker cannot act: .*ExpireSession"):
        check_modes(scenario(fence), OWN)
    check_modes(kraft_scenario(fence), OWN)
    check_modes(scenario(expire), OWN)


def test_no_entry_is_refused_on_the_releases_that_it_speaks_of():
    for entry in CATALOGUE.values():
        for case, release in entry.expectations:
            drawn = scenario_of_cell((entry.name, case, release))
            check_steps(drawn)
            check_modes(drawn, {kafka: kafka for kafka in drawn.cluster.kafkas})


def test_a_fault_may_mean_a_controller_of_a_kraft_cluster():
    check_steps(kraft_scenario(Inject(name="kill", fault=KillBroker(broker=100))))
    with pytest.raises(ScenarioError, match="the cluster has no broker 101"):
        check_steps(kraft_scenario(Inject(name="kill", fault=KillBroker(broker=101))))
