"""Steps of an administrator: which brokers hold a partition, in which folder, and who leads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.ask.requests import send
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import NotPossible
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play

_API_OF_REASSIGNMENTS = (2, 4)
"""From here on a controller knows AlterPartitionReassignments and ElectLeaders version 1.

From here on it also reads a request in the znode before it deletes it (docs/kafka.md)."""
_LOG_DIRS_VERSION_1 = (2, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Other brokers get the replicas: who is added catches up, then who is left out goes.

    The gate is that the controller is done, every replica is in sync, and all have heard of it.

    Attributes:
        by: "znode", "api" (AlterPartitionReassignments, KIP-455, 2.4), or "" for the znode where
            there is ZooKeeper. The API takes the place of a reassignment that goes on.
        is_awaited: Whether the step ends at its gate, and not when the request is accepted.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    by: Literal["znode", "api", ""] = ""
    is_awaited: bool = True
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Request it; wait until the controller has done it.

        What was lost is asked for again where a broker, which may have been the controller, runs a
        release that loses some. Each time is observed.

        Raises:
            NotPossible: The cluster does not know this way to ask.
            MetadataRefused: The controller refuses it.
        """
        self._ask(play)
        if not self.is_awaited:
            return
        metadata = play.cluster.metadata
        may_lose = not _knows_requests(play)

        def is_done() -> bool:
            asked = (self.topic, self.partition, self.replicas)
            if may_lose and metadata.has_lost_reassignment(*asked):
                self._ask(play)
                play.observed(
                    observations.ReassignedAgain(
                        topic=self.topic, partition=self.partition, replicas=self.replicas
                    )
                )
            is_reassigned = (self.topic, self.partition) not in metadata.reassigning()
            replicas = metadata.assignment(self.topic)[self.partition]
            return is_reassigned and [*replicas] == [*self.replicas]

        moved = TopicPartition(self.topic, self.partition)
        await_until(
            is_done,
            timeout_s=self.timeout_s,
            waiting_for=f"{moved.name} to have the replicas {self.replicas}",
            last_seen=lambda: metadata.assignment(self.topic),
            remedy="see the controller's lines in brokers/N/server.log",
        )
        state = gates.await_state(play, moved, isr=self.replicas, timeout_s=self.timeout_s)
        for broker in self.replicas:
            gates.await_delivered(play, moved, broker, state, timeout_s=self.timeout_s)

    def _ask(self, play: Play) -> None:
        metadata = play.cluster.metadata
        if self.by == "znode" and play.cluster.is_kraft:
            raise NotPossible("a cluster without ZooKeeper has no znode: ask by='api'")
        if self.by == "api":
            _require_requests(play)
            metadata.requests.reassign(self.topic, self.partition, self.replicas)
        else:
            metadata.reassign(self.topic, self.partition, self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderReplicas(Reassign):
    """Another replica becomes the preferred one: a reassignment to the same brokers.

    The leader stays, and its epoch grows by one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReassignment:
    """A reassignment that goes on ends where it began: who was added goes (KIP-455, 2.4)."""

    topic: str
    partition: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask the controller; wait until no reassignment of the partition goes on.

        Raises:
            NotPossible: A broker is of a release before 2.4.
            MetadataRefused: None goes on, or what it began with is not in sync.
        """
        _require_requests(play)
        metadata = play.cluster.metadata
        metadata.requests.reassign(self.topic, self.partition, None)
        await_until(
            lambda: (self.topic, self.partition) not in metadata.reassigning(),
            timeout_s=self.timeout_s,
            waiting_for=f"the reassignment of {self.topic}-{self.partition} to be cancelled",
            last_seen=lambda: metadata.assignment(self.topic),
            remedy="see the controller's lines in brokers/N/server.log",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A topic gets more partitions, as `kafka-topics --alter` does it.

    Attributes:
        assignment: Replica ids of each new partition, preferred replica first.
    """

    topic: str
    assignment: tuple[tuple[int, ...], ...]
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask for them; wait until every live replica has heard of its own and fetches.

        Raises:
            MetadataRefused: There is no such topic, or the controller refuses.
        """
        first = len(play.cluster.metadata.assignment(self.topic))
        play.cluster.metadata.add_partitions(self.topic, self.assignment)
        for number, replicas in enumerate(self.assignment, start=first):
            await_created(play, TopicPartition(self.topic, number), replicas, self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectUncleanly:
    """A partition without a leader gets one, in sync or not, since a client asks (KIP-460, 2.4).

    The settings of topic and brokers need not allow it. Records that the new leader does not hold
    are lost, and Kafka promises nothing else.
    """

    topic: str
    partition: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask the controller; wait until the new leader has heard of it.

        Raises:
            NotPossible: A broker is of a release before 2.4, or the partition has a leader.
            MetadataRefused: None of its replicas can lead.
        """
        _require_requests(play)
        partition = TopicPartition(self.topic, self.partition)
        state = play.cluster.metadata.state(*partition)
        if state is None or state.leader >= 0:
            raise NotPossible(f"{partition.name} needs no unclean election: {state}")
        asked = observations.UncleanElectionAsked(topic=self.topic, partition=self.partition)
        play.observed(asked)
        play.cluster.metadata.requests.elect(*partition, is_unclean=True)
        state = gates.await_state(
            play, partition, leader_epoch=state.leader_epoch + 1, timeout_s=self.timeout_s
        )
        if state.leader >= 0:
            gates.await_delivered(play, partition, state.leader, state, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReplica:
    """A broker moves a replica to another of its log directories (KIP-113, 1.1).

    It copies the log, and goes on with the copy once that has caught up.

    Attributes:
        broker: Whose replica it is.
        directory: The place of the new log directory in `log.dirs`, from 0 on.
        is_awaited: Whether the step ends when the replica lies there, and not when the broker has
            begun.
    """

    broker: int
    topic: str
    partition: int
    directory: int
    is_awaited: bool = True
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask the broker; wait until the replica lies in that log directory.

        Raises:
            NotPossible: The broker has no such log directory, does not run, or refuses.
        """
        broker = play.cluster.brokers[self.broker]
        name = f"{self.topic}-{self.partition}"
        paths = broker.properties.get("log.dirs", str(broker.log_directory)).split(",")
        if not 0 <= self.directory < len(paths):
            raise NotPossible(f"broker {self.broker} has the log directories {paths} alone")
        moves = [{"topic": self.topic, "partitions": [self.partition]}]
        try:
            answer = send(
                broker.client_address,
                ApiKey.ALTER_REPLICA_LOG_DIRS,
                {"directories": [{"path": paths[self.directory], "topics": moves}]},
                version=1 if release_of(broker.release).number >= _LOG_DIRS_VERSION_1 else 0,
                timeout_s=self.timeout_s,
            )
        except (NoAnswer, NotSent) as error:
            raise NotPossible(f"broker {self.broker} does not move {name}: {error}") from error
        error_code = answer["topics"][0]["partitions"][0]["error_code"]
        if error_code:
            raise NotPossible(f"broker {self.broker} does not move {name}: error {error_code}")

        def places() -> list[Path]:
            return [each for each in broker.log_directories if (each / name).is_dir()]

        if self.is_awaited:
            await_until(
                lambda: places() == [broker.log_directories[self.directory]],
                timeout_s=self.timeout_s,
                waiting_for=f"broker {self.broker} to have {name} in {paths[self.directory]}",
                last_seen=places,
                remedy=f"see the lines of ReplicaAlterLogDirsThread in {broker.server_log}",
                abort=gates.no_exit(play),
            )


def await_created(
    play: Play, partition: TopicPartition, replicas: Sequence[int], timeout_s: float
) -> None:
    """Wait until the first live replica of a new partition leads, and the others fetch."""
    live = [broker for broker in replicas if play.cluster.brokers[broker].is_running]
    state = gates.await_state(play, partition, leader=live[0], isr=live, timeout_s=timeout_s)
    for broker in live:
        gates.await_delivered(play, partition, broker, state, timeout_s=timeout_s)
    for broker in live[1:]:
        fetching.await_fetching(play, partition, broker, live[0], timeout_s=timeout_s)
    # A replica has handled its first LeaderAndIsr when its directory is there.
    await_until(
        lambda: all(gates.contents(play, broker, partition) is not None for broker in live),
        timeout_s=timeout_s,
        waiting_for=f"brokers {live} to make the log of {partition.name}",
        last_seen=lambda: [b for b in live if gates.contents(play, b, partition) is not None],
        remedy="see the state.change.logger lines in brokers/N/server.log",
    )


def _knows_requests(play: Play) -> bool:
    """Return whether each broker, as it may be the controller, is of 2.4 or later."""
    return all(
        release_of(broker.judged_as).number >= _API_OF_REASSIGNMENTS
        for broker in play.cluster.brokers.values()
    )


def _require_requests(play: Play) -> None:
    if not _knows_requests(play):
        raise NotPossible("brokers before 2.4 know no such request: use by='znode', or settings")
