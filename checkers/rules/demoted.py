"""Writes that a broker took as leader although it had taken up that another one leads (KRaft)."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

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
    applied = {broker: _applied(of_broker) for broker, of_broker in told.items()}
    states: dict[TopicPartition, list[tuple[float, PartitionState]]] = {}
    for timed in evidence.events:
        if isinstance(timed.event, PartitionState):
            partition = TopicPartition(timed.event.topic, timed.event.partition)
            states.setdefault(partition, []).append((timed.time, timed.event))
    for operation in evidence.operations:
        if operation.function == "produce" and operation.outcome == "ok":
            partition = TopicPartition(operation.topic, operation.partition)
            times, offsets = applied.get(operation.broker, ([], []))
            place = bisect_left(times, operation.invoked_at)
            yield from _acknowledged(
                operation, states.get(partition, ()), offsets[place - 1] if place else -1
            )


def _acknowledged(
    operation: Operation, decided: Sequence[tuple[float, PartitionState]], applied: int
) -> Iterator[Finding]:
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
        f"{operation.operation}). Before, it had reported that it had read the metadata log up to "
        f"offset {applied}. By that log {_who(state)} in leader epoch {state.leader_epoch}",
        evidence={"operation": operation.operation, "decided_at": state.zxid, "applied": applied},
    )


def _applied(told: Iterable[Heartbeat]) -> tuple[list[float], list[int]]:
    """Return times from which a broker had applied a metadata offset, and these offsets.

    The offset is -1 where a process has not told enough of them.
    """
    times, offsets = list[float](), list[int]()
    distinct: dict[int, None] = {}
    life = None
    for heartbeat in told:
        if heartbeat.broker_epoch != life:
            life, distinct = heartbeat.broker_epoch, {}
        distinct.setdefault(heartbeat.metadata_offset)
        times.append(heartbeat.time)
        latest = [*islice(reversed(distinct), _LATER + 1)]
        offsets.append(latest[_LATER] if len(latest) > _LATER else -1)
    return times, offsets


def _who(state: PartitionState) -> str:
    return "nobody leads" if state.leader < 0 else f"broker {state.leader} leads"
