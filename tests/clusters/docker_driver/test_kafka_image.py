"""Images that bring a Kafka and a Java of their own."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusters.distribution import java_of, resolve
from clusters.docker_driver.cluster import DockerCluster
from clusters.docker_driver.options import base_image
from clusters.errors import ReleaseError
from clusters.local import LocalCluster
from clusters.spec import ClusterSpec, brokers_of

if TYPE_CHECKING:
    from docker import APIClient

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


@pytest.fixture
def kafka_image(engine: APIClient) -> Iterator[str]:
    """An image as Apache's is laid out: jars in /opt/kafka/libs, a Java that JAVA_HOME names."""
    distribution = resolve("2.8.2")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for jar in distribution.class_path:
            tar.add(jar, f"opt/kafka/libs/{jar.name}")
        tar.add(java_of(distribution), "opt/java")
    container = engine.create_container(base_image(), command=["true"])["Id"]
    engine.put_archive(container, "/", buffer.getvalue())
    environment = {"Env": ["JAVA_HOME=/opt/java"]}
    engine.commit(container, repository="kchaos-test/kafka", tag="of-2.8", conf=environment)
    engine.remove_container(container)
    yield "kchaos-test/kafka:of-2.8"
    engine.remove_image("kchaos-test/kafka:of-2.8", force=True)


def test_an_image_with_a_kafka_is_used_by_name(
    kafka_image: str, tmp_path: Path, engine: APIClient, round_trip: Callable[..., list[bytes]]
) -> None:
    spec = ClusterSpec(brokers=brokers_of(f"image:{kafka_image}", (0, 1)))
    with DockerCluster(spec, work_directory=tmp_path / "work") as cluster:
        assert cluster.brokers[0].release == "2.8.2"
        run = cluster._ground.run  # type: ignore[attr-defined]
        found = engine.inspect_container(f"{run}-broker-1")
        assert found["Config"]["Image"] == kafka_image
        mounts = [mount["Source"] for mount in found["HostConfig"]["Mounts"]]
        assert mounts == [str(cluster.work_directory / "broker-1")]
        assert round_trip(cluster, [b"a"]) == [b"a"]


def test_an_image_without_a_kafka_is_refused(tmp_path: Path) -> None:
    spec = ClusterSpec(brokers=brokers_of(f"image:{base_image()}", (0,)))
    with pytest.raises(ReleaseError, match="is it a Kafka image"):
        DockerCluster(spec, work_directory=tmp_path / "work").start()


def test_processes_cannot_come_from_an_image(tmp_path: Path) -> None:
    spec = ClusterSpec(brokers=brokers_of("image:apache/kafka:3.7.0", (0,)))
    with pytest.raises(ReleaseError, match="only --driver docker can start it"):
        LocalCluster(spec, work_directory=tmp_path / "work").start()
