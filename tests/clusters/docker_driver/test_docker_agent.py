"""The agent in containers: its jar is there and cannot be written to, and the gate is reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kchaos as k
from kchaos.checkers.acts import HoldPoint
from kchaos.clusters.agent.byteman import byteman_jar
from kchaos.clusters.docker_driver.mounts import mounts_of
from kchaos.clusters.kafka.distribution import Distribution
from tests.support.docker_runs import run_of

if TYPE_CHECKING:
    from docker import APIClient


def test_what_a_jvm_reads_besides_is_mounted_read_only_also_for_an_image_of_its_own(tmp_path: Path):
    jar = tmp_path / "maven" / "byteman.jar"
    brought = Distribution(release="3.9.1", class_path=(), source="image:apache/kafka:3.9.1")

    mounts = mounts_of(tmp_path / "broker-0", brought, lambda _: Path("$JAVA_HOME"), [jar])

    assert [(mount["Source"], mount["ReadOnly"]) for mount in mounts] == [
        (str(jar), True),
        (str(tmp_path / "broker-0"), False),
    ]


@pytest.mark.docker
def test_a_thread_in_a_container_is_held_and_goes_on(tmp_path: Path, engine: APIClient):
    broker = k.BrokerSpec(id=0, kafka="2.0.1", points=("registered",))
    spec = k.ClusterSpec(brokers=(broker,))
    with k.DockerCluster(spec, work_directory=tmp_path / "held") as cluster:
        assert cluster.gate is not None
        assert cluster.gate.has_greeted(0, 1)
        inspected = engine.inspect_container(f"{run_of(cluster)}-broker-0")
        of_jar = [
            mount["RW"]
            for mount in inspected["Mounts"]
            if byteman_jar().is_relative_to(mount["Destination"])
        ]
        assert of_jar == [False]

        cluster.brokers[0].stop()
        hold = cluster.gate.hold(HoldPoint(name="h", broker=0, point="registered"))
        cluster.brokers[0].start()
        k.await_until(
            lambda: len(hold.held) == 1,
            timeout_s=60,
            waiting_for="the broker to come to the point",
            last_seen=cluster.gate.records,
            abort=cluster.brokers[0].check_running,
        )
        hold.release()
        cluster.brokers[0].await_ready()
        assert [hit.life for hit in hold.held] == [2]
