"""Steps that no cluster could take are refused before one is started."""

from dataclasses import replace
from pathlib import Path

import pytest

import kchaos as k
from kchaos.harness.run.steps_checked import check_modes, check_steps
from tests.support.plays_of_ci import scenario_of_cell

OWN = {release: release for release in ("2.8.2", "4.1.2")}
TOPIC = k.CreateTopic(topic="t", assignment=((0, 1),))
NOBODY = k.AwaitState(topic="t", partition=0, leader=-1)
HOLD = k.Inject(name="fetches", fault=k.HoldRequests(name="fetches", api="Fetch"))
BOUNCE = k.Inject(name="bounce", fault=k.FastBounce(broker=0))


def scenario(*steps: k.Step) -> k.Scenario:
    cluster = k.ClusterSpec(brokers=k.brokers_of("2.8.2", (0, 1)))
    return k.Scenario(entry="e", case="", release="2.8.2", cluster=cluster, steps=steps)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [TOPIC, k.Inject(name="k", fault=k.KillBroker(broker=7))],
            r"step 1 \(Inject\): the cluster has no broker 7; it has 0, 1$",
        ),
        (
            [k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 7), high_watermark=1)],
            r"step 0 \(AwaitHighWatermark\): the cluster has no broker 7",
        ),
        (
            [TOPIC, HOLD, k.Heal(name="fetch")],
            r"step 2 \(Heal\): no fault named 'fetch' acts; those that do: fetches$",
        ),
        ([BOUNCE, k.Heal(name="bounce")], r"no fault named 'bounce' acts; those that do: none"),
        (
            [k.CreateTopic(topic="t", assignment=((0, 1), (1, 9)))],
            r"step 0 \(CreateTopic\): the cluster has no broker 9; it has 0, 1$",
        ),
        (
            [TOPIC, k.Reassign(topic="t", partition=0, replicas=(0, 9))],
            r"step 1 \(Reassign\): the cluster has no broker 9",
        ),
        ([HOLD, HOLD], r"step 1 \(Inject\): a fault named 'fetches' acts already: heal it"),
        (
            [TOPIC, k.IfPossible(do=k.Inject(name="k", fault=k.KillBroker(broker=7)))],
            r"step 1 \(Inject\): the cluster has no broker 7; it has 0, 1$",
        ),
        ([k.TakeSnapshot(label="s")] * 2, "there is a snapshot 's' already"),
    ],
)
def test_a_step_that_no_cluster_could_take_is_refused_with_its_place(
    steps: list[k.Step], said: str, tmp_path: Path
):
    with pytest.raises(k.ScenarioError, match=said):
        k.play(scenario(*steps), options=k.RunOptions(runs_directory=tmp_path / "runs"), say=print)
    assert [*tmp_path.iterdir()] == []


def test_what_is_healed_may_be_injected_again_and_what_may_be_impossible_is_left_to_the_run() -> (
    None
):
    possible = k.IfPossible(do=k.Heal(name="none"))
    check_steps(
        scenario(TOPIC, NOBODY, HOLD, k.Heal(name="fetches"), HOLD, BOUNCE, BOUNCE, possible)
    )


def test_what_was_injected_only_if_possible_may_be_healed():
    check_steps(scenario(TOPIC, k.IfPossible(do=HOLD), k.Heal(name="fetches")))


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
    with pytest.raises(k.ScenarioError, match=rf"expectation: witness\[0\]: .*{said}"):
        k.play(made, options=k.RunOptions(runs_directory=tmp_path / "runs"), say=print)
    assert [*tmp_path.iterdir()] == []


def test_an_expectation_of_the_catalogue_needs_a_witness_that_there_can_be():
    with pytest.raises(ValueError, match="needs a witness"):
        k.Expectation(safe=False, findings=(("divergence", (0, 1), 0, 0),))
    with pytest.raises(ValueError, match="needs a witness"):
        k.Expectation(safe=True)
    with pytest.raises(ValueError, match="has no field 'folower'"):
        k.Expectation(safe=True, witness=({"round": {"folower": 1}},))


def kraft_scenario(*steps: k.Step) -> k.Scenario:
    cluster = k.ClusterSpec(brokers=k.brokers_of("4.1.2", (0, 1)))
    return k.Scenario(entry="e", case="", release="4.1.2", cluster=cluster, steps=steps)


def test_a_fault_of_the_other_mode_is_refused_and_names_its_counterpart():
    expire = k.Inject(name="expire", fault=k.ExpireSession(broker=0))
    fence = k.Inject(name="fence", fault=k.FenceBroker(broker=0))

    with pytest.raises(k.ScenarioError, match=r"step 0 .*ExpireSession cannot act: .*FenceBroker"):
        check_modes(kraft_scenario(expire), OWN)
    with pytest.raises(k.ScenarioError, match=r"step 0 .*FenceBroker cannot act: .*ExpireSession"):
        check_modes(scenario(fence), OWN)
    check_modes(kraft_scenario(fence), OWN)
    check_modes(scenario(expire), OWN)


def test_no_entry_is_refused_on_the_releases_that_it_speaks_of():
    for entry in k.CATALOGUE.values():
        for case, release in entry.expectations:
            drawn = scenario_of_cell((entry.name, case, release))
            check_steps(drawn)
            check_modes(drawn, {kafka: kafka for kafka in drawn.cluster.kafkas})


def test_a_fault_may_mean_a_controller_of_a_kraft_cluster():
    check_steps(kraft_scenario(k.Inject(name="kill", fault=k.KillBroker(broker=100))))
    with pytest.raises(k.ScenarioError, match="the cluster has no broker 101"):
        check_steps(kraft_scenario(k.Inject(name="kill", fault=k.KillBroker(broker=101))))
