"""Occasions of a run: what had to happen before a bug of that kind could show.

A green run without an occasion says nothing about the code that acts there.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import StopBroker, TopicPartition
from kchaos.checkers.evidence.excuses import excuses
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    ControllerElected,
    LogCleaned,
    PartitionState,
)
from kchaos.checkers.model.values.prediction import Prediction

OCCASIONS: Mapping[str, str] = {
    "election": "a leader was elected, and acknowledged records afterwards",
    "unclean-election": "a leader was elected from outside of the ISR",
    "controller-change": "a controller followed another one",
    "isr-shrunk": "a replica left the ISR",
    "isr-grown": "a replica came back into the ISR",
    "leader-killed": "a leader's process ended uncleanly",
    "broker-back": "a broker registered once more",
    "below-min-isr": "a write with acks=all was refused, since too few replicas were in sync",
    "answered-by-zombie": "a broker acknowledged a write after another one was elected",
    "epoch-question": "a follower learned where a leader epoch ends",
    "truncation": "a follower truncated its log",
    "sent-again": "a producer's batch was sent more than once",
    "transaction": "a client's transaction was committed or aborted",
    "replica-moved": "a replica moved to another broker or log directory",
    "records-deleted": "records were deleted by a request, from the remote tier or by compaction",
}
"""Each kind of occasion, with the sentence for people."""

_REFUSED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def occasions(evidence: RunEvidence, prediction: Prediction | None) -> Mapping[str, int]:
    """Return how often a run had each kind of occasion, in the order of `OCCASIONS`; none are 0.

    Without a prediction, truncations are not known.
    """
    found = Counter(_decided(evidence))
    found.update(_acknowledged(evidence))
    found.update(_of_processes(evidence))
    found["epoch-question"] = len(evidence.rounds or ())
    found["truncation"] = len(prediction.truncations) if prediction is not None else 0
    found["replica-moved"] = len(evidence.moved_replicas)
    found["records-deleted"] = len(evidence.deleted_until) + len(evidence.remote_deleted)
    for partition in evidence.partitions:
        found["replica-moved"] += len({broker for broker, _ in evidence.moved_away(partition)})
        found["unclean-election"] += sum(
            excuse.kind == "unclean-election" for excuse in excuses(evidence, partition)
        )
    return {kind: found[kind] for kind in OCCASIONS if found[kind]}


def _decided(evidence: RunEvidence) -> Iterator[str]:
    """Yield an occasion for each change of an ISR, each kill of a leader and each cleaning."""
    states: dict[TopicPartition, PartitionState] = {}
    for timed in evidence.events:
        match timed.event:
            case PartitionState() as state:
                partition = TopicPartition(state.topic, state.partition)
                before = states.get(partition, state)
                if {*before.isr} - {*state.isr}:
                    yield "isr-shrunk"
                if {*state.isr} - {*before.isr}:
                    yield "isr-grown"
                states[partition] = state
            case StopBroker(broker=broker, clean=False):
                if any(state.leader == broker for state in states.values()):
                    yield "leader-killed"
            case LogCleaned():
                yield "records-deleted"


def _of_processes(evidence: RunEvidence) -> Iterator[str]:
    """Yield an occasion for each broker that is back, and for each controller after the first."""
    registered, elected = set[int](), 0
    for timed in evidence.events:
        if isinstance(timed.event, BrokerRegistered):
            if timed.event.broker in registered:
                yield "broker-back"
            registered.add(timed.event.broker)
        elif isinstance(timed.event, ControllerElected):
            elected += 1
    if evidence.is_kraft:
        elected = len([*evidence.leader_changes])
    yield from itertools.repeat("controller-change", max(elected - 1, 0))


def _acknowledged(evidence: RunEvidence) -> Iterator[str]:
    """Yield an occasion for each write, or election before a write, that is one."""
    led: dict[TopicPartition, list[tuple[float, PartitionState]]] = {}
    for timed in evidence.events:
        if isinstance(timed.event, PartitionState):
            partition = TopicPartition(timed.event.topic, timed.event.partition)
            terms = led.setdefault(partition, [])
            if not terms or terms[-1][1].leader_epoch != timed.event.leader_epoch:
                terms.append((timed.time, timed.event))
    written, sent = set[tuple[TopicPartition, int]](), Counter[object]()
    ended = set[tuple[int, float]]()
    for operation in evidence.operations:
        if operation.function != "produce" or operation.is_said:
            continue
        if operation.error_code in _REFUSED:
            yield "below-min-isr"
        partition = TopicPartition(operation.topic, operation.partition)
        if operation.producer is not None:
            sent[partition, operation.producer] += 1
            if operation.transaction_ended_at is not None:
                ended.add((operation.producer.producer_id, operation.transaction_ended_at))
        if operation.outcome != "ok" or operation.ended_at is None:
            continue
        terms = led.get(partition, [])
        now = [state for time, state in terms if time <= operation.invoked_at]
        if now and now[-1].leader not in (operation.broker, -1):
            yield "answered-by-zombie"
        elif len(now) > 1:
            written.add((partition, now[-1].leader_epoch))
    yield from itertools.repeat("election", len(written))
    yield from itertools.repeat("transaction", len(ended))
    yield from itertools.repeat("sent-again", sum(times - 1 for times in sent.values()))
