"""Ctrl-C at every moment of an injection, whatever ends it, and what is refused."""

import contextlib
import typing
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import kchaos as k
import kchaos.faults.process.pause_broker as pause_broker
import kchaos.faults.wire.disconnect_network as disconnect_network
import kchaos.faults.zookeeper.activity as activity
import kchaos.faults.zookeeper.expire_session as expire_session
from kchaos.clusters.errors import AwaitTimeout
from kchaos.faults import FAULTS, observation
from tests.support.stand_ins import StandInCluster, StandInJournal

LASTING_OR_RISKY = [
    k.KillBroker(broker=1, end_session=True),
    k.KillBroker(broker=1, end_session=False),
    k.StopBroker(broker=1),
    k.FastBounce(broker=1),
    k.RollBroker(broker=1, properties=(("log.message.format.version", "0.10.2"),)),
    k.PauseBroker(broker=1),
    k.CutLink(source=0, target=1),
    k.IsolateBroker(broker=1, zookeeper=True),
    k.CutZooKeeper(broker=1),
    k.CutZooKeeper(broker=1, style="dropped"),
    k.DisconnectNetwork(broker=1),
    k.HoldRequests(name="h", api="Fetch", source=1, target=0),
    k.ForgeAnswers(name="f", source=1, target=0, error="REQUEST_TIMED_OUT"),
    k.DisturbClients(name="d", api="Produce", broker=1),
    k.ExpireSession(broker=1),
    k.HoldPoint(name="p", broker=0, point="send-fetch"),
    k.SlowFetchReads(broker=0),
]


@pytest.fixture(autouse=True)
def _stand_in_for_the_kernel_and_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process state, the client port, and ZooKeeper's port."""
    newest: list[StandInCluster] = []
    original = StandInCluster.__init__

    def init(self: StandInCluster, **arguments: Any) -> None:
        original(self, **arguments)
        newest[:] = [self]

    def answers_at(address: str) -> bool:
        (asked,) = (b for b in newest[0].brokers.values() if b.client_address == address)
        return asked.is_connected

    def end_session_of(cluster: Any, session_id: int) -> None:
        with cluster.moments.around():
            cluster.end_session(session_id)

    packets = iter(range(10**9))
    monkeypatch.setattr(StandInCluster, "__init__", init)
    monkeypatch.setattr(pause_broker, "answers", lambda _address, timeout_s: True)
    monkeypatch.setattr(disconnect_network, "answers_at", answers_at)
    monkeypatch.setattr(expire_session, "end_session_of", end_session_of)
    monkeypatch.setattr(activity, "packets_received", lambda *_: {"any": next(packets)})


def injected(fault: Any, interrupt_at: int | None, inside: Callable[[], None]) -> StandInCluster:
    """The cluster after an injection that was interrupted at that moment, or not at all."""
    cluster = StandInCluster()
    cluster.moments.interrupt_at = interrupt_at
    journal = StandInJournal(cluster.moments)
    with contextlib.suppress(KeyboardInterrupt), fault.inject(cluster, journal):
        cluster.moments.interrupt_at = None
        inside()
    return cluster


def moments_of(fault: Any) -> int:
    """How many moments there are until the injection is done."""
    cluster = StandInCluster()
    with fault.inject(cluster, StandInJournal(cluster.moments)):
        return cluster.moments.count


@pytest.mark.parametrize("fault", LASTING_OR_RISKY, ids=repr)
def test_ctrl_c_at_any_moment_of_an_injection_heals_what_was_done(fault):
    moments = moments_of(fault)
    assert moments > 2
    for moment in range(1, moments + 1):
        entered: list[bool] = []
        cluster = injected(fault, moment, partial(entered.append, True))
        assert entered == [], f"moment {moment} was not interrupted"
        assert cluster.unhealed() == [], f"interrupted at moment {moment} of {moments}"


@pytest.mark.parametrize("fault", LASTING_OR_RISKY, ids=repr)
def test_whatever_leaves_the_context_heals(fault):
    def fail_inside(cluster: StandInCluster, error: type[BaseException]) -> None:
        with fault.inject(cluster, StandInJournal(cluster.moments)):
            raise error

    for error in (LookupError, KeyboardInterrupt, SystemExit, GeneratorExit):
        cluster = StandInCluster()
        with pytest.raises(error):
            fail_inside(cluster, error)
        assert cluster.unhealed() == [], error


@pytest.mark.parametrize(
    "fault",
    [fault for fault in LASTING_OR_RISKY if not isinstance(fault, k.FastBounce | k.RollBroker)],
    ids=repr,
)
def test_a_lasting_fault_acts_until_it_is_left(fault):
    cluster = StandInCluster()
    czxid = cluster.client.nodes["/brokers/ids/1"][1].czxid
    with fault.inject(cluster, StandInJournal(cluster.moments)):
        if isinstance(fault, k.ExpireSession):
            assert cluster.client.nodes["/brokers/ids/1"][1].czxid > czxid
        else:
            assert cluster.unhealed() != []
    assert cluster.unhealed() == []
    assert type(fault).lasting


@pytest.mark.parametrize("fault", LASTING_OR_RISKY, ids=repr)
def test_the_journal_is_told_only_acts_that_the_fault_declares(fault):
    cluster, journal = StandInCluster(), k.MemoryJournal()
    with fault.inject(cluster, journal):
        pass
    known = {act.__name__ for act in typing.get_args(k.Act)}
    told = {what for what, _ in journal.entries} & known
    assert told
    assert told <= {act.__name__ for act in fault.performs}


def test_every_fault_refuses_a_broker_that_the_cluster_does_not_have():
    fields: dict[str, dict[str, Any]] = {
        "CutLink": {"source": 7, "target": 0},
        "LoseEpochs": {"broker": 7, "topic": "t", "partition": 0},
        "TearEpochs": {"broker": 7, "topic": "t", "partition": 0},
        "DisturbClients": {"name": "d", "broker": 7},
        "ForgeAnswers": {"name": "f", "source": 7, "target": 0, "error": "REQUEST_TIMED_OUT"},
        "FailDisk": {"broker": 7, "error": "EIO"},
        "FailLogDirectory": {"broker": 7, "topic": "t", "partition": 0},
        "FormatDowngrade": {"broker": 7, "message_format": "0.10.2"},
        "HoldPoint": {"name": "p", "broker": 7, "point": "send-fetch"},
        "HoldRequests": {"name": "h", "api": "Fetch", "target": 7},
        "SlowDisk": {"broker": 7, "operation": "read", "delay_ms": 5},
        "StaleRequest": {"api": "ControlledShutdown", "broker": 7},
        "ThrottleReplication": {"broker": 7, "topic": "t", "bytes_per_second": 1},
        "LoseFile": {"broker": 7, "file": "t-0/partition.metadata"},
        "LoseTail": {"broker": 7, "topic": "t", "partition": 0, "log_end_offset": 0},
    }
    of_no_broker = {"ConfigureTopic", "MoveController", "PreferredElection"}
    of_no_broker |= {
        "AddController",
        "RemoveController",
        "UpdateFeatures",
        "IsolateZooKeeper",
        "KillZooKeeper",
        "PauseZooKeeper",
        "StopZooKeeper",
    }
    for name in FAULTS.keys() - of_no_broker:
        fault = FAULTS[name](**fields.get(name, {"broker": 7}))
        with pytest.raises(k.NotAvailable, match=r"the cluster has no broker 7: it has \[0, 1\]"):
            fault.inject(StandInCluster(), k.MemoryJournal()).__enter__()


@pytest.mark.parametrize(
    ("fault", "lacks"),
    [
        (k.KillBroker(broker=1), "Killable"),
        (k.StopBroker(broker=1), "Killable"),
        (k.FastBounce(broker=1), "Killable"),
        (k.RollBroker(broker=1, kafka="3.9.1"), "Killable"),
        (k.PauseBroker(broker=1), "Pausable"),
        (k.DisconnectNetwork(broker=1), "Disconnectable"),
    ],
    ids=repr,
)
def test_a_driver_that_lacks_a_capability_is_named_before_anything_happens(fault, lacks):
    cluster, journal = StandInCluster(), k.MemoryJournal()
    cluster.brokers[1].capabilities = frozenset()
    with pytest.raises(k.NotAvailable, match=f"broker 1 is not {lacks} with this driver"):
        fault.inject(cluster, journal).__enter__()
    assert journal.entries == []
    assert cluster.unhealed() == []


@pytest.mark.parametrize(
    "fault",
    [
        k.CutLink(source=0, target=1),
        k.CutZooKeeper(broker=1),
        k.HoldRequests(name="h", api="Fetch"),
    ],
    ids=repr,
)
def test_a_cluster_without_links_is_told_to_be_started_with_them(fault):
    with pytest.raises(k.NotAvailable, match="runs without links: start it with linked=True"):
        fault.inject(StandInCluster(linked=False), k.MemoryJournal()).__enter__()


def test_an_election_that_is_interrupted_is_not_left_to_the_next_controller():
    path = "/admin/preferred_replica_election"
    for moment in range(1, 16):
        cluster: Any = StandInCluster()
        cluster.client.create("/brokers/topics/t", b'{"partitions": {"0": [1, 0]}}')
        state = b'{"leader": 0, "isr": [0, 1], "leader_epoch": 0}'
        cluster.client.create("/brokers/topics/t/partitions/0/state", state)
        cluster.client.create("/controller", b'{"brokerid": 0}')
        cluster.moments.count = 0
        cluster.moments.interrupt_at = moment
        fault = k.PreferredElection(topic="t", partition=0, by="znode")
        with pytest.raises(KeyboardInterrupt):
            fault.inject(cluster, StandInJournal(cluster.moments)).__enter__()
        assert path not in cluster.client.nodes, f"moment {moment}"


class Fenced:
    """KRaft's metadata, which has no broker."""

    def registration(self, _broker: int) -> None:
        return None


def test_in_a_migration_a_broker_starts_again_once_it_is_registered_nowhere(
    monkeypatch: pytest.MonkeyPatch,
):
    cluster: Any = StandInCluster(metadata=Fenced())
    cluster.spec = replace(cluster.spec, migrates=True)
    monkeypatch.setattr(cluster, "zookeeper", lambda: cluster.client, raising=False)
    monkeypatch.setattr(observation, "_REGISTRATION_S", 0.01)
    with pytest.raises(AwaitTimeout, match="registration of broker 1 to go away"):
        observation.await_unregistered(cluster, 1)
    del cluster.client.nodes["/brokers/ids/1"]
    assert observation.await_unregistered(cluster, 1).czxid is None
