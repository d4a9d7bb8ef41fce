"""A broker whose network is taken away while a link of it is cut, and the other way round."""

from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import CutLink, DisconnectNetwork
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import (
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Step,
    TakeSnapshot,
)

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("docker_base")]

RELEASE = "2.0.1"
ALONE = AwaitState(topic="t", partition=0, leader=0, isr=(0,))
BACK = AwaitState(topic="t", partition=0, leader=0, isr=(0, 1))
CUT, OFF = CutLink(source=0, target=1), DisconnectNetwork(broker=1)
STEPS: tuple[Step, ...] = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    Inject(name="link", fault=CUT),
    Inject(name="network", fault=OFF),
    ALONE,
    Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    Heal(name="network"),
    TakeSnapshot(label="still-cut"),
    Heal(name="link"),
    BACK,
    Inject(name="network", fault=OFF),
    Inject(name="link", fault=CUT),
    ALONE,
    Heal(name="network"),
    Produce(operation="again", topic="t", partition=0, records=1, acks=1),
    Heal(name="link"),
    BACK,
)


def test_what_overlaps_heals_one_by_one_and_the_model_follows(tmp_path: Path) -> None:
    scenario = Scenario(
        entry="disconnected-over-a-cut",
        case="",
        release=RELEASE,
        steps=STEPS,
        cluster=ClusterSpec(
            brokers=brokers_of(RELEASE, (0, 1, 2)), first_broker=2, properties=QUICK
        ),
    )
    options = RunOptions(runs_directory=tmp_path, driver="docker")
    results = judge(play(scenario, options=options, say=print))
    assert results.unknown is None
    assert (results.conforms, results.safe) == (True, True), [*map(str, results.findings)]
