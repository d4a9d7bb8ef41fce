"""Clusters whose voters change, and clusters whose brokers are the controllers."""

from dataclasses import replace
from pathlib import Path

import pytest

import kchaos as k
from tests.golden.kraft_scenarios import kraft_scenario


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("name", "conforms"), [("3.9.1-voters-changed", True), ("4.1.2-combined", None)]
)
def test_a_quorum_that_changes_and_combined_nodes_are_played_and_safe(
    name: str, conforms: bool | None, tmp_path: Path
):
    options = k.RunOptions(runs_directory=tmp_path)
    results = k.judge(k.play(kraft_scenario(name), options=options, say=print))
    assert (results.conforms, results.safe, results.crashes) == (conforms, True, ())


@pytest.mark.parametrize(
    ("controller", "features", "why"),
    [
        (1, {"kraft.version": 1}, r"no controller has the id 1: they have \[100, 101, 102, 103\]"),
        (103, {}, r"the quorum of this cluster is static: .*KIP-853, Kafka 3\.9"),
    ],
)
@pytest.mark.parametrize("fault", [k.AddController, k.RemoveController])
def test_a_change_that_no_quorum_can_take_is_refused_before_a_cluster_starts(
    controller: int, features: dict[str, int], why: str, fault: type, tmp_path: Path
):
    given = kraft_scenario("3.9.1-voters-changed")
    cluster = replace(given.cluster, observers=len(features), features=features)
    steps = (k.Inject(name="change", fault=fault(controller=controller)),)
    refused = replace(given, cluster=cluster, steps=steps)
    with pytest.raises(k.ScenarioError, match=rf"step 0 \(Inject\): {fault.__name__} .*{why}"):
        k.play(refused, options=k.RunOptions(runs_directory=tmp_path), say=print)
