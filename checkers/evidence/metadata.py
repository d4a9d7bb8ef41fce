"""metadata/: what a KRaft cluster decided, from the copies of its metadata log.

The offset of a record is what the zxid is elsewhere: one log, in whose order everything was
decided. So a decision's `zxid` is its offset here, and the quorum leader's epoch is the controller
epoch.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.errors import CheckpointError, ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.formats.checkpoints import parse_meta_properties
from kchaos.checkers.formats.metadata_image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)
from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    RecordDefinitions,
)
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.metadata_log import (
    CopiedBatch,
    CopiedSnapshot,
    LeaderChange,
    LogEntry,
    MetadataLogError,
    NodeLog,
    committed,
    entries,
    read_node,
    voters_of,
    voters_records,
)
from kchaos.checkers.model.releases.versions import metadata_version
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
    TopicDeleted,
    TopicDeletion,
    TopicIdentified,
)

METADATA = "metadata"
DEFINITIONS = f"{METADATA}/definitions"
META_PROPERTIES = "meta.properties"
_NODE = re.compile(r"node-(\d{1,9})")
_OF_BROKERS = frozenset(
    {
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
    }
)
_OF_PARTITIONS = frozenset({"PartitionRecord", "PartitionChangeRecord", "ClearElrRecord"})
METADATA_VERSION = "metadata.version"
MIN_ISR = "min.insync.replicas"
EVERY_BROKER = "<default>"
"""Name of a configuration that all brokers were given together."""
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
        """Definitions of the records, as the run carries them.

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
        logs: dict[int, NodeLog] = {}
        for folder in sorted(root.glob("node-*")):
            match = _NODE.fullmatch(folder.name)
            if match:
                names = [
                    f"{METADATA}/{folder.name}/{file.name}"
                    for file in sorted(folder.iterdir())
                    if file.suffix in (".log", ".checkpoint")
                ]
                node = int(match[1])
                logs[node] = read_node(node, [(name, self.files.content(name)) for name in names])
        return logs

    @cached_property
    def voters(self) -> frozenset[int]:
        """The nodes whose majority decides, as leaders of the quorum wrote it.

        Where only a snapshot is left of that, these are the controllers that have a copy. A dynamic
        quorum has the voters of the end of the log: what was committed before, they have as well.
        """
        if self.voters_at_end:
            return frozenset(self.voters_at_end)
        return voters_of(self.copies) or frozenset(self.copies) - self.brokers

    @cached_property
    def voters_at_end(self) -> Mapping[int, str]:
        """The directory id of each voter, by the newest VotersRecord that is committed (KIP-853).

        A leader counts the majority of the voters that a record names as soon as it has written it,
        and writes none before the one before is committed (`AddVoterHandler`, 3.9). None in a
        static quorum.
        """
        for copied, voters in voters_records(self.copies):
            shared = committed(self._copies_of(voters))
            if any(batch.content == copied.content for batch in shared):
                return voters
        return {}

    def _copies_of(self, voters: Mapping[int, str]) -> list[NodeLog]:
        """Return the copies of voters; of one whose disk was replaced since, an empty one."""
        return [
            self.copies[voter]
            if voter in self.copies and self.meta_properties[voter].get("directory.id") == directory
            else NodeLog(node=voter)
            for voter, directory in sorted(voters.items())
        ]

    @cached_property
    def shared(self) -> tuple[CopiedBatch, ...]:
        """The part of the log that a majority of the voters has: the decided one."""
        if self.voters_at_end:
            return committed(self._copies_of(self.voters_at_end))
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
        snapshot = self.first_snapshot
        if snapshot is None:
            return records
        last = snapshot.end_offset - 1
        later = [entry for entry in records if entry.offset > last]
        # It was written after what it tells of, and maybe after what comes behind that.
        latest_ms = min((entry.time_ms for entry in later), default=None)
        before = [
            replace(
                entry,
                offset=last,
                batch=last,
                time_ms=entry.time_ms if latest_ms is None else min(entry.time_ms, latest_ms),
            )
            for entry in entries(snapshot.batches, self.definitions)
        ]
        return (*before, *later)

    @cached_property
    def first_snapshot(self) -> CopiedSnapshot | None:
        """The snapshot of the time before the log's first record; None for a log that is whole.

        Raises:
            MetadataLogError: The log begins behind offset 0, and no snapshot ends there or later.
        """
        if not self.start_offset:
            return None
        end = self.shared[-1].last_offset + 1
        every = [snapshot for copy in self.copies.values() for snapshot in copy.snapshots]
        fitting = [each for each in every if self.start_offset <= each.end_offset <= end]
        if fitting:
            return min(fitting, key=lambda snapshot: snapshot.end_offset)
        raise MetadataLogError(
            f"{METADATA}/: the log begins at offset {self.start_offset}, and no snapshot has "
            "what was before"
        )

    @cached_property
    def meta_properties(self) -> Mapping[int, Mapping[str, str]]:
        """Each node's meta.properties, empty without one: its disk was emptied.

        A broker that came from ZooKeeper keeps the file of then (MetaPropertiesVersion.V0, 3.9.1).

        Raises:
            CheckpointError: One cannot be read.
        """
        every: dict[int, Mapping[str, str]] = {}
        for node in self.copies:
            name, every[node] = f"{METADATA}/node-{node}/{META_PROPERTIES}", {}
            if self.files.has(name):
                text = self.files.content(name).decode("utf-8", "backslashreplace")
                every[node] = parse_meta_properties(text, file=name)
                owner = every[node].get("node.id", every[node].get("broker.id"))
                if owner != str(node):
                    raise CheckpointError(f"{name} is node {owner}'s")
        return every

    @property
    def cluster_ids(self) -> Mapping[str, str]:
        """The cluster's id by each node's meta.properties, by the file's name."""
        return {
            f"{METADATA}/node-{node}/{META_PROPERTIES}": properties.get("cluster.id", "")
            for node, properties in self.meta_properties.items()
            if properties
        }

    @cached_property
    def _folded(self) -> "_Folding":
        folding = _Folding()
        for entry in self.entries:
            folding.take(entry)
        for topic_id, topic in folding.image.names.items():
            numbers = list(folding.image.partitions_of(topic_id))
            if numbers != list(range(len(numbers))):
                raise MetadataLogError(
                    f"{METADATA}/: topic {topic} has partitions {numbers}, and they are numbered "
                    "from 0 on"
                )
        return folding

    @property
    def cluster_id(self) -> str:
        """The cluster's id as the nodes have it, or ""."""
        return next(iter(self.cluster_ids.values()), "")

    @property
    def decisions(self) -> tuple[TimedEvent, ...]:
        """The decisions, in the order of the log."""
        return tuple(self._folded.decisions)

    @property
    def topic_ids(self) -> Mapping[str, frozenset[str]]:
        """Every id that a topic ever had: a topic may be made again."""
        return self._folded.topic_ids

    @property
    def topic_configurations(self) -> Mapping[str, Mapping[str, str]]:
        """The last configuration of each topic."""
        settings = self._folded.image.settings
        return {name: own for (kind, name), own in settings.items() if kind == TOPIC_RESOURCE}

    @property
    def broker_configurations(self) -> Sequence[tuple[str, Settings]]:
        """Each configuration of brokers that was written: an id or "<default>", and settings."""
        return tuple(self._folded.broker_configurations)

    @property
    def min_isrs_of_all(self) -> tuple[str, ...]:
        """Each `min.insync.replicas` that was written for all brokers together, in its order."""
        of_all = [dict(own) for owner, own in self.broker_configurations if owner == EVERY_BROKER]
        return tuple(own[MIN_ISR] for own in of_all if MIN_ISR in own)

    def as_started(self, broker: StartBroker) -> StartBroker:
        """Return the start of a broker with what the metadata log says of all brokers.

        That is the metadata version, and `min.insync.replicas` where the cluster has one: with
        eligible leader replicas the controller sets it (KIP-966).

        Raises:
            ModelError: The model does not know the metadata version.
        """
        needed = next(iter(self.min_isrs_of_all), None)
        if needed is not None and not (needed.isascii() and needed.isdigit() and len(needed) < 10):
            raise ScenarioDataError(f"{METADATA}/: all brokers have {MIN_ISR} {needed!r}")
        levels = [
            timed.event.level
            for timed in self.decisions
            if isinstance(timed.event, FeatureLevelSet) and timed.event.name == METADATA_VERSION
        ]
        return replace(
            broker,
            mode="kraft",
            inter_broker_protocol=metadata_version(levels[0]) if levels else None,
            min_insync_replicas=broker.min_insync_replicas if needed is None else int(needed),
        )

    @property
    def endpoints(self) -> Mapping[int, set[str]]:
        """The addresses with which each broker registered, each list as settings have it."""
        endpoints: dict[int, set[str]] = {}
        for entry in self.entries:
            record = entry.record
            if isinstance(record, MetadataRecord) and record.name == "RegisterBrokerRecord":
                addresses = ",".join(
                    f"{endpoint['Name']}://{endpoint['Host']}:{endpoint['Port']}"
                    for endpoint in record.fields["EndPoints"]
                )
                endpoints.setdefault(record.fields["BrokerId"], set()).add(addresses)
        return endpoints

    @property
    def deletions(self) -> Mapping[str, tuple[TopicDeletion, ...]]:
        """Each deletion of each topic, in their order."""
        return {topic: tuple(deletions) for topic, deletions in self._folded.deletions.items()}


@dataclass(slots=True)
class _Folding:
    """State that records come to, one after the other, and the decisions that this shows."""

    image: MetadataImage = field(default_factory=MetadataImage)
    decisions: list[TimedEvent] = field(default_factory=list)
    topic_ids: dict[str, frozenset[str]] = field(default_factory=dict)
    broker_configurations: list[tuple[str, Settings]] = field(default_factory=list)
    deletions: dict[str, list[TopicDeletion]] = field(default_factory=dict)
    of_topics: dict[tuple[type, str, int], int] = field(default_factory=dict)
    at: LogEntry | None = None

    def take(self, entry: LogEntry) -> None:
        """Take the next record.

        Raises:
            MetadataLogError: It is about a topic, partition or broker that nothing before it made,
                or has a field of another type than Kafka's.
        """
        self.at = entry
        if isinstance(entry.record, LeaderChange):
            self._decide(ControllerElected(broker=entry.record.leader, zxid=entry.offset))
            return
        image, name = self.image, entry.record.name
        brokers = dict(image.brokers) if name in _OF_BROKERS else {}
        partitions = dict(image.partitions) if name in _OF_PARTITIONS else {}
        names = dict(image.names) if name == "RemoveTopicRecord" else {}
        try:
            image.apply(entry.record, controller_epoch=entry.leader_epoch)
        except KeyError as error:
            raise MetadataLogError(
                f"{METADATA}/: the {name} at offset {entry.offset} is about {error}, "
                "which no record before it made: the log is of another cluster, or lacks some"
            ) from error
        except MetadataRecordError as error:
            raise MetadataLogError(f"{DEFINITIONS}: {error}") from error
        self._show(entry, entry.record, brokers, partitions, names)

    def _show(
        self,
        entry: LogEntry,
        record: MetadataRecord,
        brokers: Mapping[int, BrokerImage],
        partitions: Mapping[tuple[str, int], PartitionImage],
        names: Mapping[str, str],
    ) -> None:
        """Note the decisions of a record, given the metadata before it."""
        said, offset = record.fields, entry.offset
        match record.name:
            case "TopicRecord":
                self._topic(said["Name"], said["TopicId"])
            case "PartitionRecord" | "PartitionChangeRecord":
                place = said["TopicId"], said["PartitionId"]
                self._partition(place, partitions.get(place))
            case "ClearElrRecord":
                for place, after in sorted(self.image.partitions.items(), key=lambda at: at[0]):
                    if after is not partitions.get(place):
                        self._partition(place, partitions.get(place))
            case "RemoveTopicRecord":
                self._remove(entry, names[said["TopicId"]])
            case "ConfigRecord":
                self._configure(said["ResourceType"], said["ResourceName"])
            case "UnregisterBrokerRecord":
                self._decide(BrokerUnregistered(broker=said["BrokerId"], zxid=offset))
            case "RegisterBrokerRecord" | "BrokerRegistrationChangeRecord":
                self._broker(said["BrokerId"], brokers.get(said["BrokerId"]))
            case "FenceBrokerRecord" | "UnfenceBrokerRecord":
                self._broker(said["Id"], brokers.get(said["Id"]))
            case "FeatureLevelRecord":
                self._decide(
                    FeatureLevelSet(name=said["Name"], level=said["FeatureLevel"], zxid=offset)
                )

    def _decide(self, decision: Decision, *, topic: str = "") -> None:
        """Note a decision; a topic's repeated decisions in one batch count once."""
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
        assert self.at is not None
        if topic_partition(f"{name}-0") is None:
            raise ScenarioDataError(f"{METADATA}/: {name!r} is no topic's name")
        self._decide(TopicIdentified(topic=name, topic_id=topic_id, zxid=self.at.offset))
        self.topic_ids[name] = self.topic_ids.get(name, frozenset()) | {topic_id}
        if name in self.deletions:
            self.deletions[name][-1] = replace(self.deletions[name][-1], is_gone=False)

    def _partition(self, place: tuple[str, int], before: PartitionImage | None) -> None:
        assert self.at is not None
        (topic_id, number), offset = place, self.at.offset
        topic, after = self.image.names[topic_id], self.image.partitions[place]
        if before is None or before.replicas != after.replicas:
            # One decision for all partitions that one batch made.
            replicas = (each.replicas for each in self.image.partitions_of(topic_id).values())
            made = TopicCreated(topic=topic, assignment=tuple(replicas), zxid=offset)
            self._decide(made, topic=topic)
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

    def _remove(self, entry: LogEntry, topic: str) -> None:
        self._decide(TopicDeleted(topic=topic, zxid=entry.offset))
        self.deletions.setdefault(topic, []).append(
            TopicDeletion(
                topic=topic,
                asked=entry.offset,
                zxid=entry.offset,
                time=entry.time_ms / 1000,
                is_gone=True,
            )
        )

    def _configure(self, kind: int, name: str) -> None:
        assert self.at is not None
        written = tuple(sorted(self.image.settings[kind, name].items()))
        if kind == TOPIC_RESOURCE:
            configured = TopicConfigured(topic=name, configuration=written, zxid=self.at.offset)
            self._decide(configured, topic=name)
        elif kind == BROKER_RESOURCE:
            self.broker_configurations.append((name or EVERY_BROKER, written))

    def _broker(self, broker: int, before: BrokerImage | None) -> None:
        assert self.at is not None
        after, was = self.image.brokers[broker], (True, False)
        if before is None or before.epoch != after.epoch:
            # A process that asks again keeps its epoch (KAFKA-16952): nothing is new then.
            offset = self.at.offset
            self._decide(BrokerRegistered(broker=broker, czxid=after.epoch, zxid=offset))
        else:
            was = before.is_fenced, before.is_shutting_down
        if (after.is_fenced, after.is_shutting_down) != was:
            self._decide(
                BrokerRegistrationChanged(
                    broker=broker,
                    is_fenced=after.is_fenced,
                    is_shutting_down=after.is_shutting_down,
                    zxid=self.at.offset,
                )
            )
