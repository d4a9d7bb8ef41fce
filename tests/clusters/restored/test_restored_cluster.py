"""Clusters whose JVMs are made of images, on real releases."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kchaos as k
from kchaos.clusters.restored.cluster import RestoredCluster
from kchaos.clusters.restored.training import TOPIC
from kchaos.clusters.start import jvm_cluster
from kchaos.clusters.system.cache import cache_directory
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.system.processes import process_start_time

pytestmark = [pytest.mark.cluster, pytest.mark.needs("criu")]

OURS = os.readlink("/proc/self/ns/pid")
HANG = """
import signal
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.restored.cluster import RestoredCluster
from kchaos.clusters.spec import ClusterSpec, brokers_of
spec = ClusterSpec(brokers=brokers_of("2.8.2", (0,)))
with work_directory("hang") as folder, RestoredCluster(spec, work_directory=folder) as cluster:
    print(cluster.brokers[0].pid, cluster.zookeeper_members[0].process.pid, flush=True)
    signal.pause()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with work_directory("restored") as folder:
        yield folder


def namespace(pid: int | None) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


@pytest.mark.parametrize("release", ["1.1.1", "4.1.2"])
def test_restored_jvms_serve_end_and_begin_again(
    release: str, folder: Path, round_trip: Callable[..., list[bytes]]
):
    spec = k.ClusterSpec(brokers=k.brokers_of(release, (0, 1)))
    with RestoredCluster(spec, work_directory=folder) as cluster:
        assert cluster.description["engine"].startswith("criu ")
        jvms = [*cluster.brokers.values(), *cluster.controllers.values()]
        pids = [jvm.pid for jvm in jvms]
        pids += [member.process.pid for member in cluster.zookeeper_members]
        assert len({OURS, *map(namespace, pids)}) == 1 + len(pids) == 4
        assert round_trip(cluster, [b"a", b"b"]) == [b"a", b"b"]

        broker = cluster.brokers[1]
        broker.pause()
        k.await_until(
            lambda: broker.is_paused,
            timeout_s=30,
            waiting_for="all threads to be stopped",
            last_seen=lambda: broker.is_paused,
        )
        broker.resume()
        broker.stop()
        assert broker.exit_code == 128 + signal.SIGTERM
        broker.start()
        broker.await_ready()
        assert round_trip(cluster, [b"c"]) == [b"c"]
        broker.kill()
        assert broker.exit_code == -signal.SIGKILL
        assert "started" in broker.server_log.read_text()
    images = cache_directory() / "images"
    assert [*images.glob(f"*-{release}-*/broker-0/data/{TOPIC}-0/*.log")], "it has served before"


@pytest.mark.parametrize("release", ["1.1.1", "4.1.2"])
def test_each_life_of_a_broker_comes_to_its_points_restored_or_not(release: str, folder: Path):
    follower = k.BrokerSpec(id=1, kafka=release, points=("send-fetch",))
    brokers = (k.BrokerSpec(id=0, kafka=release), follower)
    # The JVM takes the agent's options as one word, whatever is in them.
    with RestoredCluster(k.ClusterSpec(brokers=brokers), work_directory=folder / "a=b") as cluster:
        gate, broker = cluster.gate, cluster.brokers[1]
        assert gate is not None
        cluster.metadata.create_topic("t", [[0, 1]], {})

        def await_fetch(life: int) -> None:
            k.await_until(
                lambda: gate.hits(1, "send-fetch", life=life) > 0,
                timeout_s=60,
                waiting_for=f"broker 1 to fetch in its life {life}",
                last_seen=gate.records,
            )

        await_fetch(life=1)
        assert namespace(broker.pid) != OURS
        broker.stop()
        broker.start()
        broker.await_ready()
        await_fetch(life=2)
        assert namespace(broker.pid) != OURS
        broker.stop()
        # No image has flags of a broker's own.
        broker.jvm_flags = ("-Dof.its=own",)
        broker.start()
        broker.await_ready()
        await_fetch(life=3)
        assert namespace(broker.pid) == OURS


def test_a_restored_jvm_ends_where_its_agent_cannot_be_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    no_jar = folder / "byteman.jar"
    no_jar.write_text("no archive")
    monkeypatch.setattr(jvm_cluster, "byteman_jar", lambda **_options: no_jar)
    broker = k.BrokerSpec(id=1, kafka="1.1.1", points=("fetch-read",))
    cluster = RestoredCluster(k.ClusterSpec(brokers=(broker,)), work_directory=folder)

    with pytest.raises(
        k.BrokerExited, match=r"agent .*byteman\.jar=script:.* cannot be loaded: return code: 1"
    ):
        cluster.start()


def test_restored_jvms_end_with_the_process_that_asked_for_them():
    process = subprocess.Popen([sys.executable, "-c", HANG], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    assert len(pids) == 2
    k.await_until(
        lambda: [process_start_time(pid) for pid in pids] == [None, None],
        timeout_s=30,
        waiting_for="the restored JVMs to end",
        last_seen=lambda: [process_start_time(pid) for pid in pids],
    )


def test_two_runs_of_one_image_go_as_predicted_and_name_no_fetch_session_alike(tmp_path: Path):
    """Images have a seed in them, from which each leader of each run drew the same names."""
    sessions = []
    for _ in range(2):
        run = k.play(
            k.draw(31000, kafka="2.8.2", steps=4),
            options=k.RunOptions(runs_directory=tmp_path, driver="restored"),
            say=lambda _: None,
        )
        results = k.judge(run)
        assert results.conforms, results.reason or results.unknown
        lines = (run.path / "links.jsonl").read_text().splitlines()
        details = [json.loads(line)["detail"] or {} for line in lines]
        sessions.append({detail["session_id"] for detail in details if detail.get("session_id")})
    assert sessions[0]
    assert sessions[1]
    assert not sessions[0] & sessions[1]
