"""A broker whose network is taken away while a link of it is cut, and the other way round."""

from pathlib import Path

import pytest

import kchaos as k
from tests.support.case_steps import both_have_one

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("docker_base")]

RELEASE = "2.0.1"
ALONE = k.AwaitState(topic="t", partition=0, leader=0, isr=(0,))
BACK = k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1))
CUT, OFF = k.CutLink(source=0, target=1), k.DisconnectNetwork(broker=1)
STEPS: tuple[k.Step, ...] = (
    *both_have_one(0, 1),
    k.Inject(name="link", fault=CUT),
    k.Inject(name="network", fault=OFF),
    ALONE,
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="network"),
    k.TakeSnapshot(label="still-cut"),
    k.Heal(name="link"),
    BACK,
    k.Inject(name="network", fault=OFF),
    k.Inject(name="link", fault=CUT),
    ALONE,
    k.Heal(name="network"),
    k.Produce(operation="again", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="link"),
    BACK,
)


def test_what_overlaps_heals_one_by_one_and_the_model_follows(tmp_path: Path):
    scenario = k.Scenario(
        entry="disconnected-over-a-cut",
        case="",
        release=RELEASE,
        steps=STEPS,
        cluster=k.ClusterSpec(
            brokers=k.brokers_of(RELEASE, (0, 1, 2)), first_broker=2, properties=k.QUICK
        ),
    )
    options = k.RunOptions(runs_directory=tmp_path, driver="docker")
    results = k.judge(k.play(scenario, options=options, say=print))
    assert results.unknown is None
    assert (results.conforms, results.safe) == (True, True), [*map(str, results.findings)]
