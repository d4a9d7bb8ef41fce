import contextlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.system.processes import process_start_time
from tests.support.drivers import cluster_of

pytestmark = pytest.mark.cluster


def spec_of(kafka: str, *ids: int, **rest: Any) -> k.ClusterSpec:
    return k.ClusterSpec(brokers=k.brokers_of(kafka, ids), **rest)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[k.LocalCluster]:
    spec = spec_of("1.1.1", 0, 2, first_broker=2)
    with k.LocalCluster(spec, work_directory=tmp_path_factory.mktemp("local") / "one") as started:
        yield started


def czxid(cluster: k.LocalCluster, broker_id: int) -> int:
    return int(cluster.zookeeper().exists(f"/brokers/ids/{broker_id}").czxid)


def bring_back(
    cluster: k.LocalCluster, broker_id: int, properties: dict[str, str] | None = None
) -> None:
    """Start a killed broker once its old session is over, as its registration would fail."""
    k.await_until(
        lambda: cluster.zookeeper().exists(f"/brokers/ids/{broker_id}") is None,
        timeout_s=30,
        waiting_for=f"the session of broker {broker_id} to expire",
        last_seen=lambda: cluster.zookeeper().exists(f"/brokers/ids/{broker_id}"),
    )
    cluster.brokers[broker_id].configure(properties=properties)
    cluster.brokers[broker_id].start()
    cluster.brokers[broker_id].await_ready()


def test_the_driver_offers_what_the_protocols_promise(cluster: k.LocalCluster):
    assert isinstance(cluster, k.Cluster)
    assert isinstance(cluster.brokers[0], k.Broker)
    assert {k.Killable, k.Pausable} <= cluster.brokers[0].capabilities


def test_the_first_broker_is_the_controller(cluster: k.LocalCluster):
    assert json.loads(cluster.zookeeper().get("/controller")[0])["brokerid"] == 2


def test_no_broker_was_refused_by_zookeeper_at_its_start(cluster: k.LocalCluster):
    for broker in cluster.brokers.values():
        client = [line for line in broker.server_log.read_text().splitlines() if "Cnxn" in line]
        assert [line for line in client if "Session establishment complete" in line]
        assert [line for line in client if "refused" in line or "reset" in line] == []


def test_a_broker_knows_two_addresses_so_that_it_reconnects_without_the_longer_pause(
    cluster: k.LocalCluster,
):
    for broker in cluster.brokers.values():
        assert len(broker.properties["zookeeper.connect"].split(",")) == 2


def test_brokers_advertise_their_link_to_each_other_and_their_own_port_to_clients(
    cluster: k.LocalCluster,
):
    broker = cluster.brokers[0]
    znode = json.loads(cluster.zookeeper().get("/brokers/ids/0")[0])

    internal, client = sorted(znode["endpoints"], key=lambda e: not e.startswith("INTERNAL"))

    assert client == f"CLIENT://{broker.client_address}"
    assert internal not in broker.properties["listeners"]


def test_a_killed_broker_comes_back_with_a_newer_znode_and_its_logs(
    cluster: k.LocalCluster, round_trip: Callable[..., list[bytes]]
):
    round_trip(cluster, [b"kept"], topic="kept")
    broker = cluster.brokers[0]
    before, pid = czxid(cluster, 0), broker.pid

    broker.kill()
    assert (broker.exit_code, broker.pid, broker.is_running) == (-signal.SIGKILL, None, False)
    bring_back(cluster, 0, {"replica.lag.time.max.ms": "12345"})

    assert broker.pid not in (None, pid)
    assert czxid(cluster, 0) > before
    assert broker.properties["replica.lag.time.max.ms"] == "12345"
    assert (broker.log_directory / "kept-0").is_dir()


def test_a_stopped_broker_shuts_down_cleanly_and_a_paused_one_stays_a_process(
    cluster: k.LocalCluster,
):
    broker = cluster.brokers[0]
    broker.pause()
    assert broker.is_running
    with pytest.raises(k.AwaitTimeout, match=r"its threads in .*console\.log"):
        broker.await_ready(timeout_s=0)
    broker.resume()
    k.await_until(
        lambda: "Full thread dump" in broker.console_log.read_text(),
        timeout_s=30,
        waiting_for="the threads of a broker that was not ready in time",
        last_seen=broker.console_log.read_text,
    )

    broker.stop()
    assert broker.exit_code is not None
    assert (broker.log_directory / ".kafka_cleanshutdown").exists()
    with pytest.raises(k.ClusterError, match="broker 0 has no process"):
        broker.pause()

    broker.start()
    broker.await_ready()
    with pytest.raises(k.ClusterError, match="runs already"):
        broker.start()


def test_a_port_that_someone_took_and_a_broker_that_exits_while_awaited_are_reported_at_once(
    cluster: k.LocalCluster,
):
    broker = cluster.brokers[0]
    broker.kill()
    host, port = broker.client_address.split(":")
    with socket.create_server((host, int(port))), pytest.raises(k.MachineError, match=port):
        broker.start()

    broker.configure(properties={"log.segment.bytes": "-1"})
    broker.start()
    with pytest.raises(k.BrokerExited, match="exited with code 1") as caught:
        broker.await_ready(timeout_s=3600)

    assert caught.value.exit_code == 1
    assert any("log.segment.bytes" in line for line in caught.value.last_lines)

    bring_back(cluster, 0, {"log.segment.bytes": "1073741824"})


def test_releases_can_be_mixed_and_then_speak_the_oldest_protocol(
    tmp_path: Path, round_trip: Callable[..., list[bytes]]
):
    brokers = (k.BrokerSpec(id=0, kafka="2.0.1"), k.BrokerSpec(id=1, kafka="2.1.1"))
    spec = k.ClusterSpec(brokers=brokers, first_broker=0)
    with cluster_of(spec, work_directory=tmp_path / "mixed") as mixed:
        assert [broker.release for broker in mixed.brokers.values()] == ["2.0.1", "2.1.1"]
        assert {b.properties["inter.broker.protocol.version"] for b in mixed.brokers.values()} == {
            "2.0"
        }
        assert round_trip(mixed, [b"both"]) == [b"both"]


HARNESS = """
import json, sys, time
from pathlib import Path
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
spec = ClusterSpec(brokers=(BrokerSpec(id=0, kafka="1.1.1", points=("registered",)),))
with LocalCluster(spec, work_directory=Path(sys.argv[1])) as cluster:
    pids = [cluster.brokers[0].pid] + [m.process.pid for m in cluster.zookeeper_members]
    print(json.dumps({"pids": pids, "ports": cluster.bootstrap_servers}), flush=True)
    sys.stdin.read()
"""


def start_harness(work_directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HARNESS), str(work_directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_two_harnesses_at_once_neither_kill_9_nor_ctrl_c_leaves_a_process(tmp_path: Path):
    with contextlib.ExitStack() as ending:
        harnesses = []
        for name in ("killed", "interrupted"):
            harnesses.append(ending.enter_context(start_harness(tmp_path / name)))
            ending.callback(harnesses[-1].kill)
        said = [json.loads(h.stdout.readline()) for h in harnesses if h.stdout is not None]
        killed, interrupted = [each["pids"] for each in said]
        assert said[0]["ports"] != said[1]["ports"]
        assert all(process_start_time(pid) for pid in [*killed, *interrupted])

        harnesses[0].kill()
        await_ended(killed)
        assert all(process_start_time(pid) for pid in interrupted), "the other one's JVMs"
        harnesses[1].send_signal(signal.SIGINT)
        await_ended(interrupted)


def await_ended(pids: list[int]) -> None:
    k.await_until(
        lambda: not any(process_start_time(pid) for pid in pids),
        timeout_s=30,
        waiting_for=f"{pids} to end after their harness",
        last_seen=lambda: [process_start_time(pid) for pid in pids],
    )


def test_a_cluster_that_cannot_start_leaves_nothing(tmp_path: Path):
    spec = spec_of("1.1.1", 0, properties={"num.network.threads": "none"})
    cluster = k.LocalCluster(spec, work_directory=tmp_path / "bad")
    with pytest.raises(k.BrokerExited, match=r"num\.network\.threads"):
        cluster.start()

    assert not cluster.brokers[0].is_running
    assert all(member.process.exit_code is not None for member in cluster.zookeeper_members)


def test_a_cluster_that_does_not_fit_into_memory_is_refused_before_it_starts(tmp_path: Path):
    spec = spec_of("1.1.1", 0, broker_heap_mib=100_000_000)
    with pytest.raises(k.MachineError, match="2 JVMs need about 1000003"):
        k.LocalCluster(spec, work_directory=tmp_path / "big").start()
    assert not (tmp_path / "big").exists()


def test_a_work_directory_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    cluster = k.LocalCluster(spec_of("1.1.1", 0), work_directory=tmp_path / "file" / "work")
    with pytest.raises(k.MachineError, match="check the free space and the permissions"):
        cluster.start()
