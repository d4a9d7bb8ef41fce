"""Behaviour that the model does not follow, by release, and where it can have mattered in a run.

`checkers.model.releases.rule.Rule.followed` says which they are: "always" is predicted as if every
release had it, "never" as if none had. Each has an entry here: what must have happened for it to
matter, or that nothing compared depends on it.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kchaos.checkers.acts import LoseFile, LoseTail, StaleRequest, StartBroker, TopicPartition
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.links import LinkMessage, partition_details
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.follow import observations
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.events import TopicCreated, TopicDeleted
from kchaos.checkers.observations import Act

_CERTAIN = ("ClientAnswered", "HighWatermarkObserved")
"""Observations that no such rule explains, and then what rules compare with the prediction."""
_STOPPED = re.compile(r"stopped fetcher for partitions (\S+) and stopped moving logs")
_CERTAIN_WHAT = ("produce", "high-watermark", "high-watermark-observed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a rule that is not followed can have mattered.

    Attributes:
        since: From when on, in seconds since 1970.
        partitions: Of which; empty for all.
    """

    since: float
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotModelled:
    """A rule that is not followed, and where it may be why a run is not as predicted.

    Attributes:
        why: What may be why, and whom it is about.
        places: In no order.
    """

    why: str
    places: tuple[Reach, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        return f"the run is not as predicted, and {self.why}"

    def covers(self, finding: Finding, evidence: RunEvidence) -> bool:
        """Return whether it may be why the finding is there.

        Never is a high watermark, in an answer or in a checkpoint, or an acknowledgement that
        cannot be. What was seen before it can have mattered has another reason, and so has what is
        about another partition.
        """
        if _is_certain(finding):
            return False
        named = _partitions_of(finding, evidence)
        time = _time_of(finding, evidence)
        return any(
            place.since <= time
            and (not named or not place.partitions or not named.isdisjoint(place.partitions))
            for place in self.places
        )


def _is_certain(finding: Finding) -> bool:
    told = finding.evidence
    is_of_high_watermark = "high watermark" in str(told.get("reason", ""))
    return (
        is_of_high_watermark
        or (told.get("what") == "observation" and told.get("kind") in _CERTAIN)
        or told.get("what") in _CERTAIN_WHAT
    )


def _partitions_of(finding: Finding, evidence: RunEvidence) -> set[TopicPartition]:
    """Return the partitions that a finding is about; none where it does not say."""
    if finding.topic:
        return {TopicPartition(finding.topic, finding.partition)}
    words = {word.strip(",;:") for word in finding.message.split()}
    return {partition for partition in evidence.partitions if partition.name in words}


def _time_of(finding: Finding, evidence: RunEvidence) -> float:
    """Return when it was seen, in seconds since 1970; infinity where no message shows it."""
    source = finding.evidence.get("source")
    times = (message.wall_time_s for message in evidence.links or () if message.read_at == source)
    return next(times, math.inf)


Matters = Callable[[RunEvidence], Iterator[Reach]]


def not_modelled(evidence: RunEvidence) -> Iterator[NotModelled]:
    """Yield each rule that the model does not follow and that may explain a difference.

    Besides, who may have been shut down by its controller because of a late request, whose log
    directory failed after a move, and which topic was made again where that matters.
    """
    starts = (timed.event for timed in evidence.events if isinstance(timed.event, StartBroker))
    releases = {start.release for start in starts}
    for rule in EVERY_RULE:
        matters = MATTERS.get(rule.name)
        there = sorted(release for release in releases if _is_unlike(rule, release))
        places = tuple(matters(evidence)) if matters is not None and there else ()
        if places:
            how = "after" if rule.followed == "always" else "before"
            yield NotModelled(
                why=f"{rule.name} may be why: {', '.join(there)} is "
                f"predicted as it is {how} that change (kchaos versions)",
                places=places,
            )

    for broker, places in _together(_asked_to_shut_down(evidence)):
        yield NotModelled(
            why="a late ControlledShutdown may be why: without links "
            f"nobody sees the requests that the controller sends to broker {broker} because of it",
            places=places,
        )
    for file, places in _together(_lost_files(evidence)):
        yield NotModelled(
            why=f"LoseFile may be why: what a broker makes of the loss of {file} is not followed",
            places=places,
        )
    for broker, places in _together(_failed_after_move(evidence)):
        yield NotModelled(
            why=f"a move between log directories may be why: broker {broker} noted a leader epoch "
            "in the directory before, which failed with its other replicas, which is not followed",
            places=places,
        )
    for topic, places in _together(_made_again(evidence, releases)):
        yield NotModelled(
            why=f"KAFKA-9198 may be why: topic {topic} was made "
            "again, and an append may fail while a Fetch from before waits, which is not followed",
            places=places,
        )


_K = TypeVar("_K")


def _together(places: Iterable[tuple[_K, Reach]]) -> Iterator[tuple[_K, tuple[Reach, ...]]]:
    collected: dict[_K, list[Reach]] = {}
    for key, place in places:
        collected.setdefault(key, []).append(place)
    for key, of_key in collected.items():
        yield key, tuple(of_key)


def _asked_to_shut_down(evidence: RunEvidence) -> Iterator[tuple[int, Reach]]:
    """Yield brokers whose late ControlledShutdown came without the controller's StopReplica.

    It is not predicted, nor that the controller tells such a broker no later leader epoch
    (KafkaController.doControlledShutdown and ReplicaStateMachine, 2.1.1).
    """
    if any(isinstance(message.said, observations.ControlSent) for message in evidence.links or ()):
        return
    for timed in evidence.events:
        late = timed.event
        if isinstance(late, StaleRequest) and late.api == "ControlledShutdown":
            yield late.broker, Reach(since=_begin(timed))


def _lost_files(evidence: RunEvidence) -> Iterator[tuple[str, Reach]]:
    for line, begun in lines_of(evidence.observed, Act):
        if isinstance(begun.act, LoseFile):
            yield begun.act.file, Reach(since=line.time)


def _failed_after_move(evidence: RunEvidence) -> Iterator[tuple[int, Reach]]:
    """Yield each broker that failed a log directory from which it had moved a replica.

    The replica's next election writes its epoch there, and the other replicas of that directory go
    offline (CheckpointFile.write and ReplicaManager.handleLogDirFailure, 2.0.1 and 2.1.0).
    """
    for time, moved in evidence.moved_replicas:
        log = "\n".join(evidence.server_logs[moved.broker])
        written = f"/{moved.partition.name}/leader-epoch-checkpoint"
        found = _STOPPED.findall(log.partition(f"{written} (kafka.server.LogDirFailureChannel)")[2])
        named = {topic_partition(name) for names in found for name in names.split(",")}
        offline = frozenset(
            TopicPartition(*each) for each in named if each and not is_internal(each[0])
        )
        if offline:
            yield moved.broker, Reach(since=time, partitions=offline)


def _made_again(evidence: RunEvidence, releases: Collection[str]) -> Iterator[tuple[str, Reach]]:
    """Yield each recreated topic of which a broker may still handle an earlier Fetch.

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
                yield topic, Reach(since=_begin(timed))


def _begin(timed: TimedEvent) -> float:
    return timed.time if timed.began is None else timed.began


def _fails_on_waiting_fetch(release: str) -> bool:
    try:
        return generation_for(release).fails_on_waiting_fetch
    except ModelError:
        return False  # The model says what is wrong with it.


def _is_unlike(rule: Rule, release: str) -> bool:
    if rule.followed not in ("always", "never"):
        return False
    return (release in rule.releases.released()) is (rule.followed == "never")


def _diverged(evidence: RunEvidence) -> Iterator[Reach]:
    for message in evidence.links or ():
        if isinstance(message.said, observations.ResponseSeen) and message.said.api == "Fetch":
            for partition, said in message.said.partitions.items():
                if isinstance(said, observations.FetchAnswered) and said.diverging is not None:
                    yield _at(message, partition)


def _isr_answered_twice(evidence: RunEvidence) -> Iterator[Reach]:
    known: dict[object, tuple[int, ...]] = {}
    for message in evidence.links or ():
        if isinstance(message.said, observations.IsrAnswered):
            for partition, isr in message.said.isrs.items():
                if known.get((message.said.leader, partition)) == isr:
                    yield _at(message, partition)
                known[message.said.leader, partition] = isr


def _older_partition_epoch(evidence: RunEvidence) -> Iterator[Reach]:
    known: dict[object, int] = {}
    for message in _of(evidence, "LeaderAndIsr", "request"):
        for partition, entry in partition_details(message):
            epoch = int(entry.get("partition_epoch", -1))
            if epoch < known.get((message.target, partition), -1):
                yield _at(message, partition)
            known[message.target, partition] = epoch


def _at(message: LinkMessage, partition: TopicPartition) -> Reach:
    return Reach(since=message.wall_time_s, partitions=frozenset({partition}))


def _of(evidence: RunEvidence, api: str, direction: str) -> Iterator[LinkMessage]:
    for message in evidence.links or ():
        if (message.api, message.direction) == (api, direction):
            yield message


def _lost_a_tail_of_what_is_deleted(evidence: RunEvidence) -> Iterator[Reach]:
    for timed in evidence.events:
        lost = timed.event
        if isinstance(lost, LoseTail) and evidence.settings.may_delete(lost.topic):
            partition = TopicPartition(lost.topic, lost.partition)
            yield Reach(since=_begin(timed), partitions=frozenset({partition}))


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
}
"""By rule where it can have mattered; None where nothing that is compared depends on it."""
