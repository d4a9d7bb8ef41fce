"""A broker that outgrows its container's memory: no fault of Kafka's."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import kchaos as k
from kchaos.clusters.docker_driver.engine import connect
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.docker_driver.owner import RUN

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("docker_base")]

RELEASE = "2.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustMemory:
    """Another process in the broker's container takes all memory; the kernel kills the broker."""

    broker: int

    def perform(self, now: k.Play) -> None:
        api = connect()
        broker = now.cluster.brokers[self.broker]
        made = api.containers(filters={"label": RUN, "name": f"kchaos-{os.getpid()}-"})
        name = f"-broker-{self.broker}"
        container = next(each["Id"] for each in made if each["Names"][0].endswith(name))
        script = "echo 1000 >/proc/1/oom_score_adj && exec tail /dev/zero"
        hungry = api.exec_create(container, ["/bin/sh", "-c", script])["Id"]
        api.exec_start(hungry, detach=True)
        k.await_until(
            lambda: not broker.is_running,
            timeout_s=60,
            waiting_for=f"broker {self.broker} to be killed for its memory",
            last_seen=lambda: api.inspect_container(container)["State"],
        )
        api.close()


def test_a_run_whose_broker_is_killed_for_memory_is_unknown_and_says_why(tmp_path: Path):
    """No gate waits for this broker, which is no replica of anything."""
    scenario = k.Scenario(
        entry="memory-limit",
        case="killed",
        release=RELEASE,
        cluster=k.ClusterSpec(brokers=k.brokers_of(RELEASE, (0, 1)), broker_memory_mib=400),
        steps=(
            k.CreateTopic(topic="t", assignment=((0,),)),
            k.Produce(operation="a", topic="t", partition=0, records=3, acks=-1),
            ExhaustMemory(broker=1),
        ),
    )
    options = k.RunOptions(runs_directory=tmp_path, driver="docker")

    run = k.play(scenario, options=options, say=lambda _text: None)

    why = run.read("outcome.json")["unknown"]
    assert "broker 1 exited with code -9 (killed for memory: the container needed more" in why
    assert "its limit of 400 MiB" in why
    assert run.read("scenario.json")["cluster"]["broker_memory_mib"] == 400
    assert run.read("run.json")["images"].startswith(f"{base_image()}@sha256:")
    results = k.judge(run)
    assert results.safe is None
    assert "killed for memory" in (results.unknown or "")
