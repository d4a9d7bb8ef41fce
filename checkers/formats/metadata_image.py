"""The image of a KRaft metadata log: brokers, topics, partitions and settings after its records.

Both who reads a log while a cluster runs and who judges one fold it here, and keep a controller's
transactions apart.

Sources, Kafka 4.1.0: ``PartitionRegistration.merge`` (a change with a leader raises the leader
epoch, each change the partition epoch), ``ClusterDelta``, ``TopicsDelta``,
``ReplicationControlManager.removeTopicElrs``, and the definitions of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kchaos.checkers.formats.metadata_records import MetadataRecord, MetadataRecordError

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
_NO_CHANGE = -2
# 0 is no change.
_FENCED: Mapping[int, bool] = {1: True, -1: False}
_NOBODY = {"EligibleLeaderReplicas": (), "LastKnownElr": ()}


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
    """

    epoch: int
    is_fenced: bool
    is_shutting_down: bool
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition; ``leader`` is -1 while there is none.

    ``controller_epoch`` is the quorum's when it changed last.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    is_reassigning: bool
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


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
    """

    offset: int = 0
    quorum_leader: int | None = None
    quorum_epoch: int | None = None
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
        )

    def _change_broker(self, said: Mapping[str, Any]) -> None:
        broker = _number(said, "BrokerId")
        before = self.brokers[broker]
        self.brokers[broker] = replace(
            before,
            is_fenced=_FENCED.get(_number(said, "Fenced"), before.is_fenced),
            is_shutting_down=before.is_shutting_down or said.get("InControlledShutdown", 0) == 1,
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
            is_reassigning=bool(said.get("RemovingReplicas") or said.get("AddingReplicas")),
            eligible=_brokers(said, "EligibleLeaderReplicas") or (),
            last_known=_brokers(said, "LastKnownElr") or (),
        )

    def _change_partition(
        self, place: tuple[str, int], said: Mapping[str, Any], controller_epoch: int
    ) -> None:
        """Take what is named; what is not stays as it was."""
        before = self.partitions[place]
        is_elected = said.get("Leader", _NO_CHANGE) != _NO_CHANGE
        moving = [_brokers(said, "RemovingReplicas"), _brokers(said, "AddingReplicas")]
        is_moved = any(replicas is not None for replicas in moving)
        replicas, isr = _brokers(said, "Replicas"), _brokers(said, "Isr")
        eligible, last = _brokers(said, "EligibleLeaderReplicas"), _brokers(said, "LastKnownElr")
        self.partitions[place] = replace(
            before,
            replicas=before.replicas if replicas is None else replicas,
            isr=before.isr if isr is None else isr,
            leader=_number(said, "Leader") if is_elected else before.leader,
            leader_epoch=before.leader_epoch + is_elected,
            partition_epoch=before.partition_epoch + 1,
            controller_epoch=controller_epoch,
            is_reassigning=any(moving) if is_moved else before.is_reassigning,
            eligible=before.eligible if eligible is None else eligible,
            last_known=before.last_known if last is None else last,
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
