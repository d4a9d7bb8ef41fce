"""A run that goes from ZooKeeper to KRaft: decisions of two logs, in one order.

Until a KRaft controller claims `/controller`, ZooKeeper's log has every decision. The controller
copies them to the metadata log, and decides there from then on; ZooKeeper's log has what it writes
back (dual write). On the way back a broker claims `/controller`, and ZooKeeper's log decides again.
No number is common to both logs, so a decision's position is its time in milliseconds.

Source: KRaftMigrationDriver and KafkaZkClient.tryRegisterKRaftControllerAsActiveController, 3.8.0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.zookeeper import kraft_epoch_of
from kchaos.checkers.formats.metadata_image import MIGRATION_STATES
from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.checkers.metadata_log import LogEntry
from kchaos.checkers.model.values.events import Decision, PartitionState
from kchaos.checkers.zookeeper_log import ZnodeChange

DUAL_WRITE = MIGRATION_STATES.index("migration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offices:
    """Who decided when.

    Attributes:
        claimed: The zxids from which KRaft controllers decided.
        returned: Those from which a broker did, on the way back.
        copied_until: The last offset of what was copied to the metadata log; None before its end.
    """

    claimed: tuple[int, ...]
    returned: tuple[int, ...]
    copied_until: int | None

    def is_zookeepers(self, zxid: int) -> bool:
        """Return whether a change at that zxid is a claim, or no copy of what KRaft decided."""
        claimed = max((each for each in self.claimed if each < zxid), default=-1)
        return claimed < 0 or any(claimed < each <= zxid for each in self.returned)

    @property
    def is_back(self) -> bool:
        """Return whether a broker decided last, after a KRaft controller had."""
        return bool(self.claimed) and max(self.returned, default=-1) > max(self.claimed)

    def is_krafts(self, offset: int) -> bool:
        """Return whether a record at that offset is no copy of what ZooKeeper had."""
        return self.copied_until is not None and offset > self.copied_until


def offices(changes: Sequence[ZnodeChange], entries: Iterable[LogEntry]) -> Offices:
    """Return who decided when, by `/controller` and by the states in the metadata log."""
    claims = [
        (change.zxid, kraft_epoch_of(change) is not None)
        for change in changes
        if change.path == "/controller" and change.data
    ]
    copied = (
        entry.offset
        for entry in entries
        if isinstance(entry.record, MetadataRecord)
        and entry.record.name == "ZkMigrationStateRecord"
        and entry.record.fields["ZkMigrationState"] == DUAL_WRITE
    )
    return Offices(
        claimed=tuple(zxid for zxid, is_kraft in claims if is_kraft),
        returned=tuple(zxid for zxid, is_kraft in claims if not is_kraft),
        copied_until=next(copied, None),
    )


def in_one_log(
    of_zookeeper: Iterable[TimedEvent], of_kraft: Iterable[TimedEvent], who: Offices
) -> tuple[TimedEvent, ...]:
    """Return the decisions of both logs, each once, by time."""
    decided = [timed for timed in of_zookeeper if who.is_zookeepers(timed.zxid)]
    decided += [timed for timed in of_kraft if who.is_krafts(timed.zxid)]
    return tuple(sorted(map(placed_by_time, decided), key=lambda timed: timed.zxid))


def placed_by_time(timed: TimedEvent) -> TimedEvent:
    """Return the event with the time of its begin in milliseconds as its position."""
    place = round((timed.time if timed.began is None else timed.began) * 1000)
    event = timed.event
    if isinstance(event, Decision):
        event = replace(event, zxid=place)
    return replace(timed, event=event, zxid=place)


def parted(
    of_zookeeper: Iterable[TimedEvent], of_kraft: Iterable[TimedEvent], who: Offices
) -> Iterator[str]:
    """Yield where the two logs of a migration part, about a partition's leader, epoch or ISR.

    What was copied must be what ZooKeeper had. What is written back must be decisions, in their
    order; of several in one delta it is the last. Before a broker decides again, ZooKeeper must
    have the last decision.
    """
    begins = min(who.claimed, default=-1)
    had: dict[TopicPartition, list[PartitionState]] = {}
    for partition, state in _states(of_zookeeper):
        if state.zxid < begins:
            had[partition] = [state]
        elif not who.is_zookeepers(state.zxid):
            had.setdefault(partition, []).append(state)
    decided: dict[TopicPartition, list[PartitionState]] = {}
    for partition, state in _states(of_kraft):
        is_new = who.is_krafts(state.zxid)
        decided[partition] = [*decided.get(partition, ()), state] if is_new else [state]
    for partition, states in sorted(decided.items()):
        later, latest = iter(states), ""
        for state in had.get(partition, ()):
            words = _words(state)
            if words != latest and not any(_words(each) == words for each in later):
                yield (
                    f"zxid {state.zxid}: ZooKeeper has {partition.name} with {words}, which the "
                    "metadata log has not, or has before"
                )
                break
            latest = words
        if who.is_back and latest != _words(states[-1]):
            yield (
                f"offset {states[-1].zxid}: {partition.name} has {_words(states[-1])} in the "
                f"metadata log, and ZooKeeper had {latest or 'nothing'} when a broker became the "
                "controller again"
            )


def _states(decided: Iterable[TimedEvent]) -> Iterator[tuple[TopicPartition, PartitionState]]:
    for timed in decided:
        if isinstance(timed.event, PartitionState):
            yield TopicPartition(timed.event.topic, timed.event.partition), timed.event


def _words(state: PartitionState) -> str:
    isr = sorted(state.isr)
    return f"leader {state.leader}, leader epoch {state.leader_epoch}, ISR {isr}"
