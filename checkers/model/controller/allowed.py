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
from kchaos.checkers.model.controller.isr_changes import reason_against_joining
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState


def reason_against(world: World, new: PartitionState) -> str:
    """Return why a partition state is not allowed after what the cluster holds, or ""."""
    partition = TopicPartition(new.topic, new.partition)
    old = world.partition_state(partition)
    reason = contradiction(world.assignment(partition), old, new)
    if not reason and old is not None and new.leader_epoch == old.leader_epoch:
        return reason_against_joining(world, old, new)
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
