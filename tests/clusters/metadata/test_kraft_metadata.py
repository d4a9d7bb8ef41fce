"""Reading a KRaft cluster's metadata from the logs of its controllers."""

import base64
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.batches import CONTROL_FLAG
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    RecordDefinitions,
    definitions_in_jar,
)
from kchaos.clusters.errors import MetadataRefused, MetadataUnavailable
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.metadata import controller_requests, kraft
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.metadata.kraft import KraftMetadata
from kchaos.clusters.start.kraft_storage import record_batch, voters_record
from kchaos.clusters.system.exchange import NoAnswer, NotSent

TOPIC_ID = "f2xRBHY9QUyqTk1JKmAZNw"
DIRECTORY = "zj02F248SJuIp7M9eTZjQA"
SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="module")
def definitions() -> RecordDefinitions:
    jars = [jar for jar in resolve("4.1.2").class_path if jar.name.startswith("kafka-metadata-")]
    return RecordDefinitions.from_texts(definitions_in_jar(jars[0]))


class Log:
    """A controller's log that grows as a test says."""

    def __init__(self, folder: Path, definitions: RecordDefinitions) -> None:
        self.file = folder / SEGMENT
        self.definitions = definitions
        folder.mkdir()
        self.file.touch()
        self.end = 0

    def lead(self, node: int, epoch: int) -> None:
        record = (struct.pack(">hh", 0, 2), struct.pack(">hi", 0, node))
        self._append([record], epoch, CONTROL_FLAG)

    def vote(self, *voters: int, epoch: int = 1) -> None:
        named = {voter: (DIRECTORY, "127.0.0.1:1") for voter in voters}
        self._append([voters_record(named, name="CONTROLLER")], epoch, CONTROL_FLAG)

    def add(self, *records: tuple[str, int, Mapping[str, Any]], epoch: int = 1) -> None:
        encoded = [
            (None, self.definitions.encode(MetadataRecord(name=name, version=v, fields=fields)))
            for name, v, fields in records
        ]
        self._append(encoded, epoch, 0)

    def _append(
        self, records: Sequence[tuple[bytes | None, bytes]], epoch: int, attributes: int
    ) -> None:
        batch = record_batch(self.end, records, attributes=attributes, leader_epoch=epoch)
        with self.file.open("ab") as file:
            file.write(batch)
        self.end += len(records)


@pytest.fixture
def log(tmp_path: Path, definitions: RecordDefinitions) -> Log:
    """The log of the one controller, 100."""
    return Log(tmp_path / "100", definitions)


@pytest.fixture
def logs(tmp_path: Path, definitions: RecordDefinitions) -> list[Log]:
    """The logs of three controllers, of which 100 leads in epoch 1."""
    made = [Log(tmp_path / str(node), definitions) for node in (100, 101, 102)]
    for log in made:
        log.lead(100, 1)
    return made


def reading(*logs: Log, addresses: Mapping[int, str] = MappingProxyType({})) -> KraftMetadata:
    folders = {100 + number: log.file.parent for number, log in enumerate(logs)}
    definitions = logs[0].definitions
    return KraftMetadata(folders=folders, addresses=addresses, definitions=lambda: definitions)


def registered(broker: int, epoch: int) -> tuple[str, int, Mapping[str, Any]]:
    said = {"BrokerId": broker, "BrokerEpoch": epoch, "Fenced": True}
    return "RegisterBrokerRecord", 3, said


def fencing(broker: int, epoch: int, fenced: int) -> tuple[str, int, Mapping[str, Any]]:
    said = {"BrokerId": broker, "BrokerEpoch": epoch, "Fenced": fenced}
    return "BrokerRegistrationChangeRecord", 2, said


def state_of(metadata: KraftMetadata) -> LeaderAndIsr:
    state = metadata.state("t", 0)
    assert state is not None
    return state


TOPIC = ("TopicRecord", 0, {"Name": "t", "TopicId": TOPIC_ID})
PARTITION = (
    "PartitionRecord",
    2,
    {
        **{"PartitionId": 0, "TopicId": TOPIC_ID, "Replicas": (0, 1), "Isr": (0, 1), "Leader": 0},
        **{"LeaderEpoch": 0, "PartitionEpoch": 0},
    },
)


def changed(**said: Any) -> tuple[str, int, Mapping[str, Any]]:
    return "PartitionChangeRecord", 2, {"PartitionId": 0, "TopicId": TOPIC_ID, **said}


def test_a_broker_counts_as_registered_while_it_is_not_fenced(log: Log):
    metadata = reading(log)
    log.lead(100, 1)
    log.add(registered(0, 1))
    assert metadata.registration(0) is None
    assert metadata.incarnation(0) is not None
    assert (metadata.is_forgotten(0), metadata.is_forgotten(1)) == (False, True)
    log.add(fencing(0, 1, -1))
    registration = metadata.registration(0)
    assert registration is not None
    assert registration.czxid == 1
    assert metadata.registered() == {0}
    log.add(fencing(0, 1, 1))
    assert metadata.registration(0) is None
    assert metadata.registered() == set()


def test_a_leader_in_a_change_raises_the_leader_epoch_and_an_isr_alone_does_not(log: Log):
    log.add(TOPIC, PARTITION)
    metadata = reading(log)
    states = [state_of(metadata)]
    for change in (changed(Isr=(0,)), changed(Leader=0), changed(Leader=-1, Isr=())):
        log.add(change)
        states.append(state_of(metadata))
    assert [
        (each.leader, each.leader_epoch, each.isr, each.version) for each in states if each
    ] == [(0, 0, (0, 1), 0), (0, 0, (0,), 1), (0, 1, (0,), 2), (-1, 2, (), 3)]


def test_eligible_replicas_and_a_reassignment_are_read_until_they_are_over(log: Log):
    log.add(TOPIC, PARTITION, changed(Isr=(), Leader=-1, EligibleLeaderReplicas=(1,)))
    metadata = reading(log)
    partition = metadata.partition("t", 0)
    assert partition is not None
    assert partition.eligible == (1,)
    assert not metadata.reassigning()
    log.add(changed(AddingReplicas=(2,), Replicas=(0, 1, 2)))
    assert metadata.reassigning()
    assert metadata.assignment("t") == {0: [0, 1, 2]}
    assert (metadata.topic_id("t"), metadata.topic_id("u")) == (TOPIC_ID, None)
    log.add(changed(AddingReplicas=()))
    assert not metadata.reassigning()


def test_settings_of_a_topic_come_and_go_with_it(log: Log):
    setting = {"ResourceType": 2, "ResourceName": "t", "Name": "retention.ms", "Value": "5"}
    log.add(TOPIC, PARTITION, ("ConfigRecord", 0, setting))
    metadata = reading(log)
    assert metadata.topic_configuration("t") == {"retention.ms": "5"}
    assert metadata.topics() == ["t"]
    log.add(("RemoveTopicRecord", 0, {"TopicId": TOPIC_ID}))
    assert metadata.topic_configuration("t") == {}
    assert metadata.topics() == []
    assert metadata.state("t", 0) is None


def test_what_one_controller_of_three_has_alone_is_not_committed(logs: list[Log]):
    logs[0].add(registered(0, 1), fencing(0, 1, -1))
    metadata = reading(*logs)
    assert metadata.registered() == set()
    assert metadata.position() == 0
    logs[1].add(registered(0, 1), fencing(0, 1, -1))
    assert metadata.registered() == {0}
    assert metadata.position() == 2


def test_the_tail_of_a_deposed_leader_counts_for_nobody_and_may_be_cut(logs: list[Log]):
    """Its long tail must not make records of the new leader look as if most had them."""
    logs[0].add(registered(7, 1), registered(8, 2), registered(9, 3))
    metadata = reading(*logs)
    assert metadata.controller() == 100
    logs[1].lead(101, 2)
    logs[1].add(registered(1, 2), fencing(1, 2, -1), epoch=2)
    assert metadata.registered() == set()
    logs[2].lead(101, 2)
    logs[2].add(registered(1, 2), fencing(1, 2, -1), epoch=2)
    assert metadata.registered() == {1}
    assert (metadata.controller(), metadata.controller_epoch()) == (101, 2)
    logs[0].file.write_bytes(logs[1].file.read_bytes())
    assert metadata.registered() == {1}
    assert metadata.incarnation(9) is None


@pytest.mark.parametrize(
    ("end", "topics"),
    [
        (("EndTransactionRecord", 0, {}), ["t"]),
        (("AbortTransactionRecord", 0, {"Reason": None}), []),
    ],
    ids=["ended", "aborted"],
)
def test_what_a_transaction_wrote_counts_once_it_has_ended(
    end: tuple[str, int, Mapping[str, Any]], topics: list[str], log: Log
):
    log.lead(100, 1)
    metadata = reading(log)
    log.add(("BeginTransactionRecord", 0, {"Name": None}), TOPIC)
    log.add(PARTITION)
    assert (metadata.position(), metadata.topics(), metadata.state("t", 0)) == (3, [], None)
    log.lead(100, 2)
    log.add(end, epoch=2)
    assert (metadata.position(), metadata.topics()) == (5, topics)
    log.add(registered(0, 6), fencing(0, 6, -1), epoch=2)
    assert metadata.registered() == {0}


def test_a_transaction_that_was_read_of_a_truncated_copy_is_forgotten(logs: list[Log]):
    metadata = reading(*logs)
    logs[0].add(("BeginTransactionRecord", 0, {"Name": None}), TOPIC)
    logs[1].file.write_bytes(logs[0].file.read_bytes())
    assert metadata.topics() == []
    for log in logs[1:]:
        log.file.write_bytes(log.file.read_bytes()[: logs[2].file.stat().st_size])
        log.lead(101, 2)
        log.add(TOPIC, epoch=2)
    logs[0].file.write_bytes(logs[1].file.read_bytes())
    assert metadata.topics() == ["t"]


def test_half_a_batch_is_read_when_it_is_whole(log: Log):
    log.lead(100, 1)
    log.add(TOPIC)
    whole = log.file.read_bytes()
    log.file.write_bytes(whole[:-3])
    metadata = reading(log)
    assert (metadata.position(), metadata.topics()) == (0, [])
    log.file.write_bytes(whole)
    assert (metadata.position(), metadata.topics()) == (1, ["t"])


def test_a_log_goes_on_in_its_next_segment(log: Log):
    log.lead(100, 1)
    metadata = reading(log)
    assert metadata.position() == 0
    log.file = log.file.with_name(f"{1:020}.log")
    log.add(TOPIC)
    assert (metadata.position(), metadata.topics()) == (1, ["t"])


def test_a_log_that_begins_with_a_snapshot_is_not_read(log: Log):
    log.file.rename(log.file.with_name(f"{500:020}.log"))
    with pytest.raises(MetadataUnavailable, match="begins with a snapshot"):
        reading(log).position()


def test_a_record_that_is_damaged_is_no_metadata(log: Log):
    log.file.write_bytes(record_batch(0, [(None, b"\x01\x63\x00")]))
    with pytest.raises(MetadataUnavailable, match="no definition has kind 99"):
        reading(log).position()


def test_who_comes_after_a_dead_controller_is_asked_in_its_place(
    log: Log, monkeypatch: pytest.MonkeyPatch
):
    log.lead(100, 1)
    metadata = reading(log, addresses={100: "dead", 101: "alive"})
    asked = []

    def answer(address: str, *_: Any, **__: Any) -> dict[str, Any]:
        asked.append(address)
        if address == "dead":
            log.lead(101, 2)
            raise NotSent("it does not accept connections")
        return {"error_code": 0}

    monkeypatch.setattr(kraft, "send_control_request", answer)
    metadata.unregister(0)
    assert asked == ["dead", "alive"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoAnswer("10 s are over"), "controller 100 gave no answer: 10 s are over"),
        (NotSent("it does not accept connections"), "100 is the controller, and nothing"),
    ],
)
def test_a_controller_that_does_not_answer_is_named_and_asked_once_if_it_may_have_heard_it(
    error: Exception, said: str, log: Log, monkeypatch: pytest.MonkeyPatch
):
    log.lead(100, 1)
    metadata = reading(log, addresses={100: "here"})

    def refused(*_: Any, **__: Any) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(kraft, "send_control_request", refused)
    monkeypatch.setattr(controller_requests, "_OFFICE_S", 0.0)
    with pytest.raises(MetadataUnavailable, match=said):
        metadata.unregister(0)


def test_what_has_no_analogue_is_refused_with_a_reason(log: Log):
    with pytest.raises(MetadataRefused, match="kill or pause its process"):
        reading(log).depose_controller()


def test_the_voters_of_the_time_decide_and_not_every_controller(logs: list[Log]):
    metadata = reading(*logs)
    logs[0].add(TOPIC, PARTITION)
    assert (sorted(metadata.voters()), metadata.topics()) == ([100, 101, 102], [])

    # The leader counts the new voters as soon as it has written them.
    logs[0].vote(100)
    assert (sorted(metadata.voters()), metadata.topics()) == ([100], ["t"])

    logs[0].vote(100, 101)
    logs[0].add(registered(0, 5))
    assert (sorted(metadata.voters()), metadata.incarnation(0)) == ([100], None)


def test_the_level_of_kraft_version_is_that_of_a_control_record(log: Log):
    metadata = reading(log)
    log.add(TOPIC)
    assert "kraft.version" not in metadata.features()
    log._append([(struct.pack(">hh", 0, 5), struct.pack(">hhb", 0, 1, 0))], 1, CONTROL_FLAG)
    assert metadata.features()["kraft.version"] == 1


def test_a_change_of_voters_is_asked_for_again_while_its_error_may_pass(
    logs: list[Log], monkeypatch: pytest.MonkeyPatch
):
    for log in logs[:2]:
        log.vote(100, 101)
    metadata, asked = reading(*logs), []
    codes = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_FOR_PARTITION, ErrorCode.NONE]

    def send(_: object, api: ApiKey, values: Mapping[str, Any], *, version: int) -> dict[str, Any]:
        asked.append((api, values["voter_id"], values["voter_directory_id"], version))
        if not (code := codes.pop(0)):
            logs[0].vote(100)
        return {"error_code": code, "error_message": None}

    monkeypatch.setattr(controller_requests.ControllerRequests, "send", send)
    metadata.remove_voter(101)
    directory = base64.urlsafe_b64decode(f"{DIRECTORY}==")
    assert asked == [(ApiKey.REMOVE_RAFT_VOTER, 101, directory, 0)] * 3

    codes.append(ErrorCode.UNSUPPORTED_VERSION)
    with pytest.raises(MetadataRefused, match="AddRaftVoter of node 103 is refused: error 35"):
        metadata.add_voter(103, DIRECTORY, ("CONTROLLER", "127.0.0.1", 1))
