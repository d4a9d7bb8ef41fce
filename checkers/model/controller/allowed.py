"""Decisions that were observed, held against the rules, which allow all that Kafka does.

Read from kafka.controller.PartitionStateMachine (PartitionLeaderElectionAlgorithms),
kafka.controller.ReplicaStateMachine.removeReplicasFromIsr and kafka.cluster.Partition
(maybeExpandIsr, maybeShrinkIsr), 0.10.2.2 (PartitionLeaderSelector), 1.1.1 and 2.8.2.

**Verifies**: epochs step by one and never go back; within an epoch the leader stays and keeps
itself in the ISR; a new leader comes from the ISR before it, else the election was unclean, which
must be enabled somewhere, and leaves it alone in the ISR; a follower joins the ISR only when it was
far enough at some time in that epoch; the version that ZooKeeper counts for a znode goes up by one
with each write, so that none is missing.
**Does not verify**: what depends on time (who is slow, who was alive when the controller looked),
nor which of several allowed replicas is chosen.
"""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.replica import Role, WantedIsr


def reason_against(world: World, new: PartitionState) -> str:
    """Return why a partition state is not allowed after what the cluster holds, or ""."""
    partition = TopicPartition(new.topic, new.partition)
    assignment = world.assignment(partition)
    if not assignment:
        return "no assignment of the partition was written before"
    strangers = set(new.isr) - set(assignment)
    if strangers:
        return f"ISR {new.isr} has brokers outside the assignment {assignment}"
    if new.leader != -1 and new.leader not in new.isr:
        return f"leader {new.leader} is not in its own ISR {new.isr}"
    old = world.partition_state(partition)
    if old is None:
        return ""
    if new.leader_epoch not in (old.leader_epoch, old.leader_epoch + 1):
        return f"leader epoch went from {old.leader_epoch} to {new.leader_epoch}, not one up"
    if leaves_out_a_write(old, new):
        return f"the znode's version went from {old.version} to {new.version}, not one up"
    if new.leader_epoch == old.leader_epoch:
        return _against_isr_change(world, partition, old, new)
    return _against_election(world, old, new)


def leaves_out_a_write(old: PartitionState, new: PartitionState) -> bool:
    """Tell whether ZooKeeper counted another write of a partition's znode between two states."""
    return old.version >= 0 and new.version >= 0 and new.version != old.version + 1


def _against_isr_change(
    world: World, partition: TopicPartition, old: PartitionState, new: PartitionState
) -> str:
    if new.leader != old.leader:
        return f"leader went from {old.leader} to {new.leader} within epoch {old.leader_epoch}"
    replica = world.replica(new.leader, partition)
    if replica is None or replica.role is not Role.LEADER:
        return ""
    leader = world.broker(new.leader)
    if replica.leader_epoch != new.leader_epoch or leader is None:
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


def _against_election(world: World, old: PartitionState, new: PartitionState) -> str:
    if new.leader == -1 or new.leader in old.isr:
        joined = set(new.isr) - set(old.isr)
        return f"brokers {sorted(joined)} joined the ISR in an election" if joined else ""
    if set(new.isr) != {new.leader}:
        return f"unclean leader {new.leader} did not begin with itself as the ISR but {new.isr}"
    known = [broker for broker in map(world.broker, world.broker_ids()) if broker is not None]
    if not world.allows_unclean_election(new.topic, known):
        return (
            f"broker {new.leader} was elected from outside the ISR {old.isr} although unclean "
            "elections are off on every broker"
        )
    return ""
