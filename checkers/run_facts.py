"""What is read of a run once, before any segment: its timeline and what follows from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.errors import ScenarioDataError
from checkers.evidence import Excuse
from checkers.history import Operation, epoch_rounds, operations
from checkers.model.events import (
    LoseTail,
    PartitionState,
    StartBroker,
    TopicCreated,
    TopicPartition,
    WipeLogDirectory,
)
from checkers.model.prediction import EpochRound
from checkers.run_directory import RunDirectory
from checkers.run_shapes import is_linked, read_outcome, read_snapshot
from checkers.timeline import (
    TimedEvent,
    is_internal,
    timed_events,
    topic_configurations,
    znode_changes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is read of a run once, whichever partition and snapshot is judged.

    Attributes:
        events: The timeline.
        configurations: The last configuration of each topic, as ZooKeeper has it.
        operations: Of all partitions; see `checkers.history`.
        rounds: Likewise; None without links.
        snapshots: Each snapshot.json, oldest first.
        settle: From outcome.json; None if the run never settled.
        is_finished: Whether outcome.json says that the run came to its end.
        is_linked: Whether, as scenario.json says, brokers spoke through links.
        pinned: Partition and broker of each checkpoint in which settling saw the last high
            watermark.
    """

    run: RunDirectory
    events: tuple[TimedEvent, ...]
    configurations: Mapping[str, Mapping[str, str]]
    operations: tuple[Operation, ...]
    rounds: tuple[EpochRound, ...] | None
    snapshots: tuple[Mapping[str, Any], ...]
    settle: Mapping[str, Any] | None
    is_finished: bool
    is_linked: bool
    pinned: frozenset[tuple[TopicPartition, int]]


def run_facts(run: RunDirectory) -> RunFacts:
    """Reads everything of a run but its segments.

    Raises:
        CheckError: A file does not have the documented shape; the message names it.
    """
    changes = znode_changes(run)
    events = timed_events(run, changes)
    outcome = read_outcome(run)
    return RunFacts(
        run=run,
        events=events,
        configurations=topic_configurations(changes),
        operations=tuple(_with_isr(one, events) for one in operations(run)),
        rounds=epoch_rounds(run),
        snapshots=tuple(read_snapshot(run, label) for label in run.snapshots()),
        settle=outcome.get("settle"),
        is_finished=bool(outcome.get("finished")),
        is_linked=is_linked(run),
        pinned=frozenset(_pinned(run)),
    )


def partitions(facts: RunFacts) -> list[TopicPartition]:
    """The partitions that are judged, sorted: those of every topic that was created or seen."""
    found = set()
    for timed in facts.events:
        if isinstance(timed.event, TopicCreated):
            numbers = range(len(timed.event.assignment))
            found |= {TopicPartition(timed.event.topic, number) for number in numbers}
    for snapshot in facts.snapshots:
        for name in snapshot["states"]:
            topic, _, number = name.rpartition("-")
            found.add(TopicPartition(topic, int(number)))
    return sorted(about for about in found if not is_internal(about.topic))


def assignment(facts: RunFacts, about: TopicPartition) -> tuple[int, ...]:
    """The partition's last assignment, preferred replica first; empty without one."""
    return _assigned(facts.events, about)


def _assigned(events: Sequence[TimedEvent], about: TopicPartition) -> tuple[int, ...]:
    assigned: tuple[int, ...] = ()
    for timed in events:
        event = timed.event
        if isinstance(event, TopicCreated) and event.topic == about.topic:
            assigned = (
                event.assignment[about.partition] if about.partition < len(event.assignment) else ()
            )
    return assigned


def excuses(events: Sequence[TimedEvent], about: TopicPartition) -> Iterator[Excuse]:
    """Yields, in their order, the events after which Kafka may lose records of the partition."""
    isr: tuple[int, ...] | None = None
    for timed in events:
        event = timed.event
        if isinstance(event, PartitionState) and (event.topic, event.partition) == about:
            if isr is not None and event.leader >= 0 and event.leader not in isr:
                yield Excuse(
                    kind="unclean-election",
                    broker=event.leader,
                    time=timed.time,
                    leader_epoch=event.leader_epoch,
                )
            isr = event.isr
        elif isinstance(event, LoseTail) and (event.topic, event.partition) == about:
            yield Excuse(
                kind="lost-tail",
                broker=event.broker,
                time=timed.time,
                first_lost_offset=event.log_end_offset,
                isr=isr or (),
            )
        elif isinstance(event, WipeLogDirectory) and event.broker in _assigned(events, about):
            yield Excuse(kind="lost-tail", broker=event.broker, time=timed.time, isr=isr or ())


def _pinned(run: RunDirectory) -> Iterator[tuple[TopicPartition, int]]:
    for number, line in enumerate(run.read_lines("observations.jsonl"), start=1):
        if line.get("kind") != "high-watermarks-pinned":
            continue
        try:
            about = TopicPartition(line["topic"], line["partition"])
            yield from [(about, int(broker)) for broker in line["brokers"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioDataError(
                f"{run.path / 'observations.jsonl'}:{number} does not say which high watermarks "
                f"were pinned: {error!r}"
            ) from error


def _with_isr(operation: Operation, events: Sequence[TimedEvent]) -> Operation:
    """The ISR that ZooKeeper had when the operation ended; both clocks are this machine's."""
    isr: tuple[int, ...] = ()
    for timed in events:
        event = timed.event
        if (
            isinstance(event, PartitionState)
            and (event.topic, event.partition) == (operation.topic, operation.partition)
            and operation.ended_at is not None
            and timed.time <= operation.ended_at
        ):
            isr = event.isr
    return replace(operation, isr_when_ended=isr)


def min_insync_replicas(facts: RunFacts, about: TopicPartition, leader: int) -> int:
    """The topic's min.insync.replicas, else that of the leader's broker as it last started."""
    of_topic = facts.configurations.get(about.topic, {}).get("min.insync.replicas")
    if of_topic is not None:
        return int(of_topic)
    found = 1
    for timed in facts.events:
        if isinstance(timed.event, StartBroker) and timed.event.broker == leader:
            found = timed.event.min_insync_replicas
    return found
