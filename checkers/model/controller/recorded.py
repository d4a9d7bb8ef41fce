"""Recorded decisions, each held against those that its writer could have taken.

`explain` says which decisions a controller may take by what it knows, as the explorer has them. So
whatever the explorer's controller does wrongly contradicts recorded runs. The rest is about who may
write: with which controller epoch, and how soon a leader may throw a follower out.

Read from kafka.controller.KafkaController, PartitionStateMachine and kafka.cluster.Partition
(maybeShrinkIsr), 0.10.2.2, 1.1.1, 2.8.2 and 3.6.2. None of it depends on what replicas hold, so the
answer is the same in every state that explains the run up to a decision. What a leader must know of
a follower that joins its ISR does depend on that: see `allowed`.
"""

from collections.abc import Iterator
from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.controller.decisions import LeaderAndIsr, explain
from kchaos.checkers.model.controller.knowledge import (
    CLOCKS_S,
    ControllerKnowledge,
    RecordedDecisions,
)
from kchaos.checkers.model.releases.rules.kip_537 import LAG
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.prediction import UnexplainedDecision


def unexplained(recorded: RecordedDecisions) -> Iterator[UnexplainedDecision]:
    """Yield each partition state that its writer could not have written then, and why.

    **Verifies**:

    - No ISR names a broker twice, and no write repeats what was there before.
    - The controller epoch is one that was given out, never lower than before, and the writer's own
      where a controller wrote it. Elections are written by controllers, and other changes by a
      controller or by the leader.
    - A live follower is not thrown out sooner after the leader's term began than
      replica.lag.time.max.ms allows.
    - A first state and a new leader epoch are what the model's controller decides by something that
      its writer can have known. So nobody is elected whom it knew to be away, and no leader is
      taken away and no member thrown out that it knew to live. A replica whose log directory a
      fault made fail counts as away.
    - A reassigned partition moves to the replicas that were asked for. A partition is elected again
      only after another partition's ISR was changed meanwhile.
    - Nobody from outside the ISR is elected where the topic's own setting, or that of all brokers,
      was against it ever since the state before.
    - Up to 2.2.2 nobody is thrown out without an election who was away already when the controller
      began. From 2.3.0 on no leader is chosen while an ISR has another such member.
    - While a topic is deleted its controller may besides take any replica out of an ISR.

    **Does not verify**: what only depends on how long a message takes; new leader epochs where no
    broker's release is known.
    """
    known = ControllerKnowledge(recorded)
    for decided in recorded.decided:
        new = decided.what
        if isinstance(new, PartitionState):
            for reason in _reasons(known, new, decided.time):
                yield UnexplainedDecision(
                    topic=new.topic,
                    partition=new.partition,
                    zxid=new.zxid,
                    written_by=new.written_by,
                    isr=new.isr,
                    reason=reason,
                )
        known.learn(decided)


def _reasons(known: ControllerKnowledge, new: PartitionState, time: float) -> Iterator[str]:
    partition = TopicPartition(new.topic, new.partition)
    old = known.states.get(partition)
    reasons = list(_against_writer(known, old, new))
    if old is not None and old.leader_epoch == new.leader_epoch:
        reasons += _against_shrinking(known, partition, old, new, time)
    elif not reasons:
        reasons += _against_decision(known, partition, old, new, time)
    yield from reasons


def _against_writer(
    known: ControllerKnowledge, old: PartitionState | None, new: PartitionState
) -> Iterator[str]:
    if len(set(new.isr)) != len(new.isr):
        yield f"ISR {list(new.isr)} names a broker twice"
    if old is not None and replace(old, zxid=0, version=0) == replace(new, zxid=0, version=0):
        yield "it writes what was there before"
    yield from _against_epoch(known, old, new)
    if new.leader >= 0 and (old is None or old.leader != new.leader):
        yield from _against_members_left(known, new)


def _against_decision(
    known: ControllerKnowledge,
    partition: TopicPartition,
    old: PartitionState | None,
    new: PartitionState,
    time: float,
) -> Iterator[str]:
    """Yield a sentence where no controller decides so, whatever it may have known."""
    assignment = known.assigned.get(partition)
    if assignment is None or not known.recorded.releases:
        return
    surely_live = known.surely_live(new, time)
    wanted = known.recorded.wanted_at(partition, new.zxid)
    before = None if old is None else LeaderAndIsr(leader=old.leader, isr=old.isr)
    written = LeaderAndIsr(leader=new.leader, isr=new.isr)
    for context in known.contexts(new, time, surely_live):
        if explain(context, before, written, surely_live=surely_live, wanted=wanted):
            return
    was = "" if old is None else f" after leader {old.leader} and ISR {list(old.isr)}"
    moving = "".join(f", which may move to {list(replicas)}" for replicas in wanted)
    yield (
        f"no controller decides so: leader {new.leader} and ISR {list(new.isr)}{was} of replicas "
        f"{list(assignment)}{moving}; it knew that {sorted(surely_live)} lived"
    )


def _against_epoch(
    known: ControllerKnowledge, old: PartitionState | None, new: PartitionState
) -> Iterator[str]:
    epochs = known.recorded.epochs
    if new.written_by is None or not epochs:
        return
    taken = {epoch: broker for epoch, (broker, zxid) in epochs.items() if zxid <= new.zxid}
    writer, epoch = new.written_by, new.controller_epoch
    if old is not None and epoch < old.controller_epoch:
        yield f"the controller epoch went back from {old.controller_epoch} to {epoch}"
    if epoch not in taken:
        yield f"nobody had taken the controller epoch {epoch}"
        return
    is_own = old is not None and (old.leader, old.leader_epoch) == (new.leader, new.leader_epoch)
    if is_own and writer == new.leader and old is not None and epoch == old.controller_epoch:
        return
    if is_own and not known.recorded.has_alter_isr:
        yield f"broker {writer} changed the ISR of broker {new.leader}, who leads"
    if taken[epoch] != writer:
        yield (
            f"broker {writer} wrote it with controller epoch {epoch}, which was broker "
            f"{taken[epoch]}'s"
        )


def _against_members_left(known: ControllerKnowledge, new: PartitionState) -> Iterator[str]:
    """Yield whom the writer of an election should have taken out of an ISR before.

    A controller takes all that are away out of the ISRs, but for a last member, before it elects
    anybody. It tries again where a leader wrote meanwhile, or the connection broke. Any other
    failure is only logged, and such a one comes of a session that is over
    (KafkaController.onControllerFailover, ReplicaStateMachine.startup and removeReplicasFromIsr,
    KafkaZkClient.retryRequestsUntilConnected, 2.3.0, 2.8.2 and 3.6.2). So it counts only while the
    writer is registered as when it became the controller. A member that was out meanwhile does not
    count: a leader that takes a late Fetch may take one in that is away.
    """
    broker, taken = known.recorded.epochs.get(new.controller_epoch, (-1, -1))
    has_session = known.registered.get(broker, taken) < taken
    removes = {release.removes_offline_at_start for release in known.recorded.releases}
    if taken < known.began or not has_session or removes != {True}:
        return
    for partition, away in sorted(known.to_remove):
        isr = known.states[partition].isr
        deletions = known.recorded.deletions.get(partition.topic, ())
        if len(isr) > 1 and all(deletion.asked > new.zxid for deletion in deletions):
            yield (
                f"broker {broker} elects broker {new.leader} while broker {away}, which was away "
                f"when it became the controller, is in the ISR {list(isr)} of {partition.name}"
            )


def _against_shrinking(
    known: ControllerKnowledge,
    partition: TopicPartition,
    old: PartitionState,
    new: PartitionState,
    time: float,
) -> Iterator[str]:
    """Yield which followers a leader, or a controller that it asked, threw out too soon."""
    lag_s = known.recorded.lag_s
    wanted = known.recorded.wanted_at(partition, new.zxid)
    for broker in sorted(set(old.isr) - set(new.isr)):
        since = known.followed_since.get((partition, broker))
        assigned = known.assigned.get(partition, (broker,))
        is_to_stay = all(broker in replicas for replicas in (assigned, *wanted))
        if is_to_stay and since is not None and time - since < lag_s - CLOCKS_S:
            yield (
                f"broker {broker} was thrown out of the ISR {time - since:.3f} s after its "
                f"leader's term had begun, and {LAG} is {lag_s:g} s"
            )
