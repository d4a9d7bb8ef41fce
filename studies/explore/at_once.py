"""A scheduler of the controller: all that it decides is taken at once, for schedules and moves.

What is decided is `checkers.model.controller.decisions`'s, and `isr_changes`'s where a leader does.
A leader takes a follower into the ISR as soon as its release allows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kchaos.checkers.acts import ReleasePoint, StartBroker, TopicPartition
from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    LeaderAndIsr,
    after_brokers_left,
    elect_for_new,
    elect_for_offline,
    elect_for_reassignment,
    elect_preferred,
    remove_from_isr,
)
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    NO_LEADER,
    BrokerRegistered,
    ControllerElected,
    Event,
    PartitionState,
    TopicCreated,
)
from kchaos.studies.explore.isr_changes import isr_with, isr_without

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
        first = elect_for_new(self._context(self.replicas))
        assert first is not None
        self.add(self._state(first.leader, 0, first.isr))
        self._expand()

    def follow(self, event: Event) -> None:
        """Let an event happen, and then everything that is decided because of it.

        A broker that left and came back while the controller looked at nobody is gone for it only
        if its release sees that (KIP-380). Then the controller decides before it says anything to
        the new process (KafkaController.BrokerChange, 2.2.0: onBrokerFailure comes first).
        """
        before = self._seen()
        if isinstance(event, ReleasePoint):
            now = self.world().registered()
            self._remove(
                {broker for broker, seen in before.items() if self._is_gone(seen, now.get(broker))}
            )
            self.add(event)
        else:
            self.add(event)
            self._remove(before.keys() - self._seen().keys())
        if self._seen().items() - before.items() and self._known().leader == NO_LEADER:
            elected = elect_for_offline(
                self._context(self.replicas), _leader_and_isr(self._known())
            )
            self._write(() if elected is None else (elected,))
        self._expand()

    def shrink(self, follower: int) -> Iterator[Event]:
        """Yield the leader's removal of a follower from the ISR that has not fetched for long."""
        isr, state = isr_without(self.world(), PARTITION, follower), self._known()
        if isr is not None:
            yield self._state(state.leader, state.leader_epoch, isr)

    def prefer(self) -> Iterator[Event]:
        """Yield the election of the preferred replica, if it is live, in sync and not leading."""
        known = self._known()
        elected = elect_preferred(self._context(self.replicas), _leader_and_isr(known))
        if known.leader != NO_LEADER and elected is not None:
            yield self._state(elected.leader, known.leader_epoch + 1, elected.isr)

    def reorder(self, preferred: int) -> Iterator[Event]:
        """Yield a reassignment to the same brokers, after which another one is preferred.

        A leader that is online stays, in a new epoch.
        """
        others = (broker for broker in self.replicas if broker != preferred)
        order, known = (preferred, *others), self._known()
        yield TopicCreated(topic=PARTITION.topic, assignment=(order,))
        elected = elect_for_reassignment(self._context(order), _leader_and_isr(known), order)
        if elected is not None:
            yield self._state(elected.leader, known.leader_epoch + 1, elected.isr)

    def _write(self, decisions: Iterable[LeaderAndIsr]) -> None:
        for decided in decisions:
            epoch = self._known().leader_epoch + 1
            self.add(self._state(decided.leader, epoch, decided.isr))

    def _remove(self, gone: Collection[int]) -> None:
        """Decide what follows from brokers that are gone, or count as gone."""
        context = self._context(self.replicas)
        left = replace(context, live=context.live - frozenset(gone))
        self._write(after_brokers_left(left, _leader_and_isr(self._known()), gone))

    def _seen(self) -> dict[int, int]:
        """Return whom the controller has seen registered, with the czxid of each."""
        world = self.world()
        return dict(world.controller(world.controller_epochs()[-1]).seen)

    def _is_gone(self, czxid: int, now: int | None) -> bool:
        acting = self.world().broker(self.controller)
        assert acting is not None
        return now is None or acting.generation.sees_bounce(czxid, now)

    def _context(self, assignment: tuple[int, ...]) -> ControllerContext:
        world = self.world()
        acting = world.broker(self.controller)
        assert acting is not None
        return ControllerContext(
            assignment=assignment,
            live=frozenset(world.registered()),
            is_unclean=self.is_unclean,
            isr_without=acting.generation.isr_without,
            isr_of_preferred=acting.generation.proposed.isr_of_preferred,
        )

    def _expand(self) -> None:
        for follower in self.replicas:
            isr, state = isr_with(self.world(), PARTITION, follower), self._known()
            if isr is not None:
                self.add(self._state(state.leader, state.leader_epoch, isr))

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


def _leader_and_isr(state: PartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(leader=state.leader, isr=state.isr)


def at_failover(
    context: ControllerContext, known: LeaderAndIsr, *, removes_offline: bool
) -> Iterator[LeaderAndIsr]:
    """Yield what a new controller writes one after the other (onControllerFailover).

    Args:
        context: What it finds registered.
        known: What the partition's znode says.
        removes_offline: Whether offline replicas leave the ISR first (KAFKA-3143, 2.3.0).
    """
    offline = [replica for replica in sorted(known.isr) if replica not in context.live]
    for broker in offline if removes_offline else ():
        removed = remove_from_isr(context, known, broker)
        if removed is not None:
            known = removed
            yield known
    if known.leader not in context.live:
        elected = elect_for_offline(context, known)
        if elected is not None:
            yield elected
