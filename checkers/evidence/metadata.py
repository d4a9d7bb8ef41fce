"""metadata/: what a KRaft cluster decided, from the copies of its metadata log.

The offset of a record is what the zxid is elsewhere: one log, in whose order everything was
decided. So a decision's `zxid` is its offset here, and the quorum leader's epoch is the controller
epoch.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kchaos.checkers.errors import CheckpointError, ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.zookeeper import TopicDeletion
from kchaos.checkers.formats.checkpoints import parse_meta_properties
from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    RecordDefinitions,
)
from kchaos.checkers.metadata_log import (
    CopiedBatch,
    LeaderChange,
    LogEntry,
    MetadataLogError,
    NodeLog,
    committed,
    entries,
    read_node,
    voters_of,
)
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    ControllerElected,
    Decision,
    EligibleReplicas,
    FeatureLevelSet,
    PartitionState,
    TopicConfigured,
    TopicCreated,
)
from kchaos.checkers.segments.directory import topic_partition

METADATA = "metadata"
DEFINITIONS = f"{METADATA}/definitions"
META_PROPERTIES = "meta.properties"
_NODE = re.compile(r"node-(\d{1,9})")
_TOPIC, _BROKER = 2, 4
_NO_LEADER_CHANGE = -2
EVERY_BROKER = "<default>"
"""Whose a configuration is that all brokers were given together."""
Settings = tuple[tuple[str, str], ...]


class MetadataLogs:
    """The copies of a run's metadata log; each property raises a `CheckError` naming the damage.

    Args:
        brokers: The ids of the brokers; all other nodes are controllers.
    """

    def __init__(self, files: EvidenceFiles, *, brokers: Iterable[int]) -> None:
        self.files = files
        self.brokers = frozenset(brokers)

    @cached_property
    def definitions(self) -> RecordDefinitions:
        """What the records consist of, as the run carries it.

        Raises:
            MetadataLogError: There is no definition, or one cannot be read.
        """
        folder = self.files.run.path / DEFINITIONS
        names = sorted(file.name for file in folder.glob("*.json"))
        try:
            return RecordDefinitions.from_texts(
                {name: self.files.content(f"{DEFINITIONS}/{name}") for name in names}
            )
        except MetadataRecordError as error:
            raise MetadataLogError(f"{DEFINITIONS}: {error}") from error

    @cached_property
    def copies(self) -> Mapping[int, NodeLog]:
        """Each node's copy, by its id; of a node without any file an empty one."""
        root = self.files.run.path / METADATA
        found: dict[int, NodeLog] = {}
        for folder in sorted(root.glob("node-*")):
            match = _NODE.fullmatch(folder.name)
            if match:
                names = [
                    f"{METADATA}/{folder.name}/{file.name}"
                    for file in sorted(folder.iterdir())
                    if file.suffix in (".log", ".checkpoint")
                ]
                node = int(match[1])
                found[node] = read_node(node, [(name, self.files.content(name)) for name in names])
        return found

    @cached_property
    def voters(self) -> frozenset[int]:
        """The nodes whose majority decides, as leaders of the quorum wrote it.

        Where only a snapshot is left of that, these are the controllers that have a copy.
        """
        return voters_of(self.copies) or frozenset(self.copies) - self.brokers

    @cached_property
    def shared(self) -> tuple[CopiedBatch, ...]:
        """What a majority of the voters has: what was decided."""
        return committed(
            [self.copies.get(voter, NodeLog(node=voter)) for voter in sorted(self.voters)]
        )

    @cached_property
    def start_offset(self) -> int:
        """The first offset that is known; above 0 where only a snapshot tells what was before."""
        return self.shared[0].base_offset if self.shared else 0

    @cached_property
    def entries(self) -> tuple[LogEntry, ...]:
        """All records of the log in their order, those of a snapshot first if it begins with one.

        Raises:
            MetadataLogError: The log begins behind offset 0, and no snapshot ends there or later.
        """
        records = tuple(entries(self.shared, self.definitions))
        if not self.start_offset:
            return records
        for copy in self.copies.values():
            for snapshot in copy.snapshots:
                if self.start_offset <= snapshot.end_offset <= self.shared[-1].last_offset + 1:
                    before = [
                        replace(
                            entry, offset=snapshot.end_offset - 1, batch=snapshot.end_offset - 1
                        )
                        for entry in entries(snapshot.batches, self.definitions)
                    ]
                    return (*before, *(one for one in records if one.offset >= snapshot.end_offset))
        raise MetadataLogError(
            f"{METADATA}/: the log begins at offset {self.start_offset}, and no snapshot tells "
            "what was before"
        )

    @cached_property
    def cluster_ids(self) -> Mapping[str, str]:
        """The cluster's id by each node's meta.properties, by the file's name.

        Raises:
            CheckpointError: One cannot be read.
        """
        root = self.files.run.path / METADATA
        found = {}
        for folder in sorted(root.glob("node-*")):
            name = f"{METADATA}/{folder.name}/{META_PROPERTIES}"
            if (folder / META_PROPERTIES).is_file():
                text = self.files.content(name).decode("utf-8", "backslashreplace")
                properties = parse_meta_properties(text, file=name)
                if properties.get("node.id", "") != folder.name.removeprefix("node-"):
                    raise CheckpointError(f"{name} is node {properties.get('node.id')}'s")
                found[name] = properties.get("cluster.id", "")
        return found

    @cached_property
    def _folded(self) -> "_Folding":
        folding = _Folding()
        for entry in self.entries:
            folding.take(entry)
        for topic_id, partitions in folding.partitions.items():
            if sorted(partitions) != list(range(len(partitions))):
                raise MetadataLogError(
                    f"{METADATA}/: topic {folding.names[topic_id]} has partitions "
                    f"{sorted(partitions)}, and they are numbered from 0 on"
                )
        return folding

    @property
    def cluster_id(self) -> str:
        """The cluster's id as the nodes have it, or ""."""
        return next(iter(self.cluster_ids.values()), "")

    @property
    def decisions(self) -> tuple[TimedEvent, ...]:
        """What was decided, in the order of the log."""
        return tuple(self._folded.decisions)

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The id of each topic, as it was last."""
        return self._folded.topic_ids

    @property
    def topic_configurations(self) -> Mapping[str, Mapping[str, str]]:
        """The last configuration of each topic."""
        return self._folded.topic_configurations

    @property
    def broker_configurations(self) -> Sequence[tuple[str, Settings]]:
        """Each configuration of brokers that was written: an id or "<default>", and settings."""
        return tuple(self._folded.broker_configurations)

    @property
    def endpoints(self) -> Mapping[int, set[str]]:
        """The addresses with which each broker registered, each list as settings have it."""
        found: dict[int, set[str]] = {}
        for entry in self.entries:
            record = entry.record
            if isinstance(record, MetadataRecord) and record.name == "RegisterBrokerRecord":
                addresses = ",".join(
                    f"{one['Name']}://{one['Host']}:{one['Port']}"
                    for one in record.fields["EndPoints"]
                )
                found.setdefault(record.fields["BrokerId"], set()).add(addresses)
        return found

    @property
    def deletions(self) -> Mapping[str, tuple[TopicDeletion, ...]]:
        """Each deletion of each topic, in their order."""
        return {topic: tuple(found) for topic, found in self._folded.deletions.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """One partition as the log has it; `controller_epoch` is of the last change."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    epoch: int
    is_fenced: bool
    is_shutting_down: bool


@dataclass(slots=True)
class _Folding:
    """What records come to, one after the other (PartitionRegistration, ClusterControlManager)."""

    decisions: list[TimedEvent] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, _Partition]] = field(default_factory=dict)
    brokers: dict[int, _Broker] = field(default_factory=dict)
    topic_configurations: dict[str, dict[str, str]] = field(default_factory=dict)
    settings_of_brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configurations: list[tuple[str, Settings]] = field(default_factory=list)
    deletions: dict[str, list[TopicDeletion]] = field(default_factory=dict)
    of_topics: dict[tuple[type, str, int], int] = field(default_factory=dict)
    at: LogEntry | None = None

    def take(self, entry: LogEntry) -> None:
        """Takes the next record.

        Raises:
            MetadataLogError: It is about a topic, partition or broker that nothing before it made.
        """
        self.at = entry
        if isinstance(entry.record, LeaderChange):
            self._decide(ControllerElected(broker=entry.record.leader, zxid=entry.offset))
            return
        try:
            self._take(entry, entry.record)
        except KeyError as error:
            raise MetadataLogError(
                f"{METADATA}/: the {entry.record.name} at offset {entry.offset} is about {error}, "
                "which no record before it made: the log is of another cluster, or lacks some"
            ) from error

    def _take(self, entry: LogEntry, record: MetadataRecord) -> None:
        said = record.fields
        match record.name:
            case "TopicRecord":
                self._topic(said["Name"], said["TopicId"])
            case "PartitionRecord":
                self._partition(entry, said)
            case "PartitionChangeRecord":
                self._change(entry, said["TopicId"], said["PartitionId"], said)
            case "RemoveTopicRecord":
                self._remove(entry, said["TopicId"])
            case "ClearElrRecord":
                self._clear(entry, said["TopicName"])
            case "ConfigRecord":
                self._configure(entry, said)
            case "RegisterBrokerRecord":
                self._register(entry, said)
            case "UnregisterBrokerRecord":
                del self.brokers[said["BrokerId"]]
                self._decide(BrokerUnregistered(broker=said["BrokerId"], zxid=entry.offset))
            case "FenceBrokerRecord" | "UnfenceBrokerRecord":
                self._broker(said["Id"], is_fenced=record.name == "FenceBrokerRecord")
            case "BrokerRegistrationChangeRecord":
                broker = self.brokers[said["BrokerId"]]
                # 0 is no change; a broker that is shutting down never goes back on that.
                fenced = {1: True, -1: False}.get(said["Fenced"], broker.is_fenced)
                stops = said.get("InControlledShutdown", 0) == 1
                self._broker(said["BrokerId"], is_fenced=fenced, is_shutting_down=stops)
            case "FeatureLevelRecord":
                self._decide(
                    FeatureLevelSet(
                        name=said["Name"], level=said["FeatureLevel"], zxid=entry.offset
                    )
                )
            case _:
                pass

    def _decide(self, decision: Decision, *, topic: str = "") -> None:
        """Notes a decision; what one batch says more than once of a topic as a whole, once."""
        assert self.at is not None
        of_topic = (type(decision), topic, self.at.batch)
        if topic and of_topic in self.of_topics:
            place = self.of_topics[of_topic]
            first = self.decisions[place]
            self.decisions[place] = replace(first, event=replace(decision, zxid=first.zxid))
            return
        self.of_topics[of_topic] = len(self.decisions)
        self.decisions.append(
            TimedEvent(event=decision, zxid=self.at.offset, time=self.at.time_ms / 1000)
        )

    def _topic(self, name: str, topic_id: str) -> None:
        if topic_partition(f"{name}-0") is None:
            raise ScenarioDataError(f"{METADATA}/: {name!r} is no topic's name")
        self.names[topic_id] = name
        self.topic_ids[name] = topic_id
        self.partitions[topic_id] = {}
        if name in self.deletions:
            self.deletions[name][-1] = replace(self.deletions[name][-1], is_gone=False)

    def _partition(self, entry: LogEntry, said: Mapping[str, object]) -> None:
        topic_id, number = _text(said, "TopicId"), _number(said, "PartitionId")
        partition = _Partition(
            replicas=_brokers(said, "Replicas") or (),
            isr=_brokers(said, "Isr") or (),
            leader=_number(said, "Leader"),
            leader_epoch=_number(said, "LeaderEpoch"),
            partition_epoch=_number(said, "PartitionEpoch"),
            controller_epoch=entry.leader_epoch,
            eligible=_brokers(said, "EligibleLeaderReplicas") or (),
            last_known=_brokers(said, "LastKnownElr") or (),
        )
        self._write(topic_id, number, partition)

    def _change(
        self, entry: LogEntry, topic_id: str, number: int, said: Mapping[str, object]
    ) -> None:
        """As PartitionRegistration.merge: what is not named stays as it was."""
        before = self.partitions[topic_id][number]
        leader = said.get("Leader", _NO_LEADER_CHANGE)
        is_elected = leader != _NO_LEADER_CHANGE
        replicas, isr = _brokers(said, "Replicas"), _brokers(said, "Isr")
        eligible, last = _brokers(said, "EligibleLeaderReplicas"), _brokers(said, "LastKnownElr")
        after = replace(
            before,
            replicas=before.replicas if replicas is None else replicas,
            isr=before.isr if isr is None else isr,
            leader=_number(said, "Leader") if is_elected else before.leader,
            leader_epoch=before.leader_epoch + is_elected,
            partition_epoch=before.partition_epoch + 1,
            controller_epoch=entry.leader_epoch,
            eligible=before.eligible if eligible is None else eligible,
            last_known=before.last_known if last is None else last,
        )
        self._write(topic_id, number, after)

    def _write(self, topic_id: str, number: int, after: _Partition) -> None:
        assert self.at is not None
        topic, offset = self.names[topic_id], self.at.offset
        before = self.partitions[topic_id].get(number)
        self.partitions[topic_id][number] = after
        if before is None or before.replicas != after.replicas:
            self._assign(topic_id)
        self._decide(
            PartitionState(
                topic=topic,
                partition=number,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                isr=after.isr,
                controller_epoch=after.controller_epoch,
                version=after.partition_epoch,
                zxid=offset,
            )
        )
        was = ((), ()) if before is None else (before.eligible, before.last_known)
        if (after.eligible, after.last_known) != was:
            self._decide(
                EligibleReplicas(
                    topic=topic,
                    partition=number,
                    eligible=after.eligible,
                    last_known=after.last_known,
                    zxid=offset,
                )
            )

    def _assign(self, topic_id: str) -> None:
        """A topic has other replicas: one decision for all partitions that one batch made."""
        assert self.at is not None
        made = TopicCreated(
            topic=self.names[topic_id],
            assignment=tuple(one.replicas for _, one in sorted(self.partitions[topic_id].items())),
            zxid=self.at.offset,
        )
        self._decide(made, topic=self.names[topic_id])

    def _remove(self, entry: LogEntry, topic_id: str) -> None:
        topic = self.names.pop(topic_id)
        del self.partitions[topic_id]
        self.topic_configurations.pop(topic, None)
        self.deletions.setdefault(topic, []).append(
            TopicDeletion(
                topic=topic,
                asked=entry.offset,
                zxid=entry.offset,
                time=entry.time_ms / 1000,
                is_gone=True,
            )
        )

    def _clear(self, entry: LogEntry, topic: str) -> None:
        """As ReplicationControlManager.removeTopicElrs: a change of each partition that has any."""
        for topic_id in [self.topic_ids[topic]] if topic else list(self.partitions):
            for number, partition in sorted(self.partitions[topic_id].items()):
                if partition.eligible or partition.last_known:
                    empty = {"EligibleLeaderReplicas": (), "LastKnownElr": ()}
                    self._change(entry, topic_id, number, empty)

    def _configure(self, entry: LogEntry, said: Mapping[str, object]) -> None:
        kind, name, value = said["ResourceType"], _text(said, "ResourceName"), said["Value"]
        if kind not in (_TOPIC, _BROKER):
            return
        if kind == _TOPIC:
            settings = self.topic_configurations.setdefault(name, {})
        else:
            settings = self.settings_of_brokers.setdefault(name or EVERY_BROKER, {})
        if value is None:
            settings.pop(_text(said, "Name"), None)
        else:
            settings[_text(said, "Name")] = str(value)
        written = tuple(sorted(settings.items()))
        if kind == _TOPIC:
            configured = TopicConfigured(topic=name, configuration=written, zxid=entry.offset)
            self._decide(configured, topic=name)
        else:
            self.broker_configurations.append((name or EVERY_BROKER, written))

    def _register(self, entry: LogEntry, said: Mapping[str, object]) -> None:
        broker, epoch = _number(said, "BrokerId"), _number(said, "BrokerEpoch")
        known = self.brokers.get(broker)
        if known is None or known.epoch != epoch:
            # A process that asks again keeps its epoch (KAFKA-16952): nothing is new then.
            self._decide(BrokerRegistered(broker=broker, czxid=epoch, zxid=entry.offset))
            known = _Broker(epoch=epoch, is_fenced=True, is_shutting_down=False)
            self.brokers[broker] = known
        self._broker(
            broker,
            is_fenced=bool(said["Fenced"]),
            is_shutting_down=bool(said.get("InControlledShutdown", False)),
        )

    def _broker(self, broker: int, *, is_fenced: bool, is_shutting_down: bool = False) -> None:
        assert self.at is not None
        before = self.brokers[broker]
        after = replace(
            before,
            is_fenced=is_fenced,
            is_shutting_down=is_shutting_down or before.is_shutting_down,
        )
        if after != before:
            self.brokers[broker] = after
            self._decide(
                BrokerRegistrationChanged(
                    broker=broker,
                    is_fenced=after.is_fenced,
                    is_shutting_down=after.is_shutting_down,
                    zxid=self.at.offset,
                )
            )


def _brokers(said: Mapping[str, object], name: str) -> tuple[int, ...] | None:
    value = said.get(name)
    return value if isinstance(value, tuple) else None


def _number(said: Mapping[str, object], name: str) -> int:
    value = said[name]
    if not isinstance(value, int):
        raise MetadataLogError(f"{DEFINITIONS}: {name} is no number, as Kafka defines it")
    return value


def _text(said: Mapping[str, object], name: str) -> str:
    value = said[name]
    if not isinstance(value, str):
        raise MetadataLogError(f"{DEFINITIONS}: {name} is no text, as Kafka defines it")
    return value
