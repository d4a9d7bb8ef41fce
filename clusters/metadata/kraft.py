"""Cluster metadata that controllers keep in a log of their own (KRaft).

Reads look into the controllers' copies of the log, directly on their disks, and fold what most of
them have; acts are requests to the quorum's leader. Every change has an offset: that is the
position, as the zxid is with ZooKeeper.
"""

import base64
import contextlib
import json
import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_image import (
    BROKER_RESOURCE,
    MIGRATION_STATES,
    TOPIC_RESOURCE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    Transactions,
)
from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    RecordDefinitions,
    voters_record,
)
from kchaos.clusters.errors import MetadataRefused, MetadataUnavailable
from kchaos.clusters.links.control_requests import send_control_request
from kchaos.clusters.metadata.api import LeaderAndIsr, Registration
from kchaos.clusters.metadata.controller_requests import (
    ANSWER_MS,
    ANSWER_S,
    ControllerRequests,
    refuse,
)
from kchaos.clusters.metadata.kraft_log import LogBatch, MetadataLogReader
from kchaos.clusters.releases import KRAFT_VERSION
from kchaos.clusters.system.waiting import await_until

_SET, _DELETE = 0, 1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_LEADER_CHANGE, _KRAFT_VERSION, _VOTERS = 2, 5, 6
_CHANGE_S = 60.0
"""So long a leader may refuse a change of the voters for a while, in seconds."""
_COMES_RIGHT = (ErrorCode.NOT_LEADER_FOR_PARTITION, ErrorCode.REQUEST_TIMED_OUT)
"""Errors of a leader that resigns, of one whose epoch has just begun, and of a voter that is not
caught up (`AddVoterHandler`, 3.9.1)."""
_MIGRATION = "ZkMigrationState"
# Version and type of a control record, or version and level of one that has kraft.version; version
# and leader of one that names a quorum's leader.
_CONTROL_KEY, _LEADER = struct.Struct(">hh"), struct.Struct(">hi")


@dataclass(slots=True)
class _Copy:
    """One controller's copy: what is folded of it, and the batches that wait to be committed."""

    reader: MetadataLogReader
    image: MetadataImage = field(default_factory=MetadataImage)
    waiting: list[LogBatch] = field(default_factory=list)
    transactions: Transactions[tuple[MetadataRecord, int]] = field(default_factory=Transactions)

    @property
    def voters(self) -> Mapping[int, str]:
        """Those of the newest VotersRecord: a leader counts them before that is committed."""
        named = (
            voters_record(value)
            for batch in reversed(self.waiting)
            for key, value in batch.records
            if batch.is_control and _control_type(key) == _VOTERS
        )
        return next(named, self.image.voters)

    def read_on(self) -> None:
        batches = self.reader.read_on()
        if batches is None:
            folder = self.reader.folder
            self.reader, self.image, self.waiting = MetadataLogReader(folder), MetadataImage(), []
            self.transactions = Transactions()
            batches = self.reader.read_on()
        if batches is None:
            raise MetadataUnavailable(
                f"{self.reader.folder} begins with a snapshot, and only whole logs are read here"
            )
        self.waiting += batches

    def end_within(self, newest: MetadataLogReader) -> int:
        """Return the end offset up to which the copy surely equals the newest one."""
        if self.reader.leader_epoch == newest.leader_epoch:
            return self.reader.end_offset
        return min(self.reader.end_offset, newest.epoch_start)

    def fold(self, definitions: RecordDefinitions, committed: int) -> MetadataImage:
        while self.waiting and self.waiting[0].end_offset <= committed:
            batch = self.waiting.pop(0)
            for key, value in batch.records:
                if not batch.is_control:
                    record = definitions.decode(value)
                    said = record, batch.leader_epoch
                    for counting, epoch in self.transactions.take(record.name, said):
                        self.image.apply(counting, controller_epoch=epoch)
                        migration = counting.fields.get(_MIGRATION, self.image.migration)
                        self.image.migration = migration
                elif _control_type(key) == _LEADER_CHANGE:
                    self.image.quorum_leader = _LEADER.unpack_from(value)[1]
                    self.image.quorum_epoch = batch.leader_epoch
                elif _control_type(key) == _KRAFT_VERSION:
                    level = _CONTROL_KEY.unpack_from(value)[1]
                    self.image.features[KRAFT_VERSION] = level
                elif _control_type(key) == _VOTERS:
                    self.image.voters = voters_record(value)
            self.image.offset = batch.end_offset
        return self.image


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(f"{text}==") if text else bytes(16)


def _control_type(key: bytes | None) -> int:
    return int(_CONTROL_KEY.unpack_from(key or b"")[1])


class KraftMetadata:
    """See ``clusters.metadata.api.ClusterMetadata``.

    A broker counts as registered while it is not fenced: so long it takes part in the cluster, as
    one that has its znode. ``folders`` are the controllers' copies of the metadata log by node id,
    ``addresses`` the controllers' own listeners; ``definitions`` returns those of the newest Kafka
    that runs. ``first_voters`` vote until a VotersRecord of the log names others: None for all.
    """

    def __init__(
        self,
        *,
        folders: Mapping[int, Path],
        addresses: Mapping[int, str],
        definitions: Callable[[], RecordDefinitions],
        first_voters: Collection[int] | None = None,
    ) -> None:
        self._copies = {node: _Copy(MetadataLogReader(path)) for node, path in folders.items()}
        self.requests = ControllerRequests(
            controller=self.controller, address_of=addresses.__getitem__
        )
        self._definitions = definitions
        self._first_voters = frozenset(folders if first_voters is None else first_voters)
        self._lock = threading.Lock()

    def one_look(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: each copy of the log is read on where it grew."""
        return contextlib.nullcontext()

    def _image(self) -> MetadataImage:
        copies = [*self._copies.values()]
        try:
            for copy in copies:
                copy.read_on()
            newest = max(
                copies, key=lambda each: (each.reader.leader_epoch, each.reader.end_offset)
            )
            voters = [self._copies[node] for node in newest.voters or self._first_voters]
            ends = sorted((each.end_within(newest.reader) for each in voters), reverse=True)
            return newest.fold(self._definitions(), ends[len(voters) // 2])
        except (OSError, MetadataRecordError) as error:
            raise MetadataUnavailable(f"the metadata log cannot be read: {error!r}") from error

    def position(self) -> int:
        """Return the offset of the newest record that is committed, -1 before the first."""
        with self._lock:
            return self._image().offset - 1

    def controller(self) -> int | None:
        """Return the node id of the quorum's leader, which is no broker's."""
        with self._lock:
            return self._image().quorum_leader

    def controller_epoch(self) -> int | None:
        """Return the quorum's epoch."""
        with self._lock:
            return self._image().quorum_epoch

    def voters(self) -> frozenset[int]:
        """Return those of the newest VotersRecord that is committed, or the first ones."""
        with self._lock:
            return frozenset(self._image().voters) or self._first_voters

    def add_voter(self, node: int, directory: str, listener: tuple[str, str, int]) -> None:
        """Send AddRaftVoter, until the node is caught up and the leader has committed it."""
        name, host, port = listener
        values = {
            "cluster_id": None,
            "timeout_ms": ANSWER_MS,
            "voter_id": node,
            "voter_directory_id": _uuid(directory),
            "listeners": [{"name": name, "host": host, "port": port}],
        }
        self._change_voters(ApiKey.ADD_RAFT_VOTER, values, lambda: node in self.voters())

    def remove_voter(self, node: int) -> None:
        """Send RemoveRaftVoter with the directory id that the voters' record has of the node."""
        with self._lock:
            directory = self._image().voters.get(node, "")
        values = {"cluster_id": None, "voter_id": node, "voter_directory_id": _uuid(directory)}
        self._change_voters(ApiKey.REMOVE_RAFT_VOTER, values, lambda: node not in self.voters())

    def _change_voters(
        self, api: ApiKey, values: Mapping[str, Any], is_done: Callable[[], bool]
    ) -> None:
        answers: list[Mapping[str, Any]] = []

        def decided() -> bool:
            if answers and is_done():
                return True
            answers.append(self.requests.send(api, values, version=0))
            if answers[-1]["error_code"] not in _COMES_RIGHT:
                refuse(answers[-1], f"{api.spelled} of node {values['voter_id']} is refused")
            return is_done()

        await_until(
            decided,
            timeout_s=_CHANGE_S,
            waiting_for=f"{api.spelled} of node {values['voter_id']}",
            last_seen=lambda: f"voters {sorted(self.voters())}, answer {answers[-1:]}",
            remedy="see the logs of the controllers: a new voter has to be caught up",
        )

    def depose_controller(self) -> None:
        """Refuse, since no request does this: the leader's process has to end or to pause."""
        raise MetadataRefused(
            "a KRaft controller does not give its office away: kill or pause its process"
        )

    def registration(self, broker: int, *, timeout_s: float | None = None) -> Registration | None:
        """Return the broker's registration once it is unfenced; None while it is fenced."""
        with self._lock:
            known = self._image().brokers.get(broker)
            if known is None or known.is_fenced:
                return None
            text = json.dumps(known.said, default=str)
            return Registration(czxid=known.epoch, session_id=None, text=text)

    def incarnation(self, broker: int) -> BrokerImage | None:
        """Return the broker as it registered last, fenced or not."""
        with self._lock:
            return self._image().brokers.get(broker)

    def registered(self) -> frozenset[int]:
        """Return the brokers that are not fenced."""
        with self._lock:
            brokers = self._image().brokers
            return frozenset(broker for broker, known in brokers.items() if not known.is_fenced)

    def is_forgotten(self, broker: int) -> bool:
        """Return whether it is not registered: a process asks for that once, when it starts."""
        return self.incarnation(broker) is None

    def fence(self, broker: int) -> None:
        """Send a heartbeat that wants to be fenced; its answer comes when that is committed."""
        known = self.incarnation(broker)
        if known is None:
            raise MetadataRefused(f"broker {broker} is not registered, so it cannot be fenced")
        values = {
            "broker_id": broker,
            "broker_epoch": known.epoch,
            "current_metadata_offset": self.position(),
            "want_fence": True,
            "want_shut_down": False,
        }
        answer = self._ask_as_broker("BrokerHeartbeat", values)
        if answer["error_code"] or not answer["is_fenced"]:
            raise MetadataRefused(f"broker {broker} is not fenced: {answer}")

    def unregister(self, broker: int) -> None:
        """Send UnregisterBroker, whose answer comes when it is committed."""
        answer = self._ask_as_broker("UnregisterBroker", {"broker_id": broker})
        if answer["error_code"]:
            raise MetadataRefused(f"broker {broker} is not unregistered: {answer}")

    def features(self) -> Mapping[str, int]:
        """Return the feature levels in force."""
        with self._lock:
            return dict(self._image().features)

    def update_features(self, levels: Mapping[str, int], *, downgrade: bool = False) -> None:
        """Ask for them by UpdateFeatures, whose answer comes when they are in the log."""
        wanted = [
            {
                "feature": name,
                "max_version_level": level,
                "upgrade_type": _SAFE_DOWNGRADE if downgrade else _UPGRADE,
            }
            for name, level in levels.items()
        ]
        request = {"timeout_ms": ANSWER_MS, "feature_updates": wanted, "validate_only": False}
        answer = self.requests.send(ApiKey.UPDATE_FEATURES, request, version=1)
        what = f"feature levels {dict(levels)} are not set"
        refuse(answer, what)
        for result in answer["results"]:
            refuse(result, what)

    def migration_state(self) -> str:
        """Return the state of a migration from ZooKeeper."""
        with self._lock:
            return MIGRATION_STATES[self._image().migration]

    def topics(self) -> Sequence[str]:
        """Return the topics that there are."""
        with self._lock:
            return sorted(name for name in self._image().topic_ids if not name.startswith("__"))

    def topic_named(self, topic_id: str) -> str | None:
        """Return the topic that has this id, as Kafka prints it; None if nobody can say."""
        with self._lock:
            try:
                names = self._image().topic_ids
            except MetadataUnavailable:
                return None
            return next((name for name, known in names.items() if known == topic_id), None)

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id, None if there is no such topic."""
        with self._lock:
            return self._image().topic_ids.get(topic)

    def assignment(self, topic: str) -> Mapping[int, Sequence[int]]:
        """Return the replicas of each partition; nothing if there is no such topic."""
        with self._lock:
            image = self._image()
            partitions = image.partitions_of(image.topic_ids.get(topic, ""))
            return {number: list(partition.replicas) for number, partition in partitions.items()}

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return all that is known of a partition, None if there is no such."""
        with self._lock:
            image = self._image()
            return image.partitions.get((image.topic_ids.get(topic, ""), partition))

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """Return the partition's state."""
        with self._lock:
            image = self._image()
            known = image.partitions.get((image.topic_ids.get(topic, ""), partition))
            if known is None:
                return None
            return LeaderAndIsr(
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                isr=known.isr,
                controller_epoch=known.controller_epoch,
                version=known.partition_epoch,
            )

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]],
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Ask for the topic by CreateTopics, whose answer comes when it is in the log."""
        wanted = {
            "topic": topic,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition": index, "replicas": list(replicas)}
                for index, replicas in enumerate(assignment)
            ],
            "configs": [
                {"name": name, "value": value} for name, value in (configuration or {}).items()
            ],
        }
        request = {"topics": [wanted], "timeout_ms": ANSWER_MS, "validate_only": False}
        (answer,) = self.requests.send(ApiKey.CREATE_TOPICS, request, version=5)["topics"]
        refuse(answer, f"the topic {topic} is not created")

    def delete_topic(self, topic: str) -> None:
        """Ask for it by DeleteTopics, whose answer comes when it is in the log.

        Brokers that do not live hear of it when they are back.
        """
        request = {"topic_names": [topic], "timeout_ms": ANSWER_MS}
        (answer,) = self.requests.send(ApiKey.DELETE_TOPICS, request, version=5)["topics"]
        refuse(answer, f"the topic {topic} is not deleted")

    def is_deleting(self, topic: str) -> bool:
        """Return False: the deletion is one record of the log."""
        return False

    def configure_topic(self, topic: str, configuration: Mapping[str, str]) -> None:
        """Set what is wanted and delete what is there besides, in one request."""
        self._configure(TOPIC_RESOURCE, topic, configuration)

    def topic_configuration(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings."""
        return self._settings(TOPIC_RESOURCE, topic)

    def configure_broker(self, broker: int, configuration: Mapping[str, str]) -> None:
        """Set what is wanted and delete what is there besides, in one request."""
        self._configure(BROKER_RESOURCE, str(broker), configuration)

    def broker_configuration(self, broker: int) -> Mapping[str, str]:
        """Return what the broker was told so."""
        return self._settings(BROKER_RESOURCE, str(broker))

    def has_client_quotas(self) -> bool:
        """Return False: quotas are not read, for no broker with KRaft holds an answer back."""
        return False

    def _settings(self, kind: int, name: str) -> dict[str, str]:
        with self._lock:
            return dict(self._image().settings.get((kind, name), {}))

    def _configure(self, kind: int, name: str, configuration: Mapping[str, str]) -> None:
        gone = sorted(self._settings(kind, name).keys() - configuration.keys())
        deleted = [{"name": each, "operation": _DELETE, "value": None} for each in gone]
        wanted = [
            {"name": each, "operation": _SET, "value": value}
            for each, value in configuration.items()
        ]
        if not deleted and not wanted:
            return
        asked = {"type": kind, "name": name, "configs": [*deleted, *wanted]}
        request = {"resources": [asked], "validate_only": False}
        answer = self.requests.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version=1)
        refuse(answer["resources"][0], f"the settings of {name} are not changed")

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Ask for them by CreatePartitions, whose answer comes when they are in the log."""
        wanted = {
            "topic": topic,
            "count": len(self.assignment(topic)) + len(assignment),
            "assignments": [{"broker_ids": list(replicas)} for replicas in assignment],
        }
        request = {"topics": [wanted], "timeout_ms": ANSWER_MS, "validate_only": False}
        (answer,) = self.requests.send(ApiKey.CREATE_PARTITIONS, request, version=0)["results"]
        refuse(answer, f"partitions are not added to {topic}")

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Ask for other replicas by AlterPartitionReassignments."""
        self.requests.reassign(topic, partition, replicas)

    def reassigning(self) -> frozenset[tuple[str, int]]:
        """Return the partitions that have replicas which come or go."""
        with self._lock:
            image = self._image()
            return frozenset(
                (image.names[topic_id], number)
                for (topic_id, number), partition in image.partitions.items()
                if partition.is_reassigning
            )

    def has_lost_reassignment(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        """Return False: the controller answered that it has written it down."""
        return False

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Ask for the election by ElectLeaders, whose answer comes when it is done."""
        self.requests.elect(topic, partition)

    def is_electing(self) -> bool:
        """Return False: an election is over when its request is answered."""
        return False

    def withdraw_election(self) -> None:
        """Do nothing: an election is over when its request is answered."""

    def _ask_as_broker(self, api: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one of a broker's own requests, in the version that all know."""

        def ask(address: str) -> dict[str, Any]:
            return send_control_request(address, api, 0, values, timeout_s=ANSWER_S)

        return self.requests.answer_of_leader(ask)
