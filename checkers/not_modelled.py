"""Behaviour that the model does not follow, by release, and where it can have mattered in a run.

`checkers.model.releases.rule.Rule.followed` says which they are: "always" is predicted as if every
release had it, "never" as if none had. Each has an entry here: what must have happened for it to
matter, or that nothing compared depends on it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from kchaos.checkers.acts import LoseTail, StaleRequest, StartBroker
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.links import LinkMessage, told_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.follow.observations import (
    ControlSent,
    FetchAnswered,
    IsrAnswered,
    ResponseSeen,
)
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.events import TopicCreated, TopicDeleted

Matters = Callable[[RunEvidence], bool]


def not_modelled(evidence: RunEvidence) -> Iterator[str]:
    """Yields each rule that is not followed and may be why a run is not as predicted.

    Besides, who may have been shut down by its controller because of a late request, and which
    topic was made again where that matters.
    """
    starts = (timed.event for timed in evidence.events if isinstance(timed.event, StartBroker))
    releases = {start.release for start in starts}
    for rule in EVERY_RULE:
        matters = MATTERS.get(rule.name)
        there = sorted(release for release in releases if _is_unlike(rule, release))
        if matters is not None and there and matters(evidence):
            how = "after" if rule.followed == "always" else "before"
            yield (
                f"the run is not as predicted, and {rule.name} may be why: {', '.join(there)} is "
                f"predicted as it is {how} that change (kchaos versions)"
            )

    for broker in dict.fromkeys(_asked_to_shut_down(evidence)):
        yield (
            f"the run is not as predicted, and a late ControlledShutdown may be why: without links "
            f"nobody sees the requests that the controller sends to broker {broker} because of it"
        )
    for topic in dict.fromkeys(_made_again(evidence, releases)):
        yield (
            f"the run is not as predicted, and KAFKA-9198 may be why: topic {topic} was made "
            "again, and an append may fail while a Fetch from before waits, which is not followed"
        )


def _asked_to_shut_down(evidence: RunEvidence) -> Iterator[int]:
    """Yields whose late ControlledShutdown came where no link shows the controller's StopReplica.

    It is not predicted, nor that the controller tells such a broker no later leader epoch
    (KafkaController.doControlledShutdown and ReplicaStateMachine, 2.1.1).
    """
    if any(isinstance(message.said, ControlSent) for message in evidence.links or ()):
        return
    for timed in evidence.events:
        late = timed.event
        if isinstance(late, StaleRequest) and late.api == "ControlledShutdown":
            yield late.broker


def _made_again(evidence: RunEvidence, releases: Collection[str]) -> Iterator[str]:
    """Yields each topic that was made again where a broker may look at a Fetch from before.

    It does so in an append too, whose partition then fails, and not where another partition of that
    Fetch ends it first (Partition.appendRecordsToLeader and DelayedFetch.tryComplete, 2.1.1 and
    2.3.1). Neither is followed.
    """
    if not any(map(_fails_on_waiting_fetch, releases)):
        return
    deleted: set[str] = set()
    for timed in evidence.events:
        match timed.event:
            case TopicDeleted(topic=topic):
                deleted.add(topic)
            case TopicCreated(topic=topic) if topic in deleted:
                yield topic


def _fails_on_waiting_fetch(release: str) -> bool:
    try:
        return generation_for(release).fails_on_waiting_fetch
    except ModelError:
        return False  # The model says what is wrong with it.


def _is_unlike(rule: Rule, release: str) -> bool:
    if rule.followed not in ("always", "never"):
        return False
    return (release in rule.releases.released()) is (rule.followed == "never")


def _answers(evidence: RunEvidence) -> Iterator[FetchAnswered]:
    for message in evidence.links or ():
        if isinstance(message.said, ResponseSeen) and message.said.api == "Fetch":
            for said in message.said.partitions.values():
                if isinstance(said, FetchAnswered):
                    yield said


def _diverged(evidence: RunEvidence) -> bool:
    return any(said.diverging is not None for said in _answers(evidence))


def _isr_answered_twice(evidence: RunEvidence) -> bool:
    known: dict[object, tuple[int, ...]] = {}
    for message in evidence.links or ():
        if isinstance(message.said, IsrAnswered):
            for partition, isr in message.said.isrs.items():
                if known.get((message.said.leader, partition)) == isr:
                    return True
                known[message.said.leader, partition] = isr
    return False


def _isr_refused(evidence: RunEvidence) -> bool:
    return any(
        bool((message.detail or {}).get("error_code"))
        or any(entry.get("error_code") for _, entry in told_of(message))
        for message in _of(evidence, "AlterPartition", "response")
    )


def _older_partition_epoch(evidence: RunEvidence) -> bool:
    known: dict[object, int] = {}
    for message in _of(evidence, "LeaderAndIsr", "request"):
        for partition, entry in told_of(message):
            epoch = int(entry.get("partition_epoch", -1))
            if epoch < known.get((message.target, partition), -1):
                return True
            known[message.target, partition] = epoch
    return False


def _of(evidence: RunEvidence, api: str, direction: str) -> Iterator[LinkMessage]:
    for message in evidence.links or ():
        if (message.api, message.direction) == (api, direction):
            yield message


def _lost_a_tail_of_what_is_deleted(evidence: RunEvidence) -> bool:
    return any(
        isinstance(timed.event, LoseTail) and evidence.may_delete(timed.event.topic)
        for timed in evidence.events
    )


MATTERS: Mapping[str, Matters | None] = {
    # Every release has them.
    "controller epochs": None,
    "leader alive in the metadata cache": None,
    # They are about what consumers are answered, which is not predicted.
    "KIP-207": None,
    "KAFKA-9835": None,
    "KAFKA-8306": _lost_a_tail_of_what_is_deleted,
    "KAFKA-12751": _isr_answered_twice,
    "KAFKA-13207": _diverged,
    "KAFKA-13790": _older_partition_epoch,
    "KAFKA-14010": _isr_refused,
}
"""By rule what must have happened for it to matter; None where nothing that is compared depends."""
