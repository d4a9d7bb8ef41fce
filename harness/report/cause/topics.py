"""Topics of one name in a cause: one that was deleted, and one that was made again."""

from collections.abc import Iterator, Sequence

from kchaos.checkers.model.values.events import BrokerRegistered, BrokerUnregistered, TopicCreated
from kchaos.checkers.outcome import brokers_text
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.cause.wording import acting_text


def made_again(story: Story, brokers: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a deletion of the topic's name, and the absent brokers that kept an old folder.

    Args:
        story: The evidence.
        brokers: Of whom it is told; those that never had a replica of the deleted topic are not.
    """
    if story.deleted is None:
        return
    topic, deleted = story.finding.topic, story.deleted
    acting = acting_text(story, deleted.time)
    away = sorted(set(brokers) & _had_a_replica(story) - _registered(story))
    text = f"Topic {topic} was deleted{acting}. It was made again later."
    if away:
        were = "was" if len(away) == 1 else "were"
        named = brokers_text(away)
        text += (
            f" {named[:1].upper()}{named[1:]} {were} away then, and kept the folder of the deleted "
            "topic."
        )
    yield CauseStep(
        time=deleted.time,
        section="time",
        brokers=tuple(away),
        is_fatal=bool(away) and story.finding.kind == "divergence",
        text=text,
    )


def _had_a_replica(story: Story) -> set[int]:
    """Return the brokers that an earlier topic of that name gave a replica."""
    return {
        broker
        for timed in story.decisions.events
        if isinstance(timed.event, TopicCreated)
        and timed.event.topic == story.finding.topic
        and timed.time < story.since
        for replicas in timed.event.assignment[story.finding.partition :][:1]
        for broker in replicas
    }


def _registered(story: Story) -> set[int]:
    """Return the brokers registered at the topic's deletion."""
    registered: set[int] = set()
    for timed in story.decisions.events:
        if timed.time > story.since:
            break
        if isinstance(timed.event, BrokerRegistered):
            registered.add(timed.event.broker)
        elif isinstance(timed.event, BrokerUnregistered):
            registered.discard(timed.event.broker)
    return registered
