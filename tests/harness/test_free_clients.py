"""Clients that never wait: they begin, end when they are asked to, and leave no process."""

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.future import Future

import kchaos as k
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.observations import Disturbed, FreeClientsStopped
from kchaos.clusters.system.processes import process_start_time
from kchaos.harness.play import free_client_process, free_clients
from kchaos.harness.play.free_client_process import Client, Fleet, RecordGivenUp
from kchaos.harness.play.free_clients import FreeClients, FreeClientSettings, start_free_clients
from kchaos.harness.run.steps_checked import check_steps
from tests.support.drivers import play_options
from tests.support.processes import command_line, descendants

NOBODY = "127.0.0.1:1"


def settings(folder: Path, **kinds: int) -> FreeClientSettings:
    return FreeClientSettings(
        name="clients",
        servers=(NOBODY,),
        topic="t",
        partitions=2,
        kinds=kinds,
        rate=10.0,
        status=str(folder / "status.json"),
    )


def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FreeClients:
    """Clients who reach nobody, and whose gate is therefore not awaited."""
    monkeypatch.setattr(free_clients, "await_until", lambda *_given, **_more: True)
    clients = start_free_clients(settings(folder, plain=1, alone=1), folder, timeout_s=1)
    k.await_until(
        lambda: clients.told() or None,
        timeout_s=60,
        waiting_for="the clients' first words",
        last_seen=clients.told,
    )
    return clients


@pytest.mark.slow
def test_clients_that_reach_nobody_are_no_start_and_leave_no_process(tmp_path: Path):
    with pytest.raises(k.AwaitTimeout, match="every free client"):
        start_free_clients(settings(tmp_path, plain=1), tmp_path, timeout_s=0.5)

    (log,) = tmp_path.glob("*.log")
    assert log.exists()
    assert not any(b"free_client_process" in command_line(pid) for pid in descendants(os.getpid()))


@pytest.mark.slow
def test_clients_end_when_they_are_asked_to_and_say_what_they_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clients = running(tmp_path, monkeypatch)

    told = clients.stop()

    assert told["is_over"]
    assert {(each["client"], each["done"]) for each in told["clients"]} == {
        ("clients-plain-0", 0),
        ("clients-alone-0", 0),
    }
    assert process_start_time(clients.child.pid) is None


@pytest.mark.slow
def test_clients_that_end_by_themselves_are_told_and_never_taken_for_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clients = running(tmp_path, monkeypatch)
    clients.child.kill()

    with pytest.raises(k.ScenarioError, match="ended by themselves with exit code -9"):
        clients.check()
    with pytest.raises(k.ScenarioError, match="ended by themselves"):
        clients.stop()


# -- what a client notes of itself ----------------------------------------------------------------


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    moments = iter(range(100, 1000))
    monkeypatch.setattr("kchaos.harness.play.free_client_process.time.time", lambda: next(moments))
    return Client("mine", "plain", Fleet(settings(tmp_path)))


def test_a_client_waits_from_its_first_record_that_failed_to_one_that_did_not(client: Client):
    client.note_tried(0)
    client.note_failed(ValueError("no"))
    client.note_tried(0)
    client.note_done(0)

    assert client.waits == [[0, 100, 102]]
    assert (client.tried, client.done, client.failed) == (2, 1, 1)
    assert client.told()["errors"] == {"ValueError: no": 1}


def test_a_wait_lasts_until_the_client_ends(client: Client):
    client.note_tried(1)
    client.note_failed(ValueError("no"))
    client.end_waits()

    assert client.waits == [[1, 100, 101]]


class Refusing:
    """Stands for a producer of kafka-python that gives up every record."""

    def __init__(self, client: Client, *, most: int) -> None:
        self.client, self.most = client, most
        self.sent = 0
        self.is_closed = False

    def send(self, _topic: str, value: bytes, *, key: bytes, partition: int) -> Future:
        assert key == value
        self.sent += 1
        if self.sent == self.most:
            self.client.fleet.stopping.set()
        return Future().failure(KafkaTimeoutError(f"given up in {partition}"))

    def close(self, *, timeout: float) -> None:
        self.is_closed = timeout > 0


@pytest.mark.parametrize(("kind", "sent"), [("idempotent", 1), ("plain", 3)])
def test_an_idempotent_producer_that_gave_a_record_up_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sent: int
):
    fleet = Fleet(replace(settings(tmp_path), rate=1000.0))
    client = Client("mine", kind, fleet)
    fleet.clients = [client]
    producer = Refusing(client, most=3)
    monkeypatch.setattr(free_client_process, "_producer", lambda *_, **_more: producer)

    with pytest.raises(RecordGivenUp) if kind == "idempotent" else contextlib.nullcontext():
        free_client_process._produce(client)

    assert (producer.sent, client.failed, producer.is_closed) == (sent, sent, True)


def test_producers_have_partitions_of_their_own_if_there_are_enough(tmp_path: Path):
    fleet = Fleet(settings(tmp_path))
    fleet.clients = [Client(name, "plain", fleet) for name in "ab"]
    assert [fleet.partitions_of(each) for each in fleet.clients] == [[0], [1]]

    fleet.clients.append(Client("c", "plain", fleet))
    assert [fleet.partitions_of(each) for each in fleet.clients] == [[0, 1]] * 3


# -- steps ----------------------------------------------------------------------------------------


def scenario(*steps: k.Step, **cluster: Any) -> k.Scenario:
    spec = k.ClusterSpec(brokers=k.brokers_of("3.9.1", (0, 1, 2)), **cluster)
    return k.Scenario(entry="free", case="", release="3.9.1", cluster=spec, steps=steps)


def test_clients_that_no_link_would_see_are_refused_before_anything_starts():
    steps = (k.StartClients(topic="t", partitions=1), k.StopClients())

    with pytest.raises(k.ScenarioError, match="client_links=True"):
        check_steps(scenario(*steps))
    check_steps(scenario(*steps, client_links=True))


def test_the_steps_are_data():
    written = scenario(
        k.StartClients(topic="t", partitions=2, transactional=1, rate=2.5),
        k.LetClientsRun(until_s=3.0),
        k.StopClients(),
        client_links=True,
    )

    assert k.Scenario.from_json(json.loads(json.dumps(written.to_json()))) == written


def test_steps_of_clients_that_do_not_run_say_who_does(tmp_path: Path):
    from kchaos.checkers.run_directory import RunDirectory
    from tests.support.stand_ins import StandInCluster

    run = RunDirectory.create(tmp_path / "run", run={}, scenario={})
    now = k.Play(cluster=StandInCluster(), run=run, say=print)  # type: ignore[arg-type]

    with pytest.raises(k.ScenarioError, match="no clients named 'clients' run"):
        k.StopClients().perform(now)
    with pytest.raises(k.ScenarioError, match="no clients named 'clients' run"):
        k.LetClientsRun(until_s=1.0).perform(now)
    with pytest.raises(k.ScenarioError, match="need links in front of brokers"):
        k.StartClients(topic="t", partitions=1).perform(now)


# -- a real cluster -------------------------------------------------------------------------------


@pytest.mark.cluster
def test_answers_are_lost_and_a_leader_dies_and_all_that_clients_were_promised_is_there(
    tmp_path: Path,
):
    properties = {**k.QUICK, "replica.lag.time.max.ms": "10000", "min.insync.replicas": "2"}
    steps = (
        k.CreateTopic(topic="t", assignment=((0, 1, 2), (1, 2, 0))),
        k.StartClients(topic="t", partitions=2, rate=10.0),
        k.Inject(name="lost", fault=k.DisturbClients(name="lost", api="Produce", broker=1)),
        k.LetClientsRun(until_s=2.0),
        k.Heal(name="lost"),
        k.Inject(name="A-down", fault=k.KillBroker(broker=0)),
        k.LetClientsRun(until_s=4.0),
        k.Heal(name="A-down"),
        k.AwaitInSync(timeout_s=60.0),
        k.StopClients(),
    )
    played = scenario(*steps, client_links=True, properties=properties)

    run = k.play(played, options=play_options(tmp_path / "runs"), say=print)

    results = k.judge(run)
    evidence = RunEvidence(run)
    assert results.safe is True
    assert results.availability is not None
    assert {each.topic for each in results.availability.partitions} == {"t"}
    assert all(each.writes for each in results.availability.partitions)
    assert len(results.availability.consumers) == 2
    ((_, lost),) = lines_of(evidence.observed, Disturbed)
    assert lost.messages > 0
    ((_, stopped),) = lines_of(evidence.observed, FreeClientsStopped)
    assert all(each["done"] for each in stopped.clients if each["kind"] != "in-group")
    assert not any(b"free_client_process" in command_line(pid) for pid in descendants(os.getpid()))
