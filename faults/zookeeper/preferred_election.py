"""Preferred replica election."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse
from kazoo.exceptions import NodeExistsError, NoNodeError

from clusters.api import Cluster
from clusters.client import send
from clusters.waiting import await_until
from faults.api import Injection, Journal
from faults.errors import NoEffect
from faults.observation import controller

_ZNODE = "/admin/preferred_replica_election"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElection:
    """The controller makes the first replica of the assignment the leader, if it may.

    By the znode that every release with ZooKeeper watches, or by ElectLeaders (KIP-460, 2.4;
    ElectPreferredLeaders, KIP-183, 2.2), sent to the controller. A leadership stays, so there is
    nothing to heal.

    Attributes:
        by: "znode", "api", or "" for the znode up to 2.3 and the API from 2.4 on.
    """

    topic: str
    partition: int
    by: str = ""
    timeout_s: float = 30

    lasting: ClassVar[bool] = False

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Asks for the election, and returns once the state znode names the preferred replica.

        Raises:
            NoEffect: The controller refused: the preferred replica is dead or not in sync.
            AwaitTimeout: Nothing happened in time.
        """
        before, _ = partition_state(cluster, self.topic, self.partition)
        preferred = self._preferred(cluster)
        by = self.by or ("api" if _is_at_least(cluster, (2, 4)) else "znode")
        with journal.acting("preferred-election", topic=self.topic, partition=self.partition):
            if by == "api":
                self._by_api(cluster)
            else:
                self._by_znode(cluster)
        effect = self._await_leader(cluster, preferred)
        yield Injection(fault="PreferredElection", before=before, effect={"by": by, **effect})

    def _preferred(self, cluster: Cluster) -> int:
        data, _ = cluster.zookeeper().get(f"/brokers/topics/{self.topic}")
        return int(json.loads(data)["partitions"][str(self.partition)][0])

    def _by_znode(self, cluster: Cluster) -> None:
        wanted = {
            "version": 1,
            "partitions": [{"topic": self.topic, "partition": self.partition}],
        }
        try:
            cluster.zookeeper().create(_ZNODE, json.dumps(wanted).encode())
        except NodeExistsError:
            raise NoEffect(f"{_ZNODE} exists: another preferred election goes on") from None
        await_until(
            lambda: cluster.zookeeper().exists(_ZNODE) is None,
            timeout_s=self.timeout_s,
            waiting_for=f"the controller to remove {_ZNODE}",
            last_seen=lambda: f"controller {controller(cluster)}",
        )

    def _by_api(self, cluster: Cluster) -> None:
        leader = controller(cluster)
        if leader is None:
            raise NoEffect("there is no controller to ask for an election")
        topics = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[topics(topic=self.topic, partitions=[self.partition])],
            timeout_ms=int(self.timeout_s * 1000),
        )
        address = cluster.brokers[leader].client_address
        answer = send(
            address, request, ElectLeadersResponse, version=1, timeout_s=self.timeout_s + 1
        )
        result = answer.replica_election_results[0].partition_result[0]
        if answer.error_code or result.error_code:
            raise NoEffect(
                f"controller {leader} refused the election with error "
                f"{answer.error_code or result.error_code}: {result.error_message}"
            )

    def _await_leader(self, cluster: Cluster, preferred: int) -> dict[str, Any]:
        seen: list[dict[str, Any]] = [{}]

        def elected() -> bool:
            seen[0], _ = partition_state(cluster, self.topic, self.partition)
            return bool(seen[0]["leader"] == preferred)

        await_until(
            elected,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {preferred} to lead {self.topic}-{self.partition}",
            last_seen=lambda: seen[0],
            remedy="a preferred replica that is dead or not in the ISR is not elected",
        )
        return seen[0]


def partition_state(cluster: Cluster, topic: str, partition: int) -> tuple[dict[str, Any], int]:
    """The partition's state znode and its version.

    Raises:
        NoEffect: There is no such partition.
    """
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    try:
        data, stat = cluster.zookeeper().get(path)
    except NoNodeError:
        raise NoEffect(f"{path} does not exist: is the topic created?") from None
    return json.loads(data), stat.version


def _is_at_least(cluster: Cluster, wanted: tuple[int, ...]) -> bool:
    leader = controller(cluster)
    if leader is None:
        return False
    release = cluster.brokers[leader].release
    return tuple(int(part) for part in release.split(".")[:2]) >= wanted
