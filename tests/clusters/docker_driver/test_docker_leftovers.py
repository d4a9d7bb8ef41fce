"""Leftovers of a cluster of containers, however it ends: none."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kchaos as k
from kchaos.clusters.docker_driver.engine import connect
from kchaos.clusters.docker_driver.leftovers import dead_runs, remove_dead, remove_run
from kchaos.clusters.docker_driver.options import base_image
from tests.support.docker_runs import made_by, run_of

if TYPE_CHECKING:
    from docker import APIClient

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

RELEASE = "2.0.1"


def test_a_name_that_exists_is_refused_and_stays(tmp_path: Path, engine: APIClient):
    spec = k.ClusterSpec(brokers=k.brokers_of(RELEASE, (0,)))
    refused = k.DockerCluster(spec, work_directory=tmp_path / "work")
    somebodys = engine.create_container(
        base_image(), command=["true"], name=f"{run_of(refused)}-zookeeper-1"
    )
    try:
        with pytest.raises(k.MachineError, match=r"already in use .*remove what has that name"):
            refused.start()
        assert made_by(engine, run_of(refused)) == []
        assert engine.inspect_container(somebodys["Id"])["State"]["Status"] == "created"
    finally:
        engine.remove_container(somebodys["Id"])


def test_a_network_that_exists_is_refused_and_stays(tmp_path: Path, engine: APIClient):
    spec = k.ClusterSpec(brokers=k.brokers_of(RELEASE, (0,)))
    refused = k.DockerCluster(spec, work_directory=tmp_path / "work")
    somebodys = engine.create_network(run_of(refused))
    try:
        with pytest.raises(k.MachineError, match="already exists; remove what has that name"):
            refused.start()
        assert engine.inspect_network(somebodys["Id"])["Name"] == run_of(refused)
    finally:
        engine.remove_network(somebodys["Id"])


CLUSTER = """
import sys
from pathlib import Path
from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.spec import ClusterSpec, brokers_of

spec = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))
cluster = DockerCluster(spec, work_directory=Path(sys.argv[1]))
print(cluster._host.run, flush=True)
with cluster:
    print("up", flush=True)
    sys.stdin.read()
"""
NEVER_STOPPED = """
import sys
from pathlib import Path
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.docker_driver.host import DockerHost
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.spec import ClusterSpec, brokers_of

spec = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))
host = DockerHost(
    Path(sys.argv[1]), java_of=java_of, image=base_image(), offline=False, say=print
)
print(host.run, flush=True)
host.open(spec)
node = host.node("broker", 0)
node.directory.mkdir(parents=True)
process = host.spawn(node, ["sleep", "600"], resolve("2.0.1"), node.directory / "console.log")
assert process.pid
print("up", flush=True)
sys.stdin.read()
"""
"""A host as clusters have it. What its container runs is of no matter, and a JVM takes seconds."""


@pytest.fixture
def harness(
    tmp_path: Path, engine: APIClient
) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts another harness; gives its process, once its cluster is up, and its run."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *, is_up: bool = True) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / f"w{len(started)}")],
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


@pytest.mark.parametrize(
    ("script", "made"), [(CLUSTER, 3), (NEVER_STOPPED, 2)], ids=["block", "never stopped"]
)
def test_ctrl_c_leaves_nothing(
    script: str, made: int, harness: Callable[..., Any], engine: APIClient
):
    process, run = harness(script)
    assert len(made_by(engine, run)) == made
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert made_by(engine, run) == []


def test_what_a_killed_harness_left_is_removed_and_the_living_keep_theirs(
    harness: Callable[..., Any], engine: APIClient
):
    (dead, dead_run), (_alive, alive_run) = harness(NEVER_STOPPED), harness(NEVER_STOPPED)
    dead.kill()
    dead.wait()
    assert dead_runs(engine).items() >= {(dead_run, dead.pid)}
    done = subprocess.run(
        [sys.executable, "-m", "kchaos", "gc"], capture_output=True, text=True, check=True
    )
    said = f"removed the containers and the network {dead_run} of process {dead.pid}"
    assert said in done.stdout.splitlines()
    assert made_by(engine, dead_run) == []
    assert len(made_by(engine, alive_run)) == 2


def test_two_that_remove_the_same_leftovers_do_not_fail_each_other(
    harness: Callable[..., Any], engine: APIClient
):
    dead, dead_run = harness(NEVER_STOPPED)
    dead.kill()
    dead.wait()
    with ThreadPoolExecutor() as pool:
        removals = [pool.submit(remove_run, connect(), dead_run) for _ in range(4)]
    for removal in removals:
        removal.result()
    assert made_by(engine, dead_run) == []


def test_ctrl_c_while_it_starts_leaves_nothing(harness: Callable[..., Any], engine: APIClient):
    process, run = harness(CLUSTER, is_up=False)
    k.await_until(
        lambda: len(made_by(engine, run)) > 1,
        timeout_s=60,
        waiting_for="the first container",
        last_seen=lambda: made_by(engine, run),
    )
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode != 0
    assert made_by(engine, run) == []
