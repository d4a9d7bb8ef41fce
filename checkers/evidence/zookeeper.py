"""zookeeper/: what the cluster decided, from ZooKeeper's own transaction logs.

So no decision is missed between two looks at a znode.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.controller.knowledge import Replicas
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Decision,
    PartitionState,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicDeletion,
    TopicIdentified,
)
from kchaos.checkers.opening import bounded_json
from kchaos.checkers.zookeeper_log import ZnodeChange


def member_logs(files: EvidenceFiles) -> list[list[tuple[str, bytes]]]:
    """Name and content of each member's logs, by ascending zxid of the name."""
    members = sorted((files.run.path / "zookeeper").glob("member-*"))
    return [_log_files(files, member) for member in members]


def topic_ids(changes: Sequence[ZnodeChange]) -> dict[str, frozenset[str]]:
    """Return every id of a topic's znode (2.8 and later); a topic may be created again."""
    ids: dict[str, frozenset[str]] = {}
    for change in changes:
        match change.path.split("/")[1:]:
            case ["brokers", "topics", topic] if change.data:
                topic_id = _json(change).get("topic_id")
                if isinstance(topic_id, str):
                    ids[topic] = ids.get(topic, frozenset()) | {topic_id}
            case _:
                pass
    return ids


def topic_deletions(changes: Sequence[ZnodeChange]) -> dict[str, tuple[TopicDeletion, ...]]:
    """Return each deletion of each topic, in zxid order.

    Sources: TopicDeletionManager.completeDeleteTopic; a controller that may delete none removes the
    wish alone (KafkaController.TopicDeletion).
    """
    asked: dict[str, TopicDeletion] = {}
    done: dict[str, list[TopicDeletion]] = {}
    for change in changes:
        match change.path.split("/")[1:], change.operation:
            case ["admin", "delete_topics", topic], "create":
                asked[topic] = TopicDeletion(
                    topic=topic, asked=change.zxid, zxid=change.zxid, time=math.inf
                )
            case ["admin", "delete_topics", topic], "delete":
                asked.pop(topic, None)
            case ["brokers", "topics", topic], "delete":
                wish = asked.pop(topic, None)
                gone = TopicDeletion(
                    topic=topic,
                    asked=change.zxid if wish is None else wish.asked,
                    zxid=change.zxid,
                    time=change.time_ms / 1000,
                    is_gone=True,
                )
                done.setdefault(topic, []).append(gone)
            case ["brokers", "topics", topic], "create" if topic in done:
                done[topic][-1] = replace(done[topic][-1], is_gone=False)
            case _:
                pass
    for topic, deletion in asked.items():
        done.setdefault(topic, []).append(deletion)
    return {topic: tuple(deletions) for topic, deletions in done.items()}


def wanted_replicas(
    changes: Sequence[ZnodeChange],
) -> dict[TopicPartition, list[tuple[int, tuple[Replicas, ...]]]]:
    """Return each partition's wanted replicas, with the zxid from which it may be moved.

    Several where more than one reassignment may be what it does; none from where none goes on.
    Partitions that nobody reassigned are left out.

    Sources: KafkaController.onPartitionReassignment, 0.10.2.2, 1.1.1, 2.4.0 and 2.8.2. Up to 2.3 a
    request in /admin/reassign_partitions has the replicas. It is deleted twice when all is done, so
    that a later one may go while a controller acts on it. From 2.4 on (KIP-455) the topic's znode
    says what is added and removed; where that is nothing the controller writes one leader epoch.
    Where nothing at all is new it writes the znode only afterwards, as it was.

    Raises:
        ScenarioDataError: A znode holds no JSON of Kafka's shape.
    """
    reader = _ReassignmentReader()
    for change in changes:
        try:
            reader.read(change)
        except (AttributeError, TypeError, ValueError) as error:
            raise _bad_znode(change, f"another shape ({error!r})") from error
    return reader.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assigned:
    """A partition's replicas in its topic's znode, with those that go or come (KIP-455)."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(slots=True)
class _ReassignmentReader:
    """Knowledge of reassignments at one zxid, by partition.

    Attributes:
        requested: What /admin/reassign_partitions asks for.
        pending: What it asked for and a controller may not have done.
        assigned: What the topic's znode says.
        at_once: Replicas of which nothing is added or removed, until the leader epoch of them.
        states: The znode of its state, before its last write and now.
        written: When the topic's znode was last written: a zxid, by topic.
        wanted: As `wanted_replicas` returns it.
    """

    requested: dict[TopicPartition, Replicas] = field(default_factory=dict)
    pending: dict[TopicPartition, tuple[Replicas, ...]] = field(default_factory=dict)
    assigned: dict[TopicPartition, _Assigned] = field(default_factory=dict)
    at_once: dict[TopicPartition, Replicas] = field(default_factory=dict)
    states: dict[TopicPartition, tuple[ZnodeChange | None, ZnodeChange]] = field(
        default_factory=dict
    )
    written: dict[str, int] = field(default_factory=dict)
    wanted: dict[TopicPartition, list[tuple[int, tuple[Replicas, ...]]]] = field(
        default_factory=dict
    )

    def read(self, change: ZnodeChange) -> None:
        match change.path.split("/")[1:]:
            case ["admin", "reassign_partitions"]:
                concerned = self._request(change)
            case ["brokers", "topics", topic]:
                concerned = self._topic(topic, change)
            case ["brokers", "topics", topic, "partitions", number, "state"]:
                concerned = self._state(TopicPartition(topic, int(number)), change)
            case _:
                return
        for partition in concerned:
            self._note(partition, change.zxid)

    def _request(self, change: ZnodeChange) -> list[TopicPartition]:
        asked = _field(change, _json(change), "partitions") if change.data else []
        self.requested = {
            TopicPartition(
                str(_field(change, each, "topic")),
                _number(change, _field(change, each, "partition")),
            ): _brokers(change, _field(change, each, "replicas"))
            for each in asked
        }
        for partition, replicas in self.requested.items():
            others = (each for each in self.pending.get(partition, ()) if each != replicas)
            self.pending[partition] = (*others, replicas)
        return [*self.pending]

    def _topic(self, topic: str, change: ZnodeChange) -> list[TopicPartition]:
        if not change.data:
            gone = [partition for partition in self.assigned if partition.topic == topic]
            for partition in gone:
                for known in (self.pending, self.assigned, self.at_once, self.states):
                    known.pop(partition, None)
            return gone
        written = _json(change)
        adding, removing = written.get("adding_replicas"), written.get("removing_replicas")
        concerned = []
        for number, replicas in _field(change, written, "partitions").items():
            partition = TopicPartition(topic, int(number))
            now = _Assigned(
                replicas=_brokers(change, replicas),
                adding=_brokers(change, (adding or {}).get(number, [])),
                removing=_brokers(change, (removing or {}).get(number, [])),
            )
            before = self.assigned.get(partition)
            self.assigned[partition] = now
            if before is not None and before != now:
                self._reassigned(partition, before, now)
                concerned.append(partition)
            elif not now.is_moving:
                self._look_back(partition, now.replicas, self.written.get(topic, change.zxid))
        self.written[topic] = change.zxid
        return concerned

    def _reassigned(self, partition: TopicPartition, before: _Assigned, now: _Assigned) -> None:
        self.at_once.pop(partition, None)
        is_done = before.is_moving and now.replicas == before.target
        if now.replicas in self.pending.get(partition, ()):
            is_done = is_done or {*now.replicas} < {*before.replicas}
        if not (is_done or now.is_moving or partition in self.requested):
            self.at_once[partition] = now.replicas

    def _look_back(self, partition: TopicPartition, replicas: Replicas, since: int) -> None:
        """Note a reassignment to what was there, if an epoch of the same ISR was the last write."""
        earlier, last = self.states.get(partition, (None, None))
        noted = self.wanted.get(partition, [])
        if last is None or earlier is None or last.zxid < since or not _is_epoch(earlier, last):
            return
        if not noted or (noted[-1][0] <= earlier.zxid and not noted[-1][1]):
            self.wanted[partition] = [*noted, (earlier.zxid, (replicas,)), (last.zxid, ())]

    def _state(self, partition: TopicPartition, change: ZnodeChange) -> list[TopicPartition]:
        _, before = self.states.get(partition, (None, None))
        self.states[partition] = (before, change)
        if partition not in self.at_once or before is None or not _is_epoch(before, change):
            return []
        del self.at_once[partition]
        return [partition]

    def _note(self, partition: TopicPartition, zxid: int) -> None:
        assigned = self.assigned.get(partition)
        now = None if assigned is None else assigned.replicas
        pending = tuple(
            replicas
            for replicas in self.pending.pop(partition, ())
            if replicas != now or self.requested.get(partition) == replicas
        )
        if pending:
            self.pending[partition] = pending
        target = (assigned.target,) if assigned is not None and assigned.is_moving else ()
        at_once = (self.at_once[partition],) if partition in self.at_once else ()
        wanted = tuple(dict.fromkeys((*pending, *target, *at_once)))
        noted = self.wanted.get(partition, [])
        if wanted != (noted[-1][1] if noted else ()):
            self.wanted[partition] = [*noted, (zxid, wanted)]


def _is_epoch(before: ZnodeChange, now: ZnodeChange) -> bool:
    """Return whether a partition's state has another leader epoch and the same ISR."""
    if not (before.data and now.data):
        return False
    old, new = _json(before), _json(now)
    is_same_isr = {*_brokers(before, old.get("isr"))} == {*_brokers(now, new.get("isr"))}
    return is_same_isr and old.get("leader_epoch") != new.get("leader_epoch")


def cluster_id(changes: Sequence[ZnodeChange]) -> str:
    """Return the cluster's id as the first broker wrote it, or ""."""
    written = [change for change in changes if change.path == "/cluster/id" and change.data]
    return str(_json(written[-1]).get("id", "")) if written else ""


def decisions(changes: Sequence[ZnodeChange]) -> Iterator[TimedEvent]:
    """Yield the decisions in the changes; other znodes mean nothing here.

    Sources: ZkData.scala (BrokerIdsZNode, TopicZNode, TopicPartitionStateZNode, ControllerZNode)
    in Kafka 1.1 to 3.9, ZkUtils.scala before.

    Raises:
        ScenarioDataError: A znode holds no JSON of Kafka's shape.
    """
    reader = _DecisionReader(brokers=_brokers_by_session(changes))
    for change in changes:
        try:
            known = (reader.decision(change), reader.identified(change))
        except (AttributeError, TypeError, ValueError) as error:
            raise _bad_znode(change, f"another shape ({error!r})") from error
        for decision in known:
            if decision is not None:
                yield TimedEvent(event=decision, zxid=change.zxid, time=change.time_ms / 1000)


def topic_configurations(changes: Sequence[ZnodeChange]) -> dict[str, dict[str, str]]:
    """Return the last configuration of each topic in `/config/topics`."""
    configurations: dict[str, dict[str, str]] = {}
    for change in changes:
        parts = change.path.split("/")
        if parts[1:3] == ["config", "topics"] and len(parts) == 4 and change.data:
            configurations[parts[3]] = dict(_configuration(change))
    return configurations


def broker_configurations(
    changes: Sequence[ZnodeChange],
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield each configuration in `/config/brokers`: a broker's id or "<default>", and settings.

    Raises:
        ScenarioDataError: A znode holds no JSON of Kafka's shape.
    """
    for change in changes:
        match change.path.split("/")[1:]:
            case ["config", "brokers", broker] if change.data:
                yield broker, _configuration(change)
            case _:
                pass


_LIMIT = 1 << 31


@dataclass(slots=True)
class _DecisionReader:
    brokers: dict[int, int]
    assignments: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)

    def decision(self, change: ZnodeChange) -> Decision | None:
        match change.path.split("/")[1:]:
            case ["brokers", "ids", broker] if change.operation == "create":
                return BrokerRegistered(broker=int(broker), czxid=change.zxid, zxid=change.zxid)
            case ["brokers", "ids", broker] if change.operation == "delete":
                return BrokerUnregistered(broker=int(broker), zxid=change.zxid)
            case ["brokers", "topics", topic]:
                return self._topic(topic, change)
            case ["brokers", "topics", topic, "partitions", partition, "state"] if change.data:
                return self._state(topic, int(partition), change)
            case ["config", "topics", topic] if change.data:
                return TopicConfigured(
                    topic=topic, configuration=_configuration(change), zxid=change.zxid
                )
            case ["controller"] if change.operation == "create":
                return ControllerElected(broker=controller_of(change), zxid=change.zxid)
            case _:
                return None

    def identified(self, change: ZnodeChange) -> TopicIdentified | None:
        """Return the topic id that a change sets, or None if it sets none or no new one."""
        match change.path.split("/")[1:]:
            case ["brokers", "topics", topic] if change.data:
                topic_id = _json(change).get("topic_id")
                if isinstance(topic_id, str) and self.topic_ids.get(topic) != topic_id:
                    self.topic_ids[topic] = topic_id
                    return TopicIdentified(topic=topic, topic_id=topic_id, zxid=change.zxid)
        return None

    def _topic(self, topic: str, change: ZnodeChange) -> TopicCreated | TopicDeleted | None:
        if change.operation == "delete":
            self.assignments.pop(topic, None)
            return TopicDeleted(topic=topic, zxid=change.zxid)
        partitions = _field(change, _json(change), "partitions")
        if topic_partition(f"{topic}-0") is None or not isinstance(partitions, dict):
            raise _bad_znode(change, "no topic's name, or no object of partitions")
        if not partitions or sorted(partitions, key=int) != [
            str(number) for number in range(len(partitions))
        ]:
            raise _bad_znode(change, "partitions that are not numbered from 0 on")
        assignment = tuple(
            _brokers(change, partitions[number]) for number in sorted(partitions, key=int)
        )
        # The controller writes the same assignment again, with a topic id or without
        # the replicas that it has added: only another assignment is news.
        if self.assignments.get(topic) == assignment:
            return None
        self.assignments[topic] = assignment
        return TopicCreated(topic=topic, assignment=assignment, zxid=change.zxid)

    def _state(self, topic: str, partition: int, change: ZnodeChange) -> PartitionState:
        state = _json(change)
        return PartitionState(
            topic=topic,
            partition=partition,
            leader=_number(change, _field(change, state, "leader")),
            leader_epoch=_number(change, _field(change, state, "leader_epoch")),
            isr=_brokers(change, _field(change, state, "isr")),
            controller_epoch=_number(change, _field(change, state, "controller_epoch")),
            version=change.version,
            written_by=self.brokers.get(change.session),
            zxid=change.zxid,
        )


def _brokers_by_session(changes: Sequence[ZnodeChange]) -> dict[int, int]:
    """Return the broker of each session; ZooKeeper never reuses a session's id.

    Until 2.2 a broker may become controller before it registers itself, hence both znodes.
    """
    brokers = {}
    for change in changes:
        if change.operation != "create":
            continue
        match change.path.split("/")[1:]:
            case ["brokers", "ids", broker]:
                brokers[change.session] = int(broker)
            case ["controller"]:
                brokers[change.session] = controller_of(change)
            case _:
                pass
    return brokers


def controller_of(change: ZnodeChange) -> int:
    """Return the broker that a write of `/controller` names."""
    return _number(change, _field(change, _json(change), "brokerid"))


def kraft_epoch_of(change: ZnodeChange) -> int | None:
    """Return the epoch of the KRaft controller that a write of `/controller` names, else None."""
    epoch = _number(change, _json(change).get("kraftControllerEpoch", -1))
    return epoch if epoch >= 0 else None


def _brokers(change: ZnodeChange, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _bad_znode(change, f"no list of brokers, but {value!r}")
    return tuple(_number(change, broker) for broker in value)


def _number(change: ZnodeChange, value: Any) -> int:
    if type(value) is not int or not -_LIMIT <= value < _LIMIT:
        raise _bad_znode(change, f"no number of 32 bits, but {value!r}")
    return value


def _configuration(change: ZnodeChange) -> tuple[tuple[str, str], ...]:
    settings = _json(change).get("config") or {}
    if not isinstance(settings, dict):
        raise _bad_znode(change, "no object of settings")
    return tuple(sorted((name, str(value)) for name, value in settings.items()))


def _json(change: ZnodeChange) -> dict[str, Any]:
    try:
        value = bounded_json(change.data or b"")
    except ValueError as error:
        raise _bad_znode(change, f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise _bad_znode(change, "no JSON object")
    return value


def _field(change: ZnodeChange, value: dict[str, Any], name: str) -> Any:
    if name not in value:
        raise _bad_znode(change, f"no {name!r}")
    return value[name]


def _bad_znode(change: ZnodeChange, problem: str) -> ScenarioDataError:
    return ScenarioDataError(
        f"zookeeper/: znode {change.path} at zxid 0x{change.zxid:x} has {problem}: "
        f"{(change.data or b'')[:200]!r}"
    )


def _log_files(files: EvidenceFiles, member: Path) -> list[tuple[str, bytes]]:
    logs = sorted(member.glob("log.*"), key=lambda file: int(file.suffix[1:], 16))
    names = [f"zookeeper/{member.name}/{file.name}" for file in logs]
    return [(name, files.content(name)) for name in names]


def controller_epochs(changes: Sequence[ZnodeChange]) -> dict[int, tuple[int, int]]:
    """Return each controller epoch with its broker and its zxid."""
    brokers = _brokers_by_session(changes)
    return {
        int(change.data): (brokers[change.session], change.zxid)
        for change in changes
        if change.path == "/controller_epoch"
        and change.session in brokers
        and change.data
        and change.data.isdigit()
        and int(change.data) > 0
    }
