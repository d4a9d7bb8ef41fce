"""Clusters of containers: the same promises as local ones, and what only containers have."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.clusters.api import Broker, Cluster, Disconnectable, Killable, Pausable
from kchaos.clusters.ask.probe import answers_at
from kchaos.clusters.docker_driver import host
from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.docker_driver.engine import engine_info
from kchaos.clusters.docker_driver.network import why_unbindable
from kchaos.clusters.errors import BrokerExited, MachineError, explained
from kchaos.clusters.links import Links
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.system.waiting import await_until
from kchaos.faults import CutLink, CutZooKeeper, DisconnectNetwork, ExpireSession, PauseBroker
from kchaos.faults.api import MemoryJournal
from kchaos.faults.errors import NotAvailable
from kchaos.faults.observation import observe_broker
from tests.support.docker_runs import made_by, run_of

if TYPE_CHECKING:
    from docker import APIClient

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

RELEASE = "2.0.1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, engine: APIClient) -> Iterator[DockerCluster]:
    spec = ClusterSpec(
        brokers=brokers_of(RELEASE, (0, 1)), first_broker=0, broker_memory_mib=700, broker_cpus=1.5
    )
    work = tmp_path_factory.mktemp("docker") / "one"
    with DockerCluster(spec, work_directory=work) as started:
        yield started


def inspected(engine: APIClient, cluster: DockerCluster, broker_id: int) -> Any:
    return engine.inspect_container(f"{run_of(cluster)}-broker-{broker_id}")


def await_unregistered(cluster: DockerCluster, broker: int) -> None:
    """Returns once a dead broker's session has expired: before, it cannot register again."""
    await_until(
        lambda: broker not in cluster.metadata.registered(),
        timeout_s=30,
        waiting_for=f"the session of broker {broker} to expire",
        last_seen=cluster.metadata.registered,
    )


def test_the_driver_offers_what_the_protocols_promise(cluster: DockerCluster):
    assert isinstance(cluster, Cluster)
    assert isinstance(cluster.brokers[0], Broker)
    assert {Killable, Pausable, Disconnectable} <= cluster.brokers[0].capabilities


def test_records_written_from_this_machine_are_read_again(
    cluster: DockerCluster, round_trip: Callable[..., list[bytes]]
):
    assert round_trip(cluster, [b"a", b"b", b"c"]) == [b"a", b"b", b"c"]


def test_brokers_write_their_files_here_as_this_user(cluster: DockerCluster):
    broker = cluster.brokers[0]
    checkpoint = broker.log_directory / "meta.properties"
    assert checkpoint.stat().st_uid == os.getuid()
    assert "started (kafka.server.KafkaServer)" in broker.server_log.read_text()


def test_a_container_has_no_more_rights_than_it_needs(cluster: DockerCluster, engine: APIClient):
    for name in ("broker-0", "broker-1", "zookeeper-1"):
        host = engine.inspect_container(f"{run_of(cluster)}-{name}")["HostConfig"]
        assert host["ReadonlyRootfs"] is True
        assert host["Privileged"] is False
        assert host["CapDrop"] == ["ALL"]
        assert host["CapAdd"] in (None, [])
        assert host["SecurityOpt"] == ["no-new-privileges"]
        published = [binding for each in host["PortBindings"].values() for binding in each]
        assert [binding["HostIp"] for binding in published] == ["127.0.0.1"]
        writable = [mount["Source"] for mount in host["Mounts"] if not mount.get("ReadOnly")]
        assert writable == [str(cluster.work_directory / name)]


def test_limits_hold_for_brokers(cluster: DockerCluster, engine: APIClient):
    host = inspected(engine, cluster, 1)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (700 << 20, 700 << 20)
    assert host["NanoCpus"] == 1_500_000_000


def test_every_cluster_has_one_network_and_every_broker_an_address(
    cluster: DockerCluster, engine: APIClient
):
    seen = [inspected(engine, cluster, broker_id) for broker_id in (0, 1)]
    assert [each["Config"]["Hostname"] for each in seen] == ["broker-0", "broker-1"]
    networks = [each["NetworkSettings"]["Networks"] for each in seen]
    assert [list(each) for each in networks] == [[run_of(cluster)]] * 2
    first, second = (each[run_of(cluster)] for each in networks)
    assert first["IPAddress"] != second["IPAddress"]
    assert first["Gateway"] == second["Gateway"]


def test_brokers_reach_each_other_and_zookeeper_through_links_only(
    cluster: DockerCluster, engine: APIClient
):
    gateway = inspected(engine, cluster, 1)["NetworkSettings"]["Networks"][run_of(cluster)][
        "Gateway"
    ]
    properties = cluster.brokers[1].properties
    assert properties["zookeeper.connect"].startswith(f"{gateway}:")
    assert f"INTERNAL://{gateway}:" in properties["advertised.listeners"]
    assert "CLIENT://127.0.0.1:" in properties["advertised.listeners"]


def test_an_expired_session_comes_back(cluster: DockerCluster):
    before = observe_broker(cluster, 1)
    with ExpireSession(broker=1).inject(cluster, MemoryJournal()):
        pass
    after = observe_broker(cluster, 1)
    assert after.session_id != before.session_id
    assert after.pid == before.pid


def test_a_disconnected_broker_comes_back_at_the_same_address_and_ports(
    cluster: DockerCluster, engine: APIClient
):
    broker = cluster.brokers[1]
    before = inspected(engine, cluster, 1)["NetworkSettings"]
    pid, address = broker.pid, broker.client_address
    with DisconnectNetwork(broker=1).inject(cluster, MemoryJournal()) as injection:
        assert injection.effect == {"is_connected": False, "clients_answered": False}
        assert broker.is_running
        assert not answers_at(address)
    after = inspected(engine, cluster, 1)["NetworkSettings"]
    assert after["Ports"] == before["Ports"]
    there = run_of(cluster)
    assert after["Networks"][there]["IPAddress"] == before["Networks"][there]["IPAddress"]
    assert (broker.pid, broker.client_address) == (pid, address)
    assert answers_at(address)


def test_a_fault_that_ends_twice_heals_once(cluster: DockerCluster):
    broker = cluster.brokers[1]
    broker.pause()
    broker.pause()
    assert broker.is_paused
    broker.resume()
    broker.resume()
    assert not broker.is_paused
    broker.disconnect()
    broker.disconnect()
    assert not broker.is_connected
    broker.reconnect()
    broker.reconnect()
    assert broker.is_connected


def test_a_killed_broker_is_not_put_back_on_its_network_by_a_start_and_may_change_its_release(
    cluster: DockerCluster,
):
    broker = cluster.brokers[1]
    before = observe_broker(cluster, 1)
    broker.disconnect()
    broker.kill()
    assert (broker.is_running, broker.exit_code, broker.pid) == (False, -signal.SIGKILL, None)
    broker.kill()
    with pytest.raises(MachineError, match=r"broker-1 is off its network.*reconnect it before"):
        broker.start()
    assert not broker.is_connected
    broker.reconnect()
    await_unregistered(cluster, 1)
    broker.configure("1.1.1", {"inter.broker.protocol.version": "1.1", "num.io.threads": "3"})
    broker.start()
    broker.await_ready()
    assert broker.is_connected
    assert (broker.release, broker.properties["num.io.threads"]) == ("1.1.1", "3")
    assert (observe_broker(cluster, 1).czxid or 0) > (before.czxid or 0)


def test_a_container_that_somebody_removed_counts_as_dead_and_can_be_started_again(
    cluster: DockerCluster, engine: APIClient, round_trip: Callable[..., list[bytes]]
):
    broker = cluster.brokers[1]
    removing = threading.Thread(
        target=engine.remove_container, args=[f"{run_of(cluster)}-broker-1"], kwargs={"force": True}
    )
    removing.start()
    # Looked at all the time, as gates do: also in the middle of the removal.
    await_until(
        lambda: not broker.is_running,
        timeout_s=30,
        waiting_for="broker 1 to be gone",
        last_seen=lambda: broker.exit_code,
    )
    removing.join()
    assert (broker.is_running, broker.exit_code) == (False, -signal.SIGKILL)
    with pytest.raises(BrokerExited, match="another process removed its container"):
        broker.check_running()
    await_unregistered(cluster, 1)
    broker.configure(RELEASE)
    broker.start()
    broker.await_ready()
    assert round_trip(cluster, [b"d"]) == [b"d"]


def test_a_stop_that_was_interrupted_can_be_made_again(
    cluster: DockerCluster, engine: APIClient, monkeypatch: pytest.MonkeyPatch
):
    """It is the last test of this cluster."""
    broker = cluster.brokers[1]
    broker.stop()
    assert (broker.is_running, broker.exit_code, broker.pid) == (False, 143, None)
    with monkeypatch.context() as patched:
        patched.setattr(host, "remove_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.stop()
    assert len(made_by(engine, run_of(cluster))) == 4
    cluster.stop()
    assert made_by(engine, run_of(cluster)) == []


def interrupted(*_: object, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_broker_that_is_killed_for_memory_is_reported_as_such_and_leaves_nothing(
    tmp_path: Path, engine: APIClient
):
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0,)), broker_memory_mib=32)
    killed = DockerCluster(spec, work_directory=tmp_path / "work")
    with pytest.raises(BrokerExited) as caught:
        killed.start()
    assert made_by(engine, run_of(killed)) == []
    assert caught.value.cause == (
        "killed for memory: the container needed more than its limit of 32 MiB"
    )
    assert caught.value.exit_code == -signal.SIGKILL
    # Nothing came in at the links, and no firewall is to blame.
    assert "firewall" not in explained(caught.value)


def test_what_keeps_a_jvm_from_starting_is_in_the_error(tmp_path: Path):
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0,)))
    cluster = DockerCluster(spec, work_directory=tmp_path / "work")
    # Where the shell that starts the JVM sends its output.
    (tmp_path / "work" / "zookeeper-1" / "console.log").mkdir(parents=True)
    with pytest.raises(BrokerExited, match=r"console\.log: .*[Dd]irectory"):
        cluster.start()


@pytest.fixture(scope="module")
def unlinked(
    tmp_path_factory: pytest.TempPathFactory, engine: APIClient
) -> Iterator[DockerCluster]:
    """A cluster of an ensemble, on an engine without pausing whose bridges nobody here reaches.

    So they are with a rootless engine, which has them in a network namespace of its own; the
    address is one that is reserved for documents, so that no machine has it.
    """
    spec = ClusterSpec(brokers=brokers_of(RELEASE, (0, 1)), zookeepers=3)
    started = DockerCluster(spec, work_directory=tmp_path_factory.mktemp("docker") / "unlinked")
    # Only the start asks for it, and other tests of the module are to have links.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host, "why_unbindable", lambda _host: why_unbindable("192.0.2.1"))
        patched.setattr(host, "engine_info", lambda api: replace(engine_info(api), can_pause=False))
        started.start()
    yield started
    started.stop()


def test_what_takes_a_gateway_or_control_groups_is_refused_with_the_reason(
    unlinked: DockerCluster, round_trip: Callable[..., list[bytes]]
):
    for fault in (CutLink(source=0, target=1), CutZooKeeper(broker=1)):
        with (
            pytest.raises(NotAvailable, match=r"192\.0\.2\.1 is no address of this machine"),
            fault.inject(unlinked, MemoryJournal()),
        ):
            pass
    with (
        pytest.raises(NotAvailable, match="broker 1 is not Pausable"),
        PauseBroker(broker=1).inject(unlinked, MemoryJournal()),
    ):
        pass
    assert round_trip(unlinked, [b"direct"]) == [b"direct"]
    with ExpireSession(broker=1).inject(unlinked, MemoryJournal()):
        pass


def test_an_ensemble_of_three_elects_a_leader(unlinked: DockerCluster):
    modes = [member.ask("srvr") for member in unlinked.zookeeper_members]
    assert sum("Mode: leader" in mode for mode in modes) == 1
    assert sum("Mode: follower" in mode for mode in modes) == 2


def test_when_nothing_reaches_the_links_a_firewall_is_suspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add_zookeeper = Links.add_zookeeper

    def behind_a_firewall(links: Links, broker_id: int, target: tuple[str, int]) -> tuple[str, int]:
        """The link is there; its address leads nowhere, as behind a firewall that drops."""
        add_zookeeper(links, broker_id, target)
        return ("192.0.2.1", 2181)

    monkeypatch.setattr(Links, "add_zookeeper", behind_a_firewall)
    spec = ClusterSpec(
        brokers=brokers_of(RELEASE, (0,)), properties={"zookeeper.connection.timeout.ms": "2000"}
    )
    with pytest.raises(BrokerExited) as caught:
        DockerCluster(spec, work_directory=tmp_path / "work").start()
    assert re.search(
        r"no container reached the links at ([\d.]+)\.1: does a firewall .* from \1\.0/24\?",
        explained(caught.value),
    )
