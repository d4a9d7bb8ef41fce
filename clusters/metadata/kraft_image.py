"""What the records of a KRaft metadata log come to: brokers, topics, partitions, settings.

Sources, Kafka 4.1.0: ``PartitionRegistration.merge`` (a change with a leader raises the leader
epoch, each change the partition epoch), ``ClusterDelta``, ``TopicsDelta``, and the definitions of
the records.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.clusters.metadata.api import LeaderAndIsr

_LEADER_CHANGE = 2
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
_NO_CHANGE = -2
_FENCED, _UNFENCED = 1, -1


@dataclass(slots=True)
class BrokerImage:
    """One registered broker; it takes part in the cluster once it is not fenced any more."""

    epoch: int
    is_fenced: bool
    is_shutting_down: bool
    said: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What it said when it registered, as JSON."""
        return json.dumps(self.said, default=str)


@dataclass(slots=True)
class PartitionImage:
    """One partition; ``leader`` is -1 while there is none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    quorum_epoch: int
    is_reassigning: bool
    eligible: tuple[int, ...] = ()

    @property
    def state(self) -> LeaderAndIsr:
        """As gates and steps ask for it."""
        return LeaderAndIsr(
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            controller_epoch=self.quorum_epoch,
            version=self.partition_epoch,
        )


@dataclass(slots=True)
class MetadataImage:
    """The metadata as of ``offset``, exclusive; ``quorum_leader`` wrote the newest records."""

    offset: int = 0
    quorum_leader: int | None = None
    quorum_epoch: int | None = None
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionImage] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)

    def apply_control(self, key: bytes, value: bytes, *, quorum_epoch: int) -> None:
        """Take a control record: a quorum's leader begins its epoch with one that names it."""
        if struct.unpack_from(">hh", key)[1] == _LEADER_CHANGE:
            self.quorum_leader = struct.unpack_from(">i", value, 2)[0]
            self.quorum_epoch = quorum_epoch

    def apply(self, record: MetadataRecord, *, quorum_epoch: int) -> None:
        """Take one record, in the order of the log."""
        said = record.fields
        match record.name:
            case "FeatureLevelRecord":
                self.features[said["Name"]] = said["FeatureLevel"]
            case "RegisterBrokerRecord":
                self.brokers[said["BrokerId"]] = BrokerImage(
                    epoch=said["BrokerEpoch"],
                    is_fenced=said["Fenced"],
                    is_shutting_down=said.get("InControlledShutdown", False),
                    said=said,
                )
            case "UnregisterBrokerRecord":
                self.brokers.pop(said["BrokerId"], None)
            case "FenceBrokerRecord" | "UnfenceBrokerRecord":
                self.brokers[said["Id"]].is_fenced = record.name == "FenceBrokerRecord"
            case "BrokerRegistrationChangeRecord":
                self._change_broker(said)
            case "TopicRecord":
                self.topic_ids[said["Name"]] = said["TopicId"]
            case "RemoveTopicRecord":
                self._remove_topic(said["TopicId"])
            case "PartitionRecord":
                self._add_partition(said, quorum_epoch)
            case "PartitionChangeRecord":
                self._change_partition(said, quorum_epoch)
            case "ConfigRecord":
                resource = said["ResourceType"], said["ResourceName"]
                self._configure(resource, said["Name"], said["Value"])

    def _change_broker(self, said: Mapping[str, Any]) -> None:
        broker = self.brokers[said["BrokerId"]]
        if said["Fenced"] in (_FENCED, _UNFENCED):
            broker.is_fenced = said["Fenced"] == _FENCED
        broker.is_shutting_down |= said.get("InControlledShutdown", 0) == 1

    def _remove_topic(self, topic_id: str) -> None:
        for name in [name for name, known in self.topic_ids.items() if known == topic_id]:
            del self.topic_ids[name]
            self.settings.pop((TOPIC_RESOURCE, name), None)
        for place in [place for place in self.partitions if place[0] == topic_id]:
            del self.partitions[place]

    def _add_partition(self, said: Mapping[str, Any], quorum_epoch: int) -> None:
        self.partitions[said["TopicId"], said["PartitionId"]] = PartitionImage(
            replicas=tuple(said["Replicas"]),
            isr=tuple(said["Isr"]),
            leader=said["Leader"],
            leader_epoch=said["LeaderEpoch"],
            partition_epoch=said["PartitionEpoch"],
            quorum_epoch=quorum_epoch,
            is_reassigning=bool(said["RemovingReplicas"] or said["AddingReplicas"]),
            eligible=tuple(said.get("EligibleLeaderReplicas") or ()),
        )

    def _change_partition(self, said: Mapping[str, Any], quorum_epoch: int) -> None:
        partition = self.partitions[said["TopicId"], said["PartitionId"]]
        partition.quorum_epoch = quorum_epoch
        partition.partition_epoch += 1
        if said["Isr"] is not None:
            partition.isr = tuple(said["Isr"])
        if said["Leader"] != _NO_CHANGE:
            partition.leader = said["Leader"]
            partition.leader_epoch += 1
        if said["Replicas"] is not None:
            partition.replicas = tuple(said["Replicas"])
        if (eligible := said.get("EligibleLeaderReplicas")) is not None:
            partition.eligible = tuple(eligible)
        changed = [said["RemovingReplicas"], said["AddingReplicas"]]
        if any(replicas is not None for replicas in changed):
            partition.is_reassigning = any(changed)

    def _configure(self, resource: tuple[int, str], name: str, value: str | None) -> None:
        settings = self.settings.setdefault(resource, {})
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
