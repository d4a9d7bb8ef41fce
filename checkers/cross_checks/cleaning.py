"""Cross-check of log cleaners: actions beside the checkpoints and segments in snapshots."""

from collections.abc import Iterator

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import LogCleaned, Snapshot


def cleaning_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield what the journal says of a log cleaner and the next snapshot contradicts.

    **Verifies**: of each LogCleaned that a snapshot follows before its broker ends: that the
    broker's cleaner-offset-checkpoint has its offset there, or a later one; and that such a file
    names only topics that something compacts.
    **Does not verify**: one that no snapshot follows; which records are there, since the model says
    which must be.
    """
    events = evidence.events
    for number, timed in enumerate(events):
        if isinstance(timed.event, LogCleaned):
            yield from _checkpointed(evidence, timed.event, events[number + 1 :])
    named = str(evidence.scenario.steps) + str(evidence.broker_properties)
    for snapshot in evidence.snapshots:
        for broker in snapshot.brokers:
            yield from _not_compacted(evidence, snapshot.label, broker, named)


def _not_compacted(evidence: RunEvidence, label: str, broker: int, named: str) -> Iterator[str]:
    """Yield topics that a log cleaner notes although they were never compacted."""
    try:
        cleaned = evidence.copied.cleaned(label, broker)
    except CheckpointError:
        return  # The rules say so.
    for topic, partition in sorted(cleaned):
        is_compacted = "compact" in evidence.settings.cleanup_policy(topic)
        if not is_compacted and "compact" not in named and not is_internal(topic):
            yield (
                f"snapshot {label!r}: broker {broker}'s log cleaner has noted {topic}-{partition}, "
                "and nothing compacts that topic"
            )


def _checkpointed(
    evidence: RunEvidence, cleaned: LogCleaned, later: tuple[TimedEvent, ...]
) -> Iterator[str]:
    for snapshot in later:
        event = snapshot.event
        if isinstance(event, StartBroker | StopBroker) and event.broker == cleaned.broker:
            return
        if isinstance(event, LogCleaned) and event.broker == cleaned.broker:
            return
        if isinstance(event, Snapshot):
            partition = TopicPartition(cleaned.topic, cleaned.partition)
            try:
                said = evidence.copied.cleaned(event.label, cleaned.broker).get(partition)
            except CheckpointError as error:
                yield str(error)
                return
            if said is None or said < cleaned.cleaned_until:
                yield (
                    f"broker {cleaned.broker}'s log of {partition.name} was seen "
                    f"to be cleaned up to {cleaned.cleaned_until}; snapshot {event.label!r} has "
                    f"{said}"
                )
            return
