"""One look at a cluster, which the gates of rest share: who can take part, and who has heard.

Each gate says what is missing of what it waits for; here is what all of them ask. A look is made
anew for each try of a gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.api import Broker, Disconnectable
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates.fetching import fetch_loop
from kchaos.harness.gates.replication import fetcher_failure
from kchaos.harness.play.play import Play

NO_STATE = LeaderAndIsr(leader=-1, leader_epoch=-1, isr=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """The cluster at one moment.

    Attributes:
        registered: Brokers whose session lives.
        answering: Brokers whose process runs, is not paused and has its network.
        controller: The broker, or the node of KRaft, that is the controller, or None.
        controllers: Controllers of KRaft whose process runs and is not paused.
    """

    play: Play
    registered: frozenset[int]
    answering: frozenset[int]
    controller: int | None
    controllers: frozenset[int] = frozenset()

    @property
    def can_decide(self) -> bool:
        """Return whether the controller works, and nothing keeps it from its metadata."""
        elected = self.controller
        if elected is None:
            return False
        if self.play.cluster.is_kraft:
            return elected in self.controllers
        return elected in self.working and not self.keeps_back(elected, None)

    @property
    def will_elect_controller(self) -> bool:
        """Return whether most of KRaft's controllers work, and replace one that does not."""
        voters = self.play.cluster.metadata.voters()
        working = voters & self.controllers
        pairs = permutations(working, 2)
        return (
            not self.can_decide
            and 2 * len(working) > len(voters)
            and not any(self.keeps_back(controller, other) for controller, other in pairs)
        )

    @property
    def working(self) -> frozenset[int]:
        """Return the registered brokers that answer."""
        return self.answering & self.registered

    @property
    def able(self) -> frozenset[int]:
        """Return the working brokers that nothing keeps from the metadata."""
        return frozenset(broker for broker in self.working if not self.is_off_metadata(broker))

    def keeps_back(self, source: int, target: int | None) -> bool:
        """Return whether a cut or a hold may affect requests to a target, None for ZooKeeper."""
        links = self.play.cluster.links
        return links is not None and links.may_keep_back(source, target)

    def is_off_metadata(self, broker: int) -> bool:
        """Return whether a cut or a hold may separate the broker from ZooKeeper or the controller.

        To the controller it sends heartbeats, and it fetches from there what was decided.
        """
        if self.play.cluster.is_kraft:
            return self.controller is None or self.keeps_back(broker, self.controller)
        return self.keeps_back(broker, None)

    def may_not_hear(self, broker: int) -> bool:
        """Return whether a cut or a hold may hide the controller's decisions from the broker."""
        if self.play.cluster.is_kraft:
            return self.is_off_metadata(broker)
        return self.controller is not None and self.keeps_back(self.controller, broker)

    def partitions(self) -> Iterator[PartitionLook]:
        """Yield every partition that has a state."""
        metadata = self.play.cluster.metadata
        for topic in metadata.topics():
            for number, replicas in metadata.assignment(topic).items():
                state = metadata.state(topic, number)
                if state is not None:
                    partition = TopicPartition(topic, number)
                    yield PartitionLook(
                        cluster=self, partition=partition, state=state, replicas=tuple(replicas)
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """One partition at that moment.

    Attributes:
        state: As ZooKeeper has it; `NO_STATE` where there is none.
        replicas: The preferred one first.
    """

    cluster: ClusterLook
    partition: TopicPartition
    state: LeaderAndIsr
    replicas: Sequence[int]

    @property
    def name(self) -> str:
        """Return topic and partition in Kafka's way."""
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def leader(self) -> int:
        """Return the leader, or -1."""
        return self.state.leader

    @property
    def is_news_to_controller(self) -> bool:
        """Whether a former controller wrote the state, and the present one does not know of it."""
        controller = self.cluster.controller
        return controller is not None and gates.is_news_to_controller(
            self.cluster.play, self.partition, self.state, controller
        )

    def has_heard(self, broker: int) -> bool:
        """Return whether the broker has answered this state's LeaderAndIsr; True without links."""
        return gates.is_delivered(self.cluster.play, self.partition, broker, self.state)

    def is_fetching(self, follower: int) -> bool:
        """Return whether the follower has fetched from the leader in its current term."""
        return fetching.is_fetching(self.cluster.play, self.partition, follower, self.leader)

    def failure(self, follower: int) -> str:
        """Return the log line with which the follower gave up the present leader, or ""."""
        return fetcher_failure(self.cluster.play, follower, self.leader, self.partition)

    def loop(self, follower: int) -> str:
        """Return how often the follower is told for ever that it is out of range, or ""."""
        return fetch_loop(self.cluster.play, follower, self.leader, self.partition)

    def end(self, broker: int) -> int:
        """Return the log end offset on the broker's disk."""
        return gates.last_offset(self.cluster.play, broker, self.partition) + 1

    def uneven(self, followers: Sequence[int]) -> Iterator[str]:
        """Yield a sentence for each of these followers that ends elsewhere than the leader."""
        end = self.end(self.leader) if followers else 0
        for broker in followers:
            own = self.end(broker)
            if own != end:
                yield (
                    f"{self.name} ends at {own} on broker {broker}, and at {end} on its leader "
                    f"{self.leader}"
                )


def look_at(play: Play) -> ClusterLook:
    """Look at processes, registrations and controller, one after the other."""
    metadata = play.cluster.metadata
    return ClusterLook(
        play=play,
        answering=frozenset(
            broker.id for broker in play.cluster.brokers.values() if is_answering(broker)
        ),
        registered=frozenset(metadata.registered()),
        controller=metadata.controller(),
        controllers=frozenset(
            node.id for node in play.cluster.controllers.values() if is_answering(node)
        ),
    )


def is_answering(broker: Broker) -> bool:
    """Return whether the process runs, is not paused and has its network."""
    if not broker.is_running or broker.is_paused:
        return False
    return not isinstance(broker, Disconnectable) or broker.is_connected
