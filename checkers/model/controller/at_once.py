"""The decisions of a real controller and real leaders, taken at once: for schedules and moves.

The rules are those of kafka.controller.PartitionStateMachine and ReplicaStateMachine (1.1.1): the
first assigned replica that is registered and in the ISR leads; a broker that leaves is taken from
the ISR in a new epoch; without a live member the partition has no leader, or an unclean one. A
leader takes a follower into the ISR as soon as its release allows (kafka.cluster.Partition).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.model.controller.outboxes import is_leading
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Event,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.model.values.replica import Replica

PARTITION = TopicPartition("t", 0)


@dataclass(slots=True, kw_only=True)
class InstantController:
    """One controller and its leaders over a modelled cluster.

    Attributes:
        world: The model's state now, to be read.
        add: Takes an event into the timeline and lets it happen.
        replicas: The brokers of the partition, preferred one first.
    """

    world: Callable[[], World]
    add: Callable[[Event], None]
    replicas: tuple[int, ...]
    is_unclean: bool = False
    min_insync_replicas: int = 1
    czxid: int = 0
    version: int = 0

    @property
    def controller(self) -> int:
        """Return the id of the broker that is the controller and has no replica."""
        return max(self.replicas) + 1

    def next_czxid(self) -> int:
        """Return a greater czxid than ever before."""
        self.czxid += 1
        return self.czxid

    def begin(self, generations: Mapping[int, Generation]) -> None:
        """Start controller and brokers and create the partition."""
        for broker in (self.controller, *self.replicas):
            generation = generations.get(broker, generations[self.replicas[0]])
            release = ".".join(str(part) for part in generation.versions.release)
            self.add(
                StartBroker(
                    broker=broker,
                    release=release,
                    unclean_leader_election=self.is_unclean,
                    min_insync_replicas=self.min_insync_replicas,
                )
            )
            self.add(BrokerRegistered(broker=broker, czxid=self.next_czxid()))
            if broker == self.controller:
                self.add(ControllerElected(broker=broker))
        self.add(TopicCreated(topic=PARTITION.topic, assignment=(self.replicas,)))
        self.add(self._state(self.replicas[0], 0, self.replicas))
        self._expand()

    def follow(self, event: Event) -> None:
        """Let an event happen, and then everything that is decided because of it."""
        self.add(event)
        match event:
            case BrokerUnregistered():
                self._broker_left(event.broker)
            case BrokerRegistered() if self._known().leader == -1:
                self._elect()
        self._expand()

    def shrink(self, follower: int) -> Iterator[Event]:
        """Yield the leader's removal of a follower from the ISR that has not fetched for long."""
        state, replica = self._known(), self._true_leader()
        if replica is None or follower not in state.isr or follower == state.leader:
            return
        view, leader = replica.view(follower), self.world().broker(state.leader)
        if view is None or leader is None:
            return
        end_offset = replica.log.log_end_offset
        if leader.generation.falls_out_of_isr(view.log_end_offset, end_offset):
            isr = [member for member in state.isr if member != follower]
            yield self._state(state.leader, state.leader_epoch, isr)

    def prefer(self) -> Iterator[Event]:
        """Yield the election of the preferred replica, if it is live, in sync and not leading."""
        state, preferred = self._known(), self.replicas[0]
        if (
            state.leader not in (-1, preferred)
            and preferred in state.isr
            and preferred in self.world().registered()
        ):
            world = self.world()
            acting = world.broker(self.controller)
            assert acting is not None
            isr = acting.generation.isr_of_preferred(state.isr, state.leader)
            yield self._state(preferred, state.leader_epoch + 1, isr)

    def reorder(self, preferred: int) -> Iterator[Event]:
        """Yield a reassignment to the same brokers, after which another one is preferred.

        The leader stays, in a new epoch (KafkaController.moveReassignedPartitionLeaderIfRequired,
        1.1.1; since KIP-455 updateLeaderEpochAndSendRequest comes first, 2.4.1).
        """
        others = (broker for broker in self.replicas if broker != preferred)
        order, state = (preferred, *others), self._known()
        yield TopicCreated(topic=PARTITION.topic, assignment=(order,))
        yield self._state(state.leader, state.leader_epoch + 1, state.isr)

    def _broker_left(self, broker: int) -> None:
        """Elect another leader; where nobody can lead, or it did not, it is taken from the ISR."""
        state = self._known()
        if broker not in state.isr or (state.leader == broker and self._elect()):
            return
        leader = -1 if state.leader == broker else state.leader
        self.add(self._state(leader, state.leader_epoch + 1, self._isr_without(broker)))

    def _isr_without(self, broker: int) -> tuple[int, ...]:
        acting = self.world().broker(self.controller)
        assert acting is not None
        return acting.generation.isr_without(self._known().isr, broker, self.is_unclean)

    def _elect(self) -> bool:
        state, live = self._known(), self.world().registered()
        candidates = [each for each in self.replicas if each in live and each in state.isr]
        unclean = [each for each in self.replicas if each in live] if self.is_unclean else []
        epoch = state.leader_epoch + 1
        if candidates:
            isr = [member for member in state.isr if member in live]
            self.add(self._state(candidates[0], epoch, isr))
        elif unclean:
            self.add(self._state(unclean[0], epoch, unclean[:1]))
        return bool(candidates or unclean)

    def _expand(self) -> None:
        for follower in self.replicas:
            state, replica = self._known(), self._true_leader()
            if replica is None or follower in state.isr:
                continue
            view = replica.view(follower)
            if (
                view is not None
                and view.asks_to_join
                and view.log_end_offset >= replica.high_watermark
            ):
                self.add(self._state(state.leader, state.leader_epoch, (*state.isr, follower)))

    def _true_leader(self) -> Replica | None:
        """Return the leader's replica if its broker can write to ZooKeeper and knows its state."""
        state, world = self._known(), self.world()
        if state.leader not in world.registered() or not is_leading(world, state.leader, PARTITION):
            return None
        replica = world.replica(state.leader, PARTITION)
        is_true = replica is not None and replica.leader_epoch == state.leader_epoch
        return replica if is_true else None

    def _known(self) -> PartitionState:
        state = self.world().partition_state(PARTITION)
        assert state is not None
        return state

    def _state(self, leader: int, epoch: int, isr: Iterable[int]) -> PartitionState:
        self.version += 1
        return PartitionState(
            topic=PARTITION.topic,
            partition=PARTITION.partition,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(isr),
            controller_epoch=1,
            version=self.version,
        )
