"""Images that bring a Kafka and a Java of their own."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kchaos
from kchaos.clusters.docker_driver import kafka_image as kafka_image_module
from kchaos.clusters.docker_driver.kafka_image import find_in_image
from kchaos.clusters.docker_driver.leftovers import remove_run
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.docker_driver.owner import RUN
from kchaos.clusters.kafka.distribution import java_of, resolve
from tests.support.docker_runs import run_of

if TYPE_CHECKING:
    from docker import APIClient

PLACE = "opt/kafka/libs"
"""The folder of the jars in Apache's images."""

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


def made_of(engine: APIClient, files: bytes, *, tag: str) -> str:
    """The name of an image that has files besides those of the base image, and a Java of its own.

    Each has a tag of its own: two processes of a test run may have one each at the same time.
    """
    container = engine.create_container(base_image(), command=["true"])["Id"]
    engine.put_archive(container, "/", files)
    environment = {"Env": ["JAVA_HOME=/opt/java"]}
    engine.commit(container, repository="kchaos-test/kafka", tag=tag, conf=environment)
    engine.remove_container(container)
    return f"kchaos-test/kafka:{tag}"


@pytest.fixture(params=["2.8.2", "4.1.2"])
def kafka_image(engine: APIClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """An image with jars where Apache's are, and a Java that JAVA_HOME names."""
    distribution = resolve(request.param)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for jar in distribution.class_path:
            tar.add(jar, f"{PLACE}/{jar.name}")
        tar.addfile(tarfile.TarInfo(f"{PLACE}/kafka_2.13-{request.param}-test-sources.jar"))
        tar.add(java_of(distribution), "opt/java")
    image = made_of(engine, buffer.getvalue(), tag=request.param)
    yield image
    engine.remove_image(image, force=True)


def test_an_image_with_a_kafka_is_used_by_name(
    kafka_image: str,
    tmp_path: Path,
    engine: APIClient,
    round_trip: Callable[..., list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
):
    release = kafka_image.rpartition(":")[2]
    spec = kchaos.ClusterSpec(
        brokers=kchaos.brokers_of(f"image:{kafka_image}", (0,)),
        mode="kraft" if release == "4.1.2" else None,
    )
    # Neither a base image nor a Java of ours is needed.
    nowhere = "registry.invalid/nobody-has-this:1"
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    with kchaos.DockerCluster(
        spec, work_directory=tmp_path / "work", image=nowhere, offline=True
    ) as cluster:
        assert cluster.brokers[0].release == release
        assert cluster.description["images"].startswith(f"{kafka_image}@sha256:")
        assert not (tmp_path / "cache" / "java").exists()
        inspected = engine.inspect_container(f"{run_of(cluster)}-broker-0")
        assert inspected["Config"]["Image"] == kafka_image
        mounts = [mount["Source"] for mount in inspected["HostConfig"]["Mounts"]]
        assert mounts == [str(cluster.work_directory / "broker-0")]
        assert round_trip(cluster, [b"a"]) == [b"a"]


def test_an_image_of_confluents_has_the_kafka_that_its_jars_are_of(engine: APIClient):
    """Nothing of an image is run when it is looked into, and the name of a jar is enough."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("kafka_2.13-6.2.15-ccs-test-sources.jar", "kafka_2.13-6.2.15-ccs.jar"):
            tar.addfile(tarfile.TarInfo(f"usr/share/java/kafka/{name}"))
    image = made_of(engine, buffer.getvalue(), tag="of-confluent")
    try:
        kafka = find_in_image(f"image:{image}", offline=True, say=print)
        assert kafka.release == "2.8.2"
        assert kafka.class_path == (Path("/usr/share/java/kafka/*"),)
    finally:
        engine.remove_image(image, force=True)


def test_a_look_into_an_image_leaves_what_gc_finds_until_it_is_over(
    engine: APIClient, monkeypatch: pytest.MonkeyPatch
):
    looked: list[str] = []
    monkeypatch.setattr(kafka_image_module, "remove_run", lambda _api, run: looked.append(run))
    with pytest.raises(kchaos.ReleaseError):
        find_in_image(f"image:{base_image()}", offline=True, say=print)
    label = {"label": f"{RUN}={looked[0]}"}
    assert len(engine.containers(all=True, filters=label)) == 1
    remove_run(engine, looked[0])
    assert engine.containers(all=True, filters=label) == []


def test_an_image_without_a_kafka_is_refused(tmp_path: Path):
    spec = kchaos.ClusterSpec(brokers=kchaos.brokers_of(f"image:{base_image()}", (0,)))
    with pytest.raises(kchaos.ReleaseError, match="is it a Kafka image"):
        kchaos.DockerCluster(spec, work_directory=tmp_path / "work").start()


def test_processes_cannot_come_from_an_image(tmp_path: Path):
    spec = kchaos.ClusterSpec(brokers=kchaos.brokers_of("image:apache/kafka:3.7.0", (0,)))
    with pytest.raises(kchaos.ReleaseError, match="only --driver docker can start it"):
        kchaos.LocalCluster(spec, work_directory=tmp_path / "work").start()
