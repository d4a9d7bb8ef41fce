"""Changes of the ISR that a leader may write: without a follower that lags, or with one more.

What the explorer lets leaders write, and what may be read in a recorded run.

Read from kafka.cluster.Partition (getOutOfSyncReplicas, maybeExpandIsr), 1.1.1, 2.8.2 and 3.3.0.
"""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.controller.outboxes import generation_of, is_leading
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import Replica, Role, WantedIsr


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
    if leader is None or not replica.takes_in(follower):
        return None
    may_join = leader.generation.may_join_isr(follower, leader.live)
    return (*state.isr, follower) if may_join else None


def reason_against_joining(world: World, old: PartitionState, new: PartitionState) -> str:
    """Return why a leader cannot have taken a follower into its ISR, or "".

    Args:
        world: What the leader holds.
        old: The state before.
        new: One of the same leader and leader epoch.
    """
    partition = TopicPartition(new.topic, new.partition)
    replica, leader = world.replica(new.leader, partition), world.broker(new.leader)
    if replica is None or leader is None or replica.role is not Role.LEADER:
        return ""
    if replica.leader_epoch != new.leader_epoch:
        return ""
    wanted: WantedIsr | None = world.get(("isr wanted", new.leader, partition))
    for joined in sorted(set(new.isr) - set(old.isr)):
        if wanted is not None and joined in wanted.isr:
            continue  # Both were asked when the leader made up its mind.
        view = replica.view(joined)
        if not leader.generation.may_join_isr(joined, leader.live):
            return (
                f"broker {joined} joined the ISR, although its leader does not know that it lives"
            )
        if view is not None and not view.may_join_isr:
            return (
                f"broker {joined} joined the ISR at offset {view.log_end_offset}, although the "
                f"leader's high watermark is {replica.high_watermark} and its epoch starts at "
                f"{replica.epoch_start_offset}"
            )
    return ""
