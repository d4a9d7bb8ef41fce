"""Cluster metadata that lives in ZooKeeper: the one module that knows paths of znodes.

Source: ``ZkData.scala`` in 1.1 and later, ``ZkUtils.scala`` before; the paths and their JSON are
the same from 0.10.2 to 3.9.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from kchaos.clusters.errors import MetadataRefused, MetadataUnavailable
from kchaos.clusters.metadata.api import LeaderAndIsr, Registration
from kchaos.clusters.metadata.controller_requests import ControllerRequests

_CLUSTER_ID = "/cluster/id"
_CONTROLLER = "/controller"
_MIGRATION = "/migration"
_CONTROLLER_EPOCH = "/controller_epoch"
_IDS = "/brokers/ids"
_TOPICS = "/brokers/topics"
_CONFIGURATIONS = "/config/topics"
_BROKER_CONFIGURATIONS = "/config/brokers"
_QUOTAS = ("/config/clients", "/config/users")
_CHANGES = "/config/changes/config_change_"
_REASSIGNMENT = "/admin/reassign_partitions"
_DELETIONS = "/admin/delete_topics"
_PREFERRED_ELECTION = "/admin/preferred_replica_election"
_LOOKS_S = 30.0
"""So long a read is repeated: the client notices after 20 s that its member stands still."""


class _Seen(threading.local):
    """A thread's readings of ZooKeeper as it was at one zxid."""

    def __init__(self) -> None:
        self.zxid = -1
        self.is_looking = False
        self.answers: dict[tuple[str, str], Any] = {}


@dataclass(frozen=True, slots=True)
class ZooKeeperMetadata:
    """See ``clusters.metadata.api.ClusterMetadata``; ``client`` is started and somebody else's.

    ``address_of`` returns where a broker listens for clients; None where nobody asks brokers.
    """

    client: KazooClient
    address_of: Callable[[int], str] | None = None
    _seen: _Seen = field(default_factory=_Seen, repr=False)

    @property
    def requests(self) -> ControllerRequests:
        """Requests to the broker that is the controller."""
        assert self.address_of is not None, "only a cluster knows its brokers' addresses"
        return ControllerRequests(controller=self.controller, address_of=self.address_of)

    @contextlib.contextmanager
    def one_look(self) -> Iterator[None]:
        """Ask for the newest zxid; what was read at that zxid is not read again in the block.

        A change of any znode has a zxid of its own, so nothing else can be there.
        """
        seen = self._seen
        zxid = self.position()
        if zxid != seen.zxid:
            seen.answers.clear()
            seen.zxid = zxid
        seen.is_looking = True
        try:
            yield
        finally:
            seen.is_looking = False

    def position(self) -> int:
        """Return the last zxid."""
        self._ask_again(self.client.exists, "/")
        return int(self.client.last_zxid)

    def controller(self) -> int | None:
        """Return the broker that the controller's znode names."""
        data = self._read(_CONTROLLER)
        return None if data is None else int(data["brokerid"])

    def controller_epoch(self) -> int | None:
        """Return the controller epoch."""
        data = self._read(_CONTROLLER_EPOCH)
        return None if data is None else int(data)

    def depose_controller(self) -> None:
        """Delete the controller's znode."""
        self._ask(self.client.delete, _CONTROLLER)

    def cluster_id(self) -> str:
        """Return the cluster's id, which its KRaft controllers get too."""
        return str(self._read(_CLUSTER_ID)["id"])

    def is_migrating(self) -> bool:
        """Return whether a KRaft controller has written `/controller`."""
        return int((self._read(_CONTROLLER) or {}).get("kraftControllerEpoch", -1)) >= 0

    def is_written_back(self) -> bool:
        """Return whether it has copied the metadata, and `/migration` says up to which offset."""
        offset = int((self._read(_MIGRATION) or {}).get("kraft_metadata_offset", -1))
        return self.is_migrating() and offset >= 0

    def end_migration(self) -> None:
        """Delete what a KRaft controller has written: brokers elect one of them, and may migrate.

        A broker that still is the controller stays it. Docs of 3.9 (ops, reverting to ZooKeeper
        mode) delete both znodes; earlier ones `/controller` only.
        """
        if self.is_migrating():
            for path in (_CONTROLLER, _MIGRATION):
                self._ask(self.client.delete, path)

    def registration(self, broker: int, *, timeout_s: float | None = None) -> Registration | None:
        """Return the broker's znode."""

        def get(path: str) -> Any:
            return self.client.get_async(path).get(timeout=timeout_s)

        asks = self._look if timeout_s is None else self._ask
        znode = asks(get, f"{_IDS}/{broker}")
        if znode is None:
            return None
        data, stat = znode
        return Registration(czxid=stat.czxid, session_id=stat.ephemeralOwner, text=data.decode())

    def fence(self, broker: int) -> None:
        """Refuse, since a broker is alive as long as its session."""
        raise MetadataRefused(f"ZooKeeper does not fence broker {broker}: end its session")

    def unregister(self, broker: int) -> None:
        """Refuse, since a broker is registered as long as its session."""
        raise MetadataRefused(f"ZooKeeper keeps broker {broker} while its session lasts: end that")

    def voters(self) -> frozenset[int]:
        """Return nobody: ZooKeeper's members are no controllers."""
        return frozenset()

    def add_voter(self, node: int, directory: str, listener: tuple[str, str, int]) -> None:
        """Refuse, since a quorum of controllers is KRaft's."""
        raise MetadataRefused(f"ZooKeeper keeps the metadata: node {node} cannot vote")

    def remove_voter(self, node: int) -> None:
        """Refuse, since a quorum of controllers is KRaft's."""
        raise MetadataRefused(f"ZooKeeper keeps the metadata: node {node} does not vote")

    def features(self) -> Mapping[str, int]:
        """Return nothing: feature levels are KRaft's."""
        return {}

    def update_features(self, levels: Mapping[str, int], *, downgrade: bool = False) -> None:
        """Refuse, since brokers go by inter.broker.protocol.version."""
        raise MetadataRefused(f"ZooKeeper keeps the metadata, so nothing has levels as {levels}")

    def registered(self) -> frozenset[int]:
        """Return the ids that have a znode."""
        return frozenset(int(broker) for broker in self._look(self.client.get_children, _IDS) or ())

    def is_forgotten(self, broker: int) -> bool:
        """Return False: a live broker that loses its session begins another one."""
        return False

    def topics(self) -> Sequence[str]:
        """Return the topics that have a znode."""
        topics = self._look(self.client.get_children, _TOPICS) or ()
        return sorted(topic for topic in topics if not topic.startswith("__"))

    def topic_id(self, topic: str) -> str | None:
        """Return what the topic's znode says; controllers from 2.8 on give a topic its id."""
        topic_id: str | None = (self._read(f"{_TOPICS}/{topic}") or {}).get("topic_id")
        return topic_id

    def assignment(self, topic: str) -> Mapping[int, Sequence[int]]:
        """Return what the topic's znode says; nothing if there is none."""
        partitions = (self._read(f"{_TOPICS}/{topic}") or {}).get("partitions", {})
        return {number: partitions[str(number)] for number in sorted(map(int, partitions))}

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """Return what the partition's state znode says."""
        path = f"{_TOPICS}/{topic}/partitions/{partition}/state"
        znode = self._look(self.client.get, path)
        if znode is None:
            return None
        data, stat = json.loads(znode[0]), znode[1]
        return LeaderAndIsr(
            leader=data["leader"],
            leader_epoch=data["leader_epoch"],
            isr=tuple(data["isr"]),
            controller_epoch=data.get("controller_epoch", -1),
            version=stat.version,
        )

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]],
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Write the znodes as ``kafka-topics --replica-assignment`` does."""
        settings = {"version": 1, "config": dict(configuration or {})}
        self._create(f"{_CONFIGURATIONS}/{topic}", settings)
        partitions = {str(index): list(ids) for index, ids in enumerate(assignment)}
        self._create(f"{_TOPICS}/{topic}", {"version": 1, "partitions": partitions})

    def delete_topic(self, topic: str) -> None:
        """Write the znode that the controller watches and removes when it is done."""
        self._ask(partial(self.client.create, makepath=True), f"{_DELETIONS}/{topic}", b"")

    def is_deleting(self, topic: str) -> bool:
        """Return whether that znode is there: the controller removes it after all others."""
        return self._look(self.client.exists, f"{_DELETIONS}/{topic}") is not None

    def configure_topic(self, topic: str, configuration: Mapping[str, str]) -> None:
        """Write the znodes as ``kafka-configs --alter --entity-type topics`` does."""
        settings = json.dumps({"version": 1, "config": dict(configuration)}).encode()
        if self._ask(self.client.set, f"{_CONFIGURATIONS}/{topic}", settings) is None:
            raise MetadataRefused(f"ZooKeeper has no {_CONFIGURATIONS}/{topic}")
        self._tell_of(f"topics/{topic}")

    def topic_configuration(self, topic: str) -> Mapping[str, str]:
        """Return what the topic's configuration znode says."""
        return dict((self._read(f"{_CONFIGURATIONS}/{topic}") or {}).get("config", {}))

    def configure_broker(self, broker: int, configuration: Mapping[str, str]) -> None:
        """Write the znodes as ``kafka-configs --alter --entity-type brokers`` does."""
        settings = {"version": 1, "config": dict(configuration)}
        path = f"{_BROKER_CONFIGURATIONS}/{broker}"
        if self._ask(self.client.set, path, json.dumps(settings).encode()) is None:
            self._create(path, settings)
        self._tell_of(f"brokers/{broker}")

    def broker_configuration(self, broker: int) -> Mapping[str, str]:
        """Return what the broker's configuration znode says."""
        return dict((self._read(f"{_BROKER_CONFIGURATIONS}/{broker}") or {}).get("config", {}))

    def has_client_quotas(self) -> bool:
        """Return whether anything is configured of a client, a user, or a user's client."""
        return any(map(self._is_configured_below, _QUOTAS))

    def _is_configured_below(self, path: str) -> bool:
        names = self._look(self.client.get_children, path) or ()
        return any(
            bool((self._read(f"{path}/{name}") or {}).get("config"))
            or self._is_configured_below(f"{path}/{name}/clients")
            for name in names
        )

    def _tell_of(self, entity_path: str) -> None:
        change = json.dumps({"version": 2, "entity_path": entity_path}).encode()
        self._ask(partial(self.client.create, sequence=True), _CHANGES, change)

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Write the topic's znode as ``kafka-topics --alter`` did; the controller watches it."""
        path = f"{_TOPICS}/{topic}"
        znode = self._ask(self.client.get, path)
        if znode is None:
            raise MetadataRefused(f"ZooKeeper has no {path}")
        written = json.loads(znode[0])
        first = len(written["partitions"])
        for number, replicas in enumerate(assignment, start=first):
            written["partitions"][str(number)] = list(replicas)
        data = json.dumps(written).encode()
        self._ask(partial(self.client.set, version=znode[1].version), path, data)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Write the znode that the controller watches and removes when it is done."""
        wanted = {"topic": topic, "partition": partition, "replicas": list(replicas)}
        self._create(_REASSIGNMENT, {"version": 1, "partitions": [wanted]})

    def reassigning(self) -> frozenset[tuple[str, int]]:
        """Return what that znode names, and what topics' znodes do from 2.4 on (KIP-455)."""
        wanted = (self._read(_REASSIGNMENT) or {}).get("partitions", ())
        moving = {(each["topic"], each["partition"]) for each in wanted}
        for topic in self.topics():
            znode = self._read(f"{_TOPICS}/{topic}") or {}
            for change in ("adding_replicas", "removing_replicas"):
                named = znode.get(change, {}).items()
                moving |= {(topic, int(number)) for number, replicas in named if replicas}
        return frozenset(moving)

    def has_lost_reassignment(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        """Return whether the znode was removed before the controller had read it.

        Up to 2.3 a controller that is done with a reassignment deletes the znode twice, and does
        not look what is in it the second time: `maybeTriggerPartitionReassignment` and
        `removePartitionsFromReassignedPartitions` of kafka.controller.KafkaController, 1.1.1, 2.0.1
        and 2.3.1. It writes the assignment before it deletes the znode.
        """
        is_named = (topic, partition) in self.reassigning()
        return not is_named and [*self.assignment(topic)[partition]] != [*replicas]

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Write the znode that the controller watches and removes when it is done."""
        wanted = {"topic": topic, "partition": partition}
        self._create(_PREFERRED_ELECTION, {"version": 1, "partitions": [wanted]})

    def is_electing(self) -> bool:
        """Return whether that znode is there."""
        return self._look(self.client.exists, _PREFERRED_ELECTION) is not None

    def withdraw_election(self) -> None:
        """Delete that znode."""
        self._ask(self.client.delete, _PREFERRED_ELECTION)

    def _read(self, path: str) -> Any:
        """Return the JSON value of a znode, None if there is none."""
        znode = self._look(self.client.get, path)
        return None if znode is None else json.loads(znode[0])

    def _create(self, path: str, value: Mapping[str, Any]) -> None:
        self._ask(partial(self.client.create, makepath=True), path, json.dumps(value).encode())

    def _look(self, question: Callable[..., Any], path: str) -> Any:
        """Ask as `_ask_again`, unless a look has the answer already; see `one_look`."""
        seen, what = self._seen, (question.__qualname__, path)
        if seen.is_looking and what in seen.answers:
            return seen.answers[what]
        answer = self._ask_again(question, path)
        # A read shows no older state than the look, and none newer than the zxid of its answer.
        if seen.is_looking and self.client.last_zxid == seen.zxid:
            seen.answers[what] = answer
        return answer

    def _ask_again(self, question: Callable[..., Any], path: str) -> Any:
        """Ask as `_ask`, and repeat a failed question."""
        again = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5, deadline=_LOOKS_S)
        return self._ask(partial(again, question), path)

    def _ask(self, question: Callable[..., Any], path: str, *more: Any) -> Any:
        """Return what the client answers, None where there is no such znode."""
        try:
            return question(path, *more)
        except NoNodeError:
            return None
        except NodeExistsError:
            raise MetadataRefused(f"ZooKeeper has {path} already") from None
        except (KazooException, KazooTimeoutError) as error:
            raise MetadataUnavailable(
                f"ZooKeeper gave no answer: {error!r}; see the logs of its members"
            ) from error
