"""Images by themselves: the JVMs that can be made of them, those that are kept, and refusals."""

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kchaos as k
from kchaos.clusters.front.doctor import examine
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.restored import criu, image, images, main_class
from kchaos.clusters.restored.cluster import RestoringHost
from kchaos.clusters.restored.image import ImageKey, WantedJvm, restored
from kchaos.clusters.start.host import LocalHost, Node
from kchaos.clusters.system.processes import Child, boot_id, process_start_time, spawn


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


def test_jvms_that_differ_in_their_own_files_have_one_template(node: Node):
    first = WantedJvm.of(node, command(Path("/one"), "-Xmx9m"))
    other = WantedJvm.of(node, command(Path("/two"), "-Xmx9m"))

    assert first.role == "broker"
    assert first.template == other.template == ("java", "-Xmx9m", "-cp", "a.jar", "kafka.Kafka")
    assert other.configuration == "/two/server.properties"
    assert WantedJvm.of(node, command(Path("/two"), "-Xmx8m")).template != first.template


@pytest.mark.slow
def test_the_main_class_needs_no_other_file_once_an_image_has_it():
    assert [file.name for file in main_class.compiled().iterdir()] == ["Restorable.class"]


def test_images_of_boots_before_are_removed_and_so_are_those_that_nobody_used_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    spec = k.ClusterSpec(brokers=k.brokers_of("2.8.2"))
    with pytest.raises(k.MachineError, match=r"install criu .*--driver local"):
        RestoringHost(tmp_path / "cluster", offline=True, say=None).open(spec)
    answer = next(answer for answer in examine() if answer.name == "CRIU")
    assert answer.ok is None
    assert "there is no criu" in answer.detail
    assert "--driver restored" in answer.remedy


@pytest.mark.usefixtures("no_criu")
def test_only_root_can_restore(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in criu.why_not()


def test_an_older_criu_is_refused_even_where_it_works(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", str)
    monkeypatch.setattr(criu, "version", lambda: "3.17.1")
    criu.why_not.cache_clear()
    assert "criu 3.17.1 was never tried" in criu.why_not()
    criu.why_not.cache_clear()


@pytest.mark.needs("criu")
def test_a_cache_in_which_java_finds_no_class_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "a:b"))
    host = RestoringHost(tmp_path / "work", offline=True, say=None)
    with pytest.raises(k.MachineError, match=r"a:b: set KCHAOS_CACHE .* or .* --driver local"):
        host.open(k.ClusterSpec(brokers=k.brokers_of("2.8.2", (0,))))
    answer = next(answer for answer in examine() if answer.name == "CRIU")
    assert (answer.ok, "a:b: set KCHAOS_CACHE" in answer.detail) == (None, True)


def test_files_of_an_image_are_named_as_criu_knows_them_also_behind_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    words = criu.restore_command(tmp_path, tmp_path, {tmp_path / "link" / "lines": 7})
    assert f"fd[7]:{tmp_path / 'real' / 'lines'}".replace(":/", ":") in words


def test_of_images_that_cannot_be_written_the_logs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(folder: Path, key: ImageKey, *, offline: bool) -> None:
        (folder / "broker-0" / "image").mkdir(parents=True)
        (folder / "broker-0" / "image" / "pages-1.img").touch()
        (folder / "broker-0" / "console.log").touch()
        raise k.MachineError("no space is left")

    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setattr(images, "train", fails)
    kafka = Distribution(release="2.8.2", class_path=(), source="maven")
    key = ImageKey(java="java", distribution=kafka, is_kraft=False, broker_heap_mib=9)
    wanted = WantedJvm(role="broker", template=(), configuration="")
    for _ in range(2):
        with pytest.raises(k.MachineError, match="no space"):
            images.image_of(key, wanted, offline=True, say=lambda _: None)
    left = [file.name for file in tmp_path.glob("images/*/**/*") if file.is_file()]
    assert left == ["console.log"]


@pytest.mark.parametrize("sockets_left", [2, 5])
def test_where_a_server_leaves_a_socket_open_another_one_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sockets_left: int
):
    tries: list[Path] = []

    def leaves_a_socket(folder: Path, _key: ImageKey, *, offline: bool) -> None:
        tries.append(folder)
        assert offline
        assert not any(folder.iterdir())
        (folder / "console.log").touch()
        if len(tries) <= sockets_left:
            raise criu.SocketLeftOpen("a socket is left open")

    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setattr(images, "train", leaves_a_socket)
    kafka = Distribution(release="2.8.2", class_path=(), source="maven")
    key = ImageKey(java="java", distribution=kafka, is_kraft=False, broker_heap_mib=9)
    wanted = WantedJvm(role="broker", template=(), configuration="")
    if sockets_left == 5:
        with pytest.raises(criu.SocketLeftOpen):
            images.image_of(key, wanted, offline=True, say=lambda _: None)
    else:
        images.image_of(key, wanted, offline=True, say=lambda _: None)
    assert len(tries) == min(sockets_left + 1, 5)


def test_a_process_that_is_given_up_while_it_is_made_is_ended(tmp_path: Path):
    pid_file = tmp_path / "pid"
    script = f"sleep 300 & echo $! >{pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    parent = spawn(["sh", "-c", script], log_file=tmp_path / "log", cwd=tmp_path)
    image._give_up(parent, pid_file)
    assert parent.exit_code is not None
    k.await_until(
        lambda: process_start_time(int(pid_file.read_text())) is None,
        timeout_s=30,
        waiting_for="the process to be gone",
        last_seen=pid_file.read_text,
    )


@pytest.mark.needs("criu")
def test_an_image_that_is_broken_is_named(node: Node, tmp_path: Path):
    folder = tmp_path / "broker-0"
    (folder / "image").mkdir(parents=True)
    wanted = WantedJvm.of(node, command(node.directory))
    with pytest.raises(k.MachineError, match=rf"broker 1 .*{criu.LOG}; --driver local"):
        restored(folder, wanted, node, node.directory / "console.log")


def test_a_jvm_that_has_ended_when_it_is_looked_for_is_no_fault_of_criu(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def made_and_ended(*_command: object, **_options: object) -> Child:
        child = spawn(["true"], log_file=tmp_path / "log", cwd=tmp_path, name="broker 1")
        child.await_exit(timeout_s=30)
        (node.directory / criu.PID_FILE).write_text(str(child.pid))
        return child

    monkeypatch.setattr(image, "spawn", made_and_ended)
    wanted = WantedJvm(role="broker", template=(), configuration="")

    assert restored(tmp_path, wanted, node, tmp_path / "console.log").exit_code == 0


def test_a_connection_is_seen_until_it_is_closed():
    def between(*ports: int) -> list[str]:
        ends = [f"127.0.0.1 port {port}" for port in ports]
        both = {f"{ends[0]} to {ends[1]}", f"{ends[1]} to {ends[0]}"}
        return [address for address in criu.sockets(os.getpid()) if address in both]

    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as asking, server.accept()[0]:
            ports = (asking.getsockname()[1], server.getsockname()[1])
            assert len(between(*ports)) == 2
        assert between(*ports) == []
    assert criu.sockets(0) == []


@pytest.mark.needs("criu")
def test_a_process_is_written_down_when_it_has_closed_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    looked = threading.Event()
    sockets = criu.sockets

    def look(pid: int) -> list[str]:
        seen = sockets(pid)
        looked.set()
        return seen

    connects = (
        "import socket, sys, time\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as it: it.recv(1)\n"
        "time.sleep(60)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = str(server.getsockname()[1])
        alone = ("unshare", "--pid", "--fork", "--kill-child", "setsid")
        child = spawn(
            [*alone, sys.executable, "-c", connects, port],
            log_file=tmp_path / "log",
            cwd=tmp_path,
            name="connected",
        )
        try:
            accepted = server.accept()[0]
            children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
            pid = int(children.read_text().split()[0])
            assert len(sockets(pid)) == 1
            monkeypatch.setattr(criu, "sockets", look)
            with ThreadPoolExecutor() as pool:
                dumped = pool.submit(criu.dump, pid, tmp_path / "image")
                assert looked.wait(60)
                accepted.close()
                dumped.result()
        finally:
            child.kill()
    assert (tmp_path / "image" / "inventory.img").is_file()
