"""Events after which Kafka may lose records of a partition."""

from collections.abc import Iterator

from kchaos.checkers.acts import LoseTail, TopicPartition, WipeLogDirectory
from kchaos.checkers.evidence.led_from import LedEpoch, ends_cached, reached_by_fetching
from kchaos.checkers.evidence.partition import Excuse
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import EligibleReplicas, PartitionState


def excuses(evidence: RunEvidence, partition: TopicPartition) -> Iterator[Excuse]:
    """Yield, in order, the events after which Kafka may lose records of the partition.

    An eligible leader replica has all that is committed, as the ISR has (KIP-966).
    """
    isr: tuple[int, ...] | None = None
    eligible: tuple[int, ...] = ()
    led, led_before = set[tuple[int, int]](), set[tuple[int, int]]()
    deletions = [*evidence.deletions.get(partition.topic, ())]
    for timed in evidence.events:
        event = timed.event
        while deletions and deletions[0].zxid <= timed.zxid:
            isr, eligible = None, ()
            led_before |= led
            yield Excuse(kind="topic-deletion", broker=-1, time=deletions.pop(0).time)
        if isinstance(event, PartitionState) and (event.topic, event.partition) == partition:
            if isr is not None and event.leader >= 0 and event.leader not in (*isr, *eligible):
                yield _unclean_election(evidence, event, timed.time, led_before)
            isr = event.isr
            led.add((event.leader, event.leader_epoch))
        elif isinstance(event, EligibleReplicas) and (event.topic, event.partition) == partition:
            eligible = event.eligible
        elif isinstance(event, LoseTail) and (event.topic, event.partition) == partition:
            yield Excuse(
                kind="lost-tail",
                broker=event.broker,
                time=timed.time,
                first_lost_offset=event.log_end_offset,
                isr=(*(isr or ()), *eligible),
            )
        elif isinstance(event, WipeLogDirectory) and event.broker in evidence.assignment(partition):
            keepers = (*(isr or ()), *eligible)
            yield Excuse(kind="lost-tail", broker=event.broker, time=timed.time, isr=keepers)
    for deletion in deletions:
        yield Excuse(kind="topic-deletion", broker=-1, time=deletion.time)


def _unclean_election(
    evidence: RunEvidence, decided: PartitionState, time: float, led_before: set[tuple[int, int]]
) -> Excuse:
    """Return an election from outside the ISR, with what its leader had.

    Of a topic that was deleted and made again, replicas that did not lead may have old folders,
    and what is said of a leader epoch that both topics had may be of either.
    """
    partition = TopicPartition(decided.topic, decided.partition)
    term = LedEpoch(partition, decided.leader, decided.leader_epoch)
    start: int | None = None
    kept: dict[int, int] = {}
    if (decided.leader, decided.leader_epoch) not in led_before:
        caches = (
            evidence.copied.epoch_entries(snapshot.label, broker, partition)
            for snapshot in evidence.snapshots
            for broker in sorted(snapshot.brokers, key=lambda each: each != decided.leader)
            if snapshot.time >= time and (broker == decided.leader or not led_before)
        )
        start, cached = ends_cached(caches, decided.leader_epoch)
        kept = {**evidence.ends_answered.get(term, {}), **cached}
        start = evidence.starts_said.get(term, start)
        if start is None and not any(
            isinstance(at.event, LoseTail | WipeLogDirectory) and at.event.broker == term.leader
            for at in evidence.events
        ):
            start = reached_by_fetching(evidence.links or ()).get(term)
    return Excuse(
        kind="unclean-election",
        broker=decided.leader,
        time=time,
        leader_epoch=decided.leader_epoch,
        start_offset=start,
        kept=tuple(sorted(kept.items())),
    )
