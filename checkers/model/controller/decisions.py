"""Decisions of a controller about a partition: one function a transition of its state machines.

The explorer interleaves these decisions with everything else, schedules and walks take all of them
at once, and `explain` asks which of them a recorded decision can have been. So a decision that the
explorer takes wrongly contradicts recorded runs.

Read from kafka.controller.KafkaController (onBrokerFailure, onBrokerStartup, onControllerFailover,
doControlledShutdown), PartitionStateMachine, ReplicaStateMachine and Election, 1.1.1, 2.2.2 and
2.8.2, and from PartitionLeaderSelector, 0.10.2.2, which decides alike. Left out: an ISR that a
leader asks for (KIP-497), which `allowed` compares with what the leader knows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from kchaos.checkers.model.values.events import NO_LEADER

IsrWithout = Callable[[tuple[int, ...], int, bool], tuple[int, ...]]
IsrOfPreferred = Callable[[tuple[int, ...], int], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """A partition's leader and ISR, as a controller writes them in a new leader epoch.

    Attributes:
        leader: A broker, or `NO_LEADER`.
        isr: In the order of the ISR before.
    """

    leader: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """A controller's knowledge of the cluster when it decides about one partition.

    Attributes:
        assignment: The partition's replicas, the preferred one first.
        live: Brokers that it takes for alive; those that shut down too.
        shutting_down: Brokers that asked for a controlled shutdown.
        was_away: Brokers that were not alive when it last looked. What one of them leads is offline
            for it until it elects, the same leader perhaps.
        is_unclean: Whether a replica outside the ISR may be elected.
        is_deleting: Whether it deletes the topic: then it takes any replica for offline, as it
            stops it (TopicDeletionManager.startReplicaDeletion).
        elects_again: Whether it may have to elect once more where it has just elected.
        away_at_start: Brokers that were not registered when it was elected, nor since then. It has
            seen none of them leave.
        removes_offline_at_start: `Generation.removes_offline_at_start` of the controller's broker.
        isr_without: `Generation.isr_without` of the controller's broker.
        isr_of_preferred: `Proposed.isr_of_preferred` of the controller's broker.
    """

    assignment: tuple[int, ...]
    live: frozenset[int]
    shutting_down: frozenset[int] = frozenset()
    was_away: frozenset[int] = frozenset()
    is_unclean: bool = False
    is_deleting: bool = False
    elects_again: bool = False
    away_at_start: frozenset[int] = frozenset()
    removes_offline_at_start: bool = False
    isr_without: IsrWithout
    isr_of_preferred: IsrOfPreferred

    @property
    def online(self) -> frozenset[int]:
        """Return the brokers that may be elected (ControllerContext.isReplicaOnline)."""
        return self.live - self.shutting_down

    def is_offline(self, known: LeaderAndIsr) -> bool:
        """Return whether the partition waits for a leader (OfflinePartition)."""
        return known.leader not in self.live or known.leader in self.was_away

    def may_remove(self, member: int) -> bool:
        """Return whether it may take a member from the ISR without electing a leader.

        Up to 2.2.2 it looks at no offline replica when it starts, and removes those of brokers that
        it sees leave (onBrokerFailure) or lets go. A shutdown that it began to handle up to 1.0.2
        goes on where it resigns and is elected again (shutdownBroker).
        """
        if self.is_deleting:
            return True
        sees_it = member not in self.away_at_start or member in self.shutting_down
        return member not in self.online and (sees_it or self.removes_offline_at_start)


def first_of(order: Iterable[int], online: Collection[int], members: Collection[int]) -> int:
    """Return the first broker of an order that is online and a member, or `NO_LEADER`.

    So controllers choose, with ZooKeeper (Election, PartitionLeaderElectionAlgorithms) and in KRaft
    (PartitionChangeBuilder).
    """
    able = (broker for broker in order if broker in online and broker in members)
    return next(able, NO_LEADER)


def elect_for_new(context: ControllerContext) -> LeaderAndIsr | None:
    """Elect the first leader of a partition; None where no replica is online.

    PartitionStateMachine.initializeLeaderAndIsrForPartitions: all that are online are in sync.
    """
    online = tuple(replica for replica in context.assignment if replica in context.online)
    return LeaderAndIsr(leader=online[0], isr=online) if online else None


def elect_for_offline(context: ControllerContext, known: LeaderAndIsr) -> LeaderAndIsr | None:
    """Elect a leader for a partition whose leader is gone; None where nobody may lead.

    Election.leaderForOffline: the first assigned replica that is online and in the ISR, which
    loses those that are not online; else, where that is allowed, any that is online, alone.
    """
    leader = first_of(context.assignment, context.online, known.isr)
    isr = tuple(member for member in known.isr if member in context.online)
    if leader == NO_LEADER and context.is_unclean:
        leader = first_of(context.assignment, context.online, context.assignment)
        isr = (leader,)
    return None if leader == NO_LEADER else LeaderAndIsr(leader=leader, isr=isr)


def elect_preferred(context: ControllerContext, known: LeaderAndIsr) -> LeaderAndIsr | None:
    """Elect the first assigned replica; None where it leads, is not online or not in the ISR."""
    preferred = context.assignment[0]
    if preferred == known.leader or preferred not in context.online or preferred not in known.isr:
        return None
    return LeaderAndIsr(leader=preferred, isr=context.isr_of_preferred(known.isr, known.leader))


def elect_for_shutdown(context: ControllerContext, known: LeaderAndIsr) -> LeaderAndIsr | None:
    """Move the leader from a broker that shuts down; None where nobody else in sync is online.

    Election.leaderForControlledShutdown: every broker that shuts down leaves the ISR.
    """
    leader = first_of(context.assignment, context.online, known.isr)
    if leader == NO_LEADER or known.leader not in context.shutting_down:
        return None
    isr = tuple(member for member in known.isr if member not in context.shutting_down)
    return LeaderAndIsr(leader=leader, isr=isr)


def elect_again(context: ControllerContext, known: LeaderAndIsr) -> LeaderAndIsr | None:
    """Elect once more for a partition that has just got its leader; None where that never happens.

    PartitionStateMachine.electLeaderForPartitions, 1.1.0 to 2.3.1: where ZooKeeper refuses the
    write of one partition, since its leader has changed the ISR meanwhile, all partitions of that
    attempt are elected again. The controller learns nothing in between, and no broker has heard of
    the first election, so that leader and ISR come out the same. With a single partition, as the
    explorer and schedules have, what was refused wrote nothing: it is elected once.
    """
    return known if context.elects_again else None


def elect_for_reassignment(
    context: ControllerContext, known: LeaderAndIsr, wanted: Sequence[int]
) -> LeaderAndIsr | None:
    """Let one of the replicas that are to stay lead; None where none is online and in sync.

    KafkaController.moveReassignedPartitionLeaderIfRequired and Election.leaderForReassign: a leader
    that is among them and online stays. Else it is the first of them that is online and in the ISR,
    which is not changed.

    Args:
        context: What the controller knows.
        known: The leader and ISR before.
        wanted: The replicas that are to hold the partition, the preferred one first.
    """
    if known.leader in wanted and known.leader in context.online:
        return known
    leader = first_of(wanted, context.online, known.isr)
    return None if leader == NO_LEADER else LeaderAndIsr(leader=leader, isr=known.isr)


def remove_from_isr(
    context: ControllerContext, known: LeaderAndIsr, broker: int
) -> LeaderAndIsr | None:
    """Take an offline replica from the ISR; None where it is no member of it.

    ReplicaStateMachine.doRemoveReplicasFromIsr: a leader that goes leaves none behind.
    """
    if broker not in known.isr:
        return None
    leader = NO_LEADER if broker == known.leader else known.leader
    isr = context.isr_without(known.isr, broker, context.is_unclean)
    return LeaderAndIsr(leader=leader, isr=isr)


def possible(
    context: ControllerContext,
    known: LeaderAndIsr | None,
    *,
    wanted: Collection[Sequence[int]] = (),
) -> Iterator[LeaderAndIsr]:
    """Yield each single decision that a controller with such knowledge may take next.

    Args:
        context: What it knows.
        known: What is decided so far; None of a new partition.
        wanted: Replicas to which the partition may be moving, the preferred one first.
    """
    if known is None:
        decisions = [elect_for_new(context)]
    else:
        decisions = [
            elect_preferred(context, known),
            elect_for_shutdown(context, known),
            elect_again(context, known),
        ]
        if context.is_offline(known):
            decisions.append(elect_for_offline(context, known))
        leaving = [member for member in known.isr if context.may_remove(member)]
        decisions += [remove_from_isr(context, known, member) for member in leaving]
        for replicas in wanted:
            decisions += _of_reassignment(context, known, replicas)
    yield from (decision for decision in decisions if decision is not None)


def explain(
    context: ControllerContext,
    known: LeaderAndIsr | None,
    written: LeaderAndIsr,
    *,
    surely_live: Collection[int],
    wanted: Collection[Sequence[int]] = (),
) -> bool:
    """Return whether some decision is the one that was written.

    What a controller knows lags behind ZooKeeper, so every set of live brokers is tried that has
    those of which it surely knew and none but those of which it may have known; and so is every
    set of brokers that may have been shutting down.

    Args:
        context: What it may have known: `live`, `shutting_down` and `was_away` have every broker
            that it may have taken for such.
        known: The leader and ISR before; None of a new partition.
        written: The leader and ISR in the next leader epoch.
        surely_live: Brokers that it must have taken for alive.
        wanted: Replicas to which the partition may be moving, the preferred one first.
    """
    before = () if known is None else (*known.isr, known.leader)
    concerned = context.live & {*context.assignment, *before}
    isr = frozenset(written.isr)
    for shutting_down in _subsets(context.shutting_down):
        for unseen in _subsets(concerned - set(surely_live)):
            knowing = replace(
                context, live=context.live - set(unseen), shutting_down=frozenset(shutting_down)
            )
            for decision in possible(knowing, known, wanted=wanted):
                if (decision.leader, frozenset(decision.isr)) == (written.leader, isr):
                    return True
    return False


def _of_reassignment(
    context: ControllerContext, known: LeaderAndIsr, wanted: Sequence[int]
) -> Iterator[LeaderAndIsr | None]:
    """Yield a new epoch, a leader among the wanted replicas, and a smaller replica set.

    KafkaController.onPartitionReassignment. A leader that is not wanted is removed where nobody
    took over, or where another reassignment came before it was taken into the assignment.
    """
    elected = elect_for_reassignment(context, known, wanted)
    yield from (known, elected)
    for member in known.isr:
        is_replaced = elected is not None and member in context.assignment
        if member not in wanted and not (member == known.leader and is_replaced):
            yield remove_from_isr(context, known, member)


def _subsets(brokers: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yield every subset, the smallest first."""
    counts = range(len(brokers) + 1)
    return chain.from_iterable(combinations(sorted(brokers), count) for count in counts)


def after_brokers_left(
    context: ControllerContext, known: LeaderAndIsr, gone: Collection[int]
) -> Iterator[LeaderAndIsr]:
    """Yield what is written one after the other when brokers are gone (onReplicasBecomeOffline).

    A leader that is gone is replaced first, if it can be; then the replicas leave the ISR one by
    one, each in a new leader epoch. Kafka takes them in the order of a hash map, which is
    ascending for a few small ids.
    """
    if known.leader in gone and (elected := elect_for_offline(context, known)) is not None:
        known = elected
        yield known
    for broker in sorted(gone):
        removed = remove_from_isr(context, known, broker)
        if removed is not None:
            known = removed
            yield known
