"""Writes that a broker took as leader although it had taken up that another one leads (KRaft)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.links import Heartbeat, heartbeats
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.rules.offsets import in_words

_LATER = 2
"""So many later offsets a broker must have told, each in a heartbeat of its own.

An offset counts as read before replicas have changed by it. The next one comes from a later read,
which waits for that; one more is for an offset that was told in the middle of a read.
"""


def acknowledged_after_demotion(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield a finding for each write that a broker acknowledged after it had lost leadership.

    Brokers tell in heartbeats up to which offset of the metadata log they have read. Source:
    BrokerMetadataListener 3.3, HandleCommitsEvent; MetadataLoader from 3.5 on;
    KAFKA-14296, in which a broker that shuts down takes up no decision by which it would follow.

    **Verifies**: writes of kchaos's own clients, where links saw heartbeats of the broker.
    **Does not verify**: writes within two heartbeats after the decision; writes of others; reads.
    """
    told = heartbeats(evidence.links or ())
    states: dict[TopicPartition, list[tuple[float, PartitionState]]] = {}
    for timed in evidence.events:
        if isinstance(timed.event, PartitionState):
            partition = TopicPartition(timed.event.topic, timed.event.partition)
            states.setdefault(partition, []).append((timed.time, timed.event))
    for operation in evidence.operations:
        if operation.function == "produce" and operation.outcome == "ok":
            partition = TopicPartition(operation.topic, operation.partition)
            decided = states.get(partition, ())
            yield from _acknowledged(operation, decided, told.get(operation.broker, ()))


def _acknowledged(
    operation: Operation, decided: Sequence[tuple[float, PartitionState]], told: Sequence[Heartbeat]
) -> Iterator[Finding]:
    applied = _applied(told, operation.invoked_at)
    known = [state for _, state in decided if state.zxid <= applied]
    if not known or known[-1].leader == operation.broker or operation.ended_at is None:
        return
    for time, state in decided:
        is_later = state.zxid > applied and time <= operation.ended_at
        if is_later and state.leader == operation.broker:
            return
    state = known[-1]
    offsets = in_words(operation.base_offset, operation.last_offset)
    yield Finding(
        kind="acknowledged-after-demotion",
        topic=operation.topic,
        partition=operation.partition,
        brokers=(operation.broker,),
        first_offset=operation.base_offset,
        last_offset=operation.last_offset,
        message=f"broker {operation.broker} acknowledged records at {offsets} (operation "
        f"{operation.operation}). It had told before that it had read the metadata log up to "
        f"offset {applied}. By that log {_who(state)} in leader epoch {state.leader_epoch}",
        evidence={"operation": operation.operation, "decided_at": state.zxid, "applied": applied},
    )


def _applied(told: Sequence[Heartbeat], time: float) -> int:
    """Return the metadata offset that a broker had applied at a time, or -1."""
    before = told[: bisect_left(told, time, key=lambda heartbeat: heartbeat.time)]
    life = before[-1].broker_epoch if before else -1
    offsets = [each.metadata_offset for each in before if each.broker_epoch == life]
    distinct = list(dict.fromkeys(offsets))
    return distinct[-1 - _LATER] if len(distinct) > _LATER else -1


def _who(state: PartitionState) -> str:
    return "nobody leads" if state.leader < 0 else f"broker {state.leader} leads"
