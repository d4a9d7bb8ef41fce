"""A broker whose network is taken away while a link of it is cut, and the other way round."""

from pathlib import Path

import pytest

import kchaos

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("docker_base")]

RELEASE = "2.0.1"
ALONE = kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0,))
BACK = kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1))
CUT, OFF = kchaos.CutLink(source=0, target=1), kchaos.DisconnectNetwork(broker=1)
STEPS: tuple[kchaos.Step, ...] = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(name="link", fault=CUT),
    kchaos.Inject(name="network", fault=OFF),
    ALONE,
    kchaos.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    kchaos.Heal(name="network"),
    kchaos.TakeSnapshot(label="still-cut"),
    kchaos.Heal(name="link"),
    BACK,
    kchaos.Inject(name="network", fault=OFF),
    kchaos.Inject(name="link", fault=CUT),
    ALONE,
    kchaos.Heal(name="network"),
    kchaos.Produce(operation="again", topic="t", partition=0, records=1, acks=1),
    kchaos.Heal(name="link"),
    BACK,
)


def test_what_overlaps_heals_one_by_one_and_the_model_follows(tmp_path: Path) -> None:
    scenario = kchaos.Scenario(
        entry="disconnected-over-a-cut",
        case="",
        release=RELEASE,
        steps=STEPS,
        cluster=kchaos.ClusterSpec(
            brokers=kchaos.brokers_of(RELEASE, (0, 1, 2)), first_broker=2, properties=kchaos.QUICK
        ),
    )
    options = kchaos.RunOptions(runs_directory=tmp_path, driver="docker")
    results = kchaos.judge(kchaos.play(scenario, options=options, say=print))
    assert results.unknown is None
    assert (results.conforms, results.safe) == (True, True), [*map(str, results.findings)]
