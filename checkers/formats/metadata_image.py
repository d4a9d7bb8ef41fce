"""The image of a KRaft metadata log: brokers, topics, partitions and settings after its records.

Both who reads a log while a cluster runs and who judges one fold it here, and keep a controller's
transactions apart.

Sources, Kafka 4.1.0: ``PartitionRegistration.merge`` (a change with a leader raises the leader
epoch, each change the partition epoch), ``BrokerRegistration``, ``DirectoryId``, ``ClusterDelta``,
``TopicsDelta``, ``ReplicationControlManager.removeTopicElrs``, and the definitions of the records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kchaos.checkers.formats.metadata_records import MetadataRecord, MetadataRecordError

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
MIGRATING, UNASSIGNED, LOST = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "AQg")
"""Ids of no directory: of before directories had ids, not chosen yet, and failed (KIP-858)."""
NO_LEADER_CHANGE = -2
MIGRATION_STATES = ("none", "migration", "pre-migration", "post-migration")
"""By the number in a ZkMigrationStateRecord (ZkMigrationState, 3.5.2 to 3.9.1)."""
# 0 is no change.
_FENCED: Mapping[int, bool] = {1: True, -1: False}
_NOBODY = {"EligibleLeaderReplicas": (), "LastKnownElr": ()}
_REPLICA_LISTS: Mapping[str, str] = {
    "replicas": "Replicas",
    "isr": "Isr",
    "adding": "AddingReplicas",
    "removing": "RemovingReplicas",
    "eligible": "EligibleLeaderReplicas",
    "last_known": "LastKnownElr",
}
"""Fields of a `PartitionImage`, each with the field of a PartitionChangeRecord that changes it."""


Item = TypeVar("Item")


@dataclass(slots=True)
class Transactions(Generic[Item]):
    """Which records of a log count, where a controller may write some of them in a transaction.

    What a transaction wrote counts once it has ended, and nothing of one that was aborted or has
    not ended (KIP-868). Transactions do not overlap.
    """

    pending: list[Item] | None = None

    def take(self, name: str, item: Item) -> Sequence[Item]:
        """Return what counts since this record was read, in the order of the log.

        Args:
            name: The kind of the record.
            item: The record as the caller has it.
        """
        match name:
            case "BeginTransactionRecord":
                self.pending = []
            case "AbortTransactionRecord":
                self.pending = None
            case "EndTransactionRecord":
                ended, self.pending = self.pending or (), None
                return ended
            case _ if self.pending is None:
                return (item,)
            case _:
                self.pending.append(item)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One registered broker; it takes part in the cluster once it is not fenced any more.

    ``said`` is its last registration. A broker that is shutting down never goes back on that.
    ``directories`` are the ids of its log directories that work; empty before metadata.version 17.
    """

    epoch: int
    is_fenced: bool = True
    is_shutting_down: bool = False
    said: Mapping[str, Any] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Return whether it may lead and join an ISR (ClusterControlManager.isActive)."""
        return not self.is_fenced and not self.is_shutting_down

    def has_online(self, directory: str) -> bool:
        """Return whether a directory is not known to have failed (DirectoryId.isOnline)."""
        if directory in (UNASSIGNED, MIGRATING):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition; ``leader`` is -1 while there is none.

    ``controller_epoch`` is the quorum's when it changed last. ``adding`` and ``removing`` are the
    replicas that a reassignment adds and removes. ``is_recovering`` says that an unclean election
    was the last, and that its leader has not told since that it recovered (KIP-704).
    ``directories`` has the log directory of each replica, in their order.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    is_recovering: bool = False
    directories: tuple[str, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Return whether it is on its way to other replicas."""
        return bool(self.adding or self.removing)

    def directory(self, broker: int) -> str:
        """Return the id of the log directory in which a replica has it."""
        return dict(zip(self.replicas, self.directories, strict=False)).get(broker, MIGRATING)


@dataclass(slots=True)
class MetadataImage:
    """The metadata as of the records that were applied.

    Attributes:
        names: The name of each topic by its id.
        topic_ids: The id of each topic by its name.
        partitions: By topic id and number.
        settings: Own settings by kind and name of their resource.
        offset: Where a live reader goes on, exclusive.
        quorum_leader: Who wrote the newest records, where a live reader says it.
        voters: The directory id of each voter of a dynamic quorum, where a live reader says it.
        migration: The number of a migration's state (`MIGRATION_STATES`), likewise.
    """

    offset: int = 0
    quorum_leader: int | None = None
    quorum_epoch: int | None = None
    voters: Mapping[int, str] = field(default_factory=dict)
    migration: int = 0
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionImage] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)

    def apply(self, record: MetadataRecord, *, controller_epoch: int) -> None:
        """Take one record, in the order of the log.

        Raises:
            KeyError: It is about a topic, partition or broker that nothing before it made.
            MetadataRecordError: A field is not of the type that Kafka gives it.
        """
        said = record.fields
        match record.name:
            case "FeatureLevelRecord":
                self.features[_text(said, "Name")] = _number(said, "FeatureLevel")
            case "RegisterBrokerRecord":
                self._register(said)
            case "UnregisterBrokerRecord":
                del self.brokers[_number(said, "BrokerId")]
            case "FenceBrokerRecord" | "UnfenceBrokerRecord":
                broker = _number(said, "Id")
                is_fenced = record.name == "FenceBrokerRecord"
                self.brokers[broker] = replace(self.brokers[broker], is_fenced=is_fenced)
            case "BrokerRegistrationChangeRecord":
                self._change_broker(said)
            case "TopicRecord":
                name, topic_id = _text(said, "Name"), _text(said, "TopicId")
                self.names[topic_id], self.topic_ids[name] = name, topic_id
            case "RemoveTopicRecord":
                self._remove_topic(_text(said, "TopicId"))
            case "PartitionRecord":
                self._add_partition(said, controller_epoch)
            case "PartitionChangeRecord":
                place = _text(said, "TopicId"), _number(said, "PartitionId")
                self._change_partition(place, said, controller_epoch)
            case "ClearElrRecord":
                self._clear_eligible(_text(said, "TopicName"), controller_epoch)
            case "ConfigRecord":
                self._configure(said)

    def partitions_of(self, topic_id: str) -> dict[int, PartitionImage]:
        """Return a topic's partitions by number, in the order of their numbers."""
        return {
            number: partition
            for (known, number), partition in sorted(self.partitions.items(), key=lambda at: at[0])
            if known == topic_id
        }

    def _register(self, said: Mapping[str, Any]) -> None:
        broker, epoch = _number(said, "BrokerId"), _number(said, "BrokerEpoch")
        before = self.brokers.get(broker)
        # A process that asks again keeps its epoch (KAFKA-16952).
        was_shutting_down = before is not None and before.epoch == epoch and before.is_shutting_down
        self.brokers[broker] = BrokerImage(
            epoch=epoch,
            is_fenced=bool(said["Fenced"]),
            is_shutting_down=was_shutting_down or bool(said.get("InControlledShutdown", False)),
            said=said,
            directories=tuple(said.get("LogDirs") or ()),
        )

    def _change_broker(self, said: Mapping[str, Any]) -> None:
        broker = _number(said, "BrokerId")
        before = self.brokers[broker]
        self.brokers[broker] = replace(
            before,
            is_fenced=_FENCED.get(_number(said, "Fenced"), before.is_fenced),
            is_shutting_down=before.is_shutting_down or said.get("InControlledShutdown", 0) == 1,
            directories=tuple(said.get("LogDirs") or before.directories),
        )

    def _remove_topic(self, topic_id: str) -> None:
        name = self.names.pop(topic_id)
        if self.topic_ids.get(name) == topic_id:
            del self.topic_ids[name]
        self.settings.pop((TOPIC_RESOURCE, name), None)
        for number in self.partitions_of(topic_id):
            del self.partitions[topic_id, number]

    def _add_partition(self, said: Mapping[str, Any], controller_epoch: int) -> None:
        topic_id = _text(said, "TopicId")
        if topic_id not in self.names:
            raise KeyError(topic_id)
        self.partitions[topic_id, _number(said, "PartitionId")] = PartitionImage(
            replicas=_brokers(said, "Replicas") or (),
            isr=_brokers(said, "Isr") or (),
            leader=_number(said, "Leader"),
            leader_epoch=_number(said, "LeaderEpoch"),
            partition_epoch=_number(said, "PartitionEpoch"),
            controller_epoch=controller_epoch,
            adding=_brokers(said, "AddingReplicas") or (),
            removing=_brokers(said, "RemovingReplicas") or (),
            eligible=_brokers(said, "EligibleLeaderReplicas") or (),
            last_known=_brokers(said, "LastKnownElr") or (),
            is_recovering=said.get("LeaderRecoveryState") == 1,
            directories=_directories(said),
        )

    def _change_partition(
        self, place: tuple[str, int], said: Mapping[str, Any], controller_epoch: int
    ) -> None:
        """Take what is named; what is not stays as it was."""
        before = self.partitions[place]
        is_elected = said.get("Leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE
        changed = {
            field: value
            for field, name in _REPLICA_LISTS.items()
            if (value := _brokers(said, name)) is not None
        }
        recovery = said.get("LeaderRecoveryState", -1)
        self.partitions[place] = replace(
            before,
            **changed,
            leader=_number(said, "Leader") if is_elected else before.leader,
            leader_epoch=before.leader_epoch + is_elected,
            partition_epoch=before.partition_epoch + 1,
            controller_epoch=controller_epoch,
            is_recovering=before.is_recovering if recovery == -1 else recovery == 1,
            directories=_directories(said) or before.directories,
        )

    def _clear_eligible(self, topic: str, controller_epoch: int) -> None:
        """Change each partition that has any; without a topic those of all."""
        topic_id = self.topic_ids[topic] if topic else None
        for place, partition in list(self.partitions.items()):
            if topic_id in (None, place[0]) and (partition.eligible or partition.last_known):
                self._change_partition(place, _NOBODY, controller_epoch)

    def _configure(self, said: Mapping[str, Any]) -> None:
        resource = _number(said, "ResourceType"), _text(said, "ResourceName")
        settings = self.settings.setdefault(resource, {})
        if said["Value"] is None:
            settings.pop(_text(said, "Name"), None)
        else:
            settings[_text(said, "Name")] = _text(said, "Value")


def _brokers(said: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    value = said.get(name)
    return value if isinstance(value, tuple) else None


def _directories(said: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(said.get("Directories") or ())


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said[name]
    if not isinstance(value, int):
        raise MetadataRecordError(f"{name} is no number, as Kafka defines it")
    return value


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said[name]
    if not isinstance(value, str):
        raise MetadataRecordError(f"{name} is no text, as Kafka defines it")
    return value
