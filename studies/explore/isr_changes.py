"""Changes of the ISR that a leader may write: without a follower that lags, or with one more.

Read from kafka.cluster.Partition (getOutOfSyncReplicas, maybeExpandIsr), 1.1.1, 2.8.2 and 3.3.0.
"""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.controller.outboxes import generation_of
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replica import Replica, Role


def is_leading(world: World, broker_id: int, partition: TopicPartition) -> bool:
    """Return whether a broker that works believes to lead the partition."""
    broker, replica = world.broker(broker_id), world.replica(broker_id, partition)
    return (
        broker is not None
        and broker.is_working
        and replica is not None
        and replica.role is Role.LEADER
    )


def takes_in(leader: Replica, follower: int) -> bool:
    """Return whether a leader takes a follower into the ISR: it has all that is committed."""
    view = leader.view(follower)
    return view is not None and view.asks_to_join and view.log_end_offset >= leader.high_watermark


def true_leader(world: World, partition: TopicPartition) -> Replica | None:
    """Return the replica of the leader that ZooKeeper has, if its writes of the ISR count.

    Its broker is registered and works, and leads in the present leader epoch.
    """
    state = world.partition_state(partition)
    replica = None if state is None else world.replica(state.leader, partition)
    if state is None or replica is None or replica.leader_epoch != state.leader_epoch:
        return None
    is_true = is_leading(world, state.leader, partition) and state.leader in world.registered()
    return replica if is_true else None


def isr_without(world: World, partition: TopicPartition, follower: int) -> tuple[int, ...] | None:
    """Return the ISR without a follower that has not fetched for `replica.lag.time.max.ms`.

    Returns:
        None where no leader may write it: it is no true one, the follower is no member, or its
        release keeps a follower that is as far.
    """
    state, replica = world.partition_state(partition), true_leader(world, partition)
    if state is None or replica is None or follower not in state.isr:
        return None
    view = replica.view(follower)
    falls_out = generation_of(world, state.leader).falls_out_of_isr
    if view is None or not falls_out(view.log_end_offset, replica.log.log_end_offset):
        return None
    return tuple(member for member in state.isr if member != follower)


def isr_with(world: World, partition: TopicPartition, follower: int) -> tuple[int, ...] | None:
    """Return the ISR with a follower that has caught up, and that its leader's release lets in.

    Returns:
        None where no leader may write it, as in `isr_without`.
    """
    state, replica = world.partition_state(partition), true_leader(world, partition)
    if state is None or replica is None or follower in state.isr:
        return None
    leader = world.broker(state.leader)
    if leader is None or not takes_in(replica, follower):
        return None
    may_join = leader.generation.may_join_isr(follower, leader.live)
    return (*state.isr, follower) if may_join else None
