"""Decisions that contradict the decisions before them, or what a leader holds.

Read from kafka.controller.PartitionStateMachine (initializeLeaderAndIsrForPartitions,
doElectLeaderForPartitions) and kafka.cluster.Partition (maybeExpandIsr, maybeShrinkIsr), 0.10.2.2,
1.1.1 and 2.8.2.

**Verifies**: a leader is in its own ISR, and the ISR within the assignment; epochs step by one and
never go back; within an epoch the leader stays, and a follower joins the ISR only when it was far
enough at some time in that epoch; the version that ZooKeeper counts for a znode goes up by one with
each write, so that none is missing.
**Does not verify**: whether a controller takes that decision: see `recorded`.
"""

from collections.abc import Sequence

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import Role, WantedIsr


def reason_against(world: World, new: PartitionState) -> str:
    """Return why a partition state is not allowed after what the cluster holds, or ""."""
    partition = TopicPartition(new.topic, new.partition)
    old = world.partition_state(partition)
    reason = contradiction(world.assignment(partition), old, new)
    if not reason and old is not None and new.leader_epoch == old.leader_epoch:
        return _against_joining(world, old, new)
    return reason


def contradiction(
    assignment: Sequence[int], old: PartitionState | None, new: PartitionState
) -> str:
    """Return why a partition state cannot follow on its assignment and the state before, or "".

    Args:
        assignment: The replicas; empty where the partition was never assigned.
        old: None of a new partition.
        new: The next state of the same partition.
    """
    if not assignment:
        return "no assignment of the partition was written before"
    strangers = set(new.isr) - set(assignment)
    if strangers:
        return f"ISR {new.isr} has brokers outside the assignment {tuple(assignment)}"
    if new.leader != -1 and new.leader not in new.isr:
        return f"leader {new.leader} is not in its own ISR {new.isr}"
    if old is None:
        return ""
    if new.leader_epoch not in (old.leader_epoch, old.leader_epoch + 1):
        return f"leader epoch went from {old.leader_epoch} to {new.leader_epoch}, not one up"
    if old.version >= 0 and new.version >= 0 and new.version != old.version + 1:
        return f"the znode's version went from {old.version} to {new.version}, not one up"
    if new.leader_epoch == old.leader_epoch and new.leader != old.leader:
        return f"leader went from {old.leader} to {new.leader} within epoch {old.leader_epoch}"
    return ""


def _against_joining(world: World, old: PartitionState, new: PartitionState) -> str:
    """Return why a leader cannot have taken a follower into its ISR in the same epoch, or ""."""
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
