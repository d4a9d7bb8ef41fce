"""Images by themselves: the JVMs that can be made of them, those that are kept, and refusals."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kchaos.clusters.doctor import examine
from kchaos.clusters.errors import MachineError
from kchaos.clusters.host import LocalHost, Node
from kchaos.clusters.processes import boot_id
from kchaos.clusters.restored import criu, images
from kchaos.clusters.restored.cluster import RestoredCluster
from kchaos.clusters.restored.image import WantedJvm, restored
from kchaos.clusters.spec import ClusterSpec, brokers_of
from tests.support.restoring import needs_criu


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = LocalHost(tmp_path).node("broker", 1)
    node.directory.mkdir()
    yield node
    for port in node.reserved:
        port.release()


@pytest.fixture
def no_criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    criu.why_not.cache_clear()
    yield
    criu.why_not.cache_clear()


def command(folder: Path, *flags: str) -> list[str]:
    own = [f"-Dlog4j.configuration=file:{folder}/log4j.properties", f"-Djava.io.tmpdir={folder}"]
    return ["java", *flags, *own, "-cp", "a.jar", "kafka.Kafka", f"{folder}/server.properties"]


def test_jvms_that_differ_in_their_own_files_have_one_template(node: Node) -> None:
    first = WantedJvm.of(node, command(Path("/one"), "-Xmx9m"))
    other = WantedJvm.of(node, command(Path("/two"), "-Xmx9m"))

    assert first.role == "broker"
    assert first.template == other.template == ("java", "-Xmx9m", "-cp", "a.jar", "kafka.Kafka")
    assert other.configuration == "/two/server.properties"
    assert WantedJvm.of(node, command(Path("/two"), "-Xmx8m")).template != first.template


def test_images_of_boots_before_are_removed_and_so_are_those_that_nobody_used_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    kept = [tmp_path / "images" / f"{boot_id()[:8]}-2.8.2-{number}" for number in range(10)]
    other = tmp_path / "images" / "00000000-2.8.2-0"
    before = tmp_path / "images" / "00000000-2.8.2-1"
    ages = [*enumerate(kept), (5, other), (7, before)]
    for age, folder in ages:
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age * 600 - 5,) * 2)
    images._forget_old_ones()

    # `other` was used 50 minutes ago, perhaps on another machine; `before` 70 minutes ago.
    assert sorted((tmp_path / "images").iterdir()) == sorted([other, *kept[:7]])


@pytest.mark.usefixtures("no_criu")
def test_a_machine_without_criu_is_told_how_to_get_it_and_what_does_without(
    tmp_path: Path,
) -> None:
    spec = ClusterSpec(brokers=brokers_of("2.8.2"))
    with pytest.raises(MachineError, match=r"install it .*--driver local"):
        RestoredCluster(spec, work_directory=tmp_path / "cluster").start()
    answer = next(answer for answer in examine() if answer.name == "CRIU")
    assert answer.ok is None
    assert "there is no criu" in answer.detail
    assert "--driver restored" in answer.remedy


@pytest.mark.usefixtures("no_criu")
def test_only_root_can_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in criu.why_not()


@needs_criu
def test_an_image_that_is_broken_is_named(node: Node, tmp_path: Path) -> None:
    image = tmp_path / "broker-0"
    (image / "image").mkdir(parents=True)
    wanted = WantedJvm.of(node, command(node.directory))
    with pytest.raises(MachineError, match=rf"broker 1 .*{criu.LOG}; --driver local"):
        restored(image, wanted, node, node.directory / "console.log")
