"""Leftovers of a cluster of containers, however it ends: none."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.clusters.docker_driver import host
from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.docker_driver.engine import connect
from kchaos.clusters.docker_driver.leftovers import dead_runs, remove_dead, remove_run
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.errors import BrokerExited, MachineError
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.waiting import await_until
from tests.support.docker_runs import made_by, run_of

if TYPE_CHECKING:
    from docker import APIClient

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

RELEASE = "2.0.1"


def test_a_failed_start_leaves_nothing(tmp_path: Path, engine: APIClient) -> None:
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0,)), properties={"log.roll.ms": "never"})
    broken = DockerCluster(spec, work_directory=tmp_path / "work")
    with pytest.raises(BrokerExited, match="exited with code 1"):
        broken.start()
    assert made_by(engine, run_of(broken)) == []


def test_a_name_that_exists_is_refused_and_stays(tmp_path: Path, engine: APIClient) -> None:
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0,)))
    refused = DockerCluster(spec, work_directory=tmp_path / "work")
    somebodys = engine.create_container(
        base_image(), command=["true"], name=f"{run_of(refused)}-zookeeper-1"
    )
    try:
        with pytest.raises(MachineError, match=r"already in use .*remove what has that name"):
            refused.start()
        assert made_by(engine, run_of(refused)) == []
        assert engine.inspect_container(somebodys["Id"])["State"]["Status"] == "created"
    finally:
        engine.remove_container(somebodys["Id"])


def test_a_network_that_exists_is_refused_and_stays(tmp_path: Path, engine: APIClient) -> None:
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0,)))
    refused = DockerCluster(spec, work_directory=tmp_path / "work")
    somebodys = engine.create_network(run_of(refused))
    try:
        with pytest.raises(MachineError, match="already exists; remove what has that name"):
            refused.start()
        assert engine.inspect_network(somebodys["Id"])["Name"] == run_of(refused)
    finally:
        engine.remove_network(somebodys["Id"])


SCRIPT = """
import sys
from pathlib import Path
from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.spec import ClusterSpec, brokers_of

spec = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))
cluster = DockerCluster(spec, work_directory=Path(sys.argv[1]))
print(cluster._host.run, flush=True)
WAY
print("up", flush=True)
sys.stdin.read()
"""
IN_A_BLOCK = SCRIPT.replace(
    "WAY", "with cluster:\n    print('up', flush=True)\n    sys.stdin.read()"
)
NEVER_STOPPED = SCRIPT.replace("WAY", "cluster.start()")


@pytest.fixture
def harness(
    tmp_path: Path, engine: APIClient
) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts another harness; gives its process, once its cluster is up, and its run."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *, is_up: bool = True) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / f"w{len(started)}")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        run = process.stdout.readline().strip()
        if is_up:
            assert process.stdout.readline().strip() == "up"
        return process, run

    yield start
    for process in started:
        process.kill()
        process.communicate()
    remove_dead(engine)


@pytest.mark.parametrize("script", [IN_A_BLOCK, NEVER_STOPPED], ids=["block", "never stopped"])
def test_ctrl_c_leaves_nothing(script: str, harness: Callable[..., Any], engine: APIClient) -> None:
    process, run = harness(script)
    assert len(made_by(engine, run)) == 3
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert made_by(engine, run) == []


def test_what_a_killed_harness_left_is_removed_and_the_living_keep_theirs(
    harness: Callable[..., Any], engine: APIClient
) -> None:
    (dead, dead_run), (_alive, alive_run) = harness(IN_A_BLOCK), harness(IN_A_BLOCK)
    dead.kill()
    dead.wait()
    assert dead_runs(engine).items() >= {(dead_run, dead.pid)}
    done = subprocess.run(
        [sys.executable, "-m", "kchaos", "gc"], capture_output=True, text=True, check=True
    )
    said = f"removed the containers and the network {dead_run} of process {dead.pid}"
    assert said in done.stdout.splitlines()
    assert made_by(engine, dead_run) == []
    assert len(made_by(engine, alive_run)) == 3


def test_two_that_remove_the_same_leftovers_do_not_fail_each_other(
    harness: Callable[..., Any], engine: APIClient
) -> None:
    dead, dead_run = harness(IN_A_BLOCK)
    dead.kill()
    dead.wait()
    with ThreadPoolExecutor() as pool:
        removals = [pool.submit(remove_run, connect(), dead_run) for _ in range(4)]
    for removal in removals:
        removal.result()
    assert made_by(engine, dead_run) == []


def test_ctrl_c_while_it_starts_leaves_nothing(
    harness: Callable[..., Any], engine: APIClient
) -> None:
    process, run = harness(IN_A_BLOCK, is_up=False)
    await_until(
        lambda: len(made_by(engine, run)) > 1,
        timeout_s=60,
        waiting_for="the first container",
        last_seen=lambda: made_by(engine, run),
    )
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode != 0
    assert made_by(engine, run) == []


def test_a_stop_that_was_interrupted_can_be_made_again(
    tmp_path: Path, engine: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = DockerCluster(
        ClusterSpec(brokers=brokers_of(RELEASE, (0,))), work_directory=tmp_path / "work"
    )
    stopped.start()
    with monkeypatch.context() as patched:
        patched.setattr(host, "remove_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stopped.stop()
    assert len(made_by(engine, run_of(stopped))) == 3
    stopped.stop()
    assert made_by(engine, run_of(stopped)) == []


def interrupted(*_: object, **__: Any) -> None:
    raise KeyboardInterrupt
