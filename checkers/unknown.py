"""Reasons why an answer is unknown: each with its sentence, its cause, and what it leaves open.

`SEALED` and `RULES` have every reason that the evidence and the prediction of a run can give.
Whatever fails while a run is judged is a `Reason` as well.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from kchaos.checkers.acts import Hold, StartBroker, TopicPartition
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.excuses import excuses
from kchaos.checkers.evidence.given_settings import given_settings
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.formats.api_keys import FOLLOWED
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.releases.status import status
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.not_modelled import not_modelled
from kchaos.checkers.rules.compacted import IN_DOUBT
from kchaos.checkers.rules.foreign import FOREIGN
from kchaos.checkers.rules.out_of_sync import out_of_sync
from kchaos.checkers.rules.two_controllers import two_controllers
from kchaos.checkers.settings import not_followed

_MOST_SHOWN = 5


class Cause(Enum):
    """The three kinds of unknown."""

    EVIDENCE = "evidence is missing or contradicts itself"
    NOT_FOLLOWED = "the model does not follow something"
    BOUND = "the model found no explanation within its bound"


class Denied(Enum):
    """Findings that answer a question with no, whatever leaves it open."""

    NEVER = "nothing that was seen can be relied upon"
    WITHOUT_END = "by findings that need no cluster at rest"
    ALWAYS = "by every finding: only yes is excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a question cannot be answered.

    Attributes:
        sentence: For people.
        cause: Which kind of unknown it is.
        opens: The questions that it leaves open.
        denied: Which findings answer them all the same.
        partitions: The partitions that it can touch; empty for all.
    """

    sentence: str
    cause: Cause
    opens: frozenset[Question]
    denied: Denied = Denied.NEVER
    partitions: frozenset[TopicPartition] = frozenset()

    def lets_stand(self, finding: Finding) -> bool:
        """Return whether the finding answers its question in spite of this reason."""
        if finding.question not in self.opens or self.denied is Denied.ALWAYS:
            return True
        return self.denied is Denied.WITHOUT_END and not KINDS[finding.kind].needs_end


BOTH = frozenset({Question.SAFETY, Question.CONFORMANCE})
SAFETY = frozenset({Question.SAFETY})
CONFORMANCE = frozenset({Question.CONFORMANCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A run while it is judged: its evidence, what was predicted of it and what the rules found.

    Attributes:
        deleted: Partitions of which others deleted something, each with a sentence.
    """

    evidence: RunEvidence
    prediction: Prediction | None
    findings: Sequence[Finding]
    deleted: Sequence[tuple[TopicPartition, str]] = ()


Sentences = Callable[[Judgement], Iterator[str]]
Rules = Sequence[tuple[Sentences, Cause, frozenset[Question], Denied]]


def reasons(judgement: Judgement, rules: Rules) -> Iterator[Reason]:
    """Yield every reason that the run gives, in the order of the rules."""
    for sentences, cause, opens, denied in rules:
        if opens == CONFORMANCE and not judgement.evidence.is_predicted:
            continue  # Nothing is predicted there: `verdict.why_not_predicted`.
        for sentence in sentences(judgement):
            yield Reason(sentence=sentence, cause=cause, opens=opens, denied=denied)


# What keeps the evidence as a whole from being trusted.


def broken_seal(judgement: Judgement) -> Iterator[str]:
    """Yield what is wrong with the seal."""
    yield from judgement.evidence.files.broken_seal()


def not_finished(judgement: Judgement) -> Iterator[str]:
    """Yield why nothing that was seen can be relied upon."""
    outcome = judgement.evidence.outcome
    if outcome.unknown:
        yield outcome.unknown
    elif not outcome.finished and not outcome.ended_early:
        yield "the run did not finish: outcome.json does not say that it did"


def ended_early(judgement: Judgement) -> Iterator[str]:
    """Yield why the steps of a run that was healed and settled did not come to their end."""
    outcome = judgement.evidence.outcome
    if outcome.ended_early and outcome.settle is not None:
        yield outcome.ended_early


def never_settled(judgement: Judgement) -> Iterator[str]:
    """Yield why a run that ended early did not settle."""
    outcome = judgement.evidence.outcome
    if outcome.ended_early and outcome.settle is None:
        yield outcome.ended_early


def nothing_acknowledged(judgement: Judgement) -> Iterator[str]:
    """Yield that no write can have been lost. A probe is written after all faults."""
    if not any(
        operation.function == "produce" and not operation.is_probe and operation.outcome == "ok"
        for operation in judgement.evidence.operations
    ):
        yield "no write of the scenario was acknowledged, so this run cannot show a loss"


def planted_bug_never_acted(judgement: Judgement) -> Iterator[str]:
    """Yield each planted bug whose rule changed nothing: the run is one of Kafka without it."""
    evidence = judgement.evidence
    acted = {hit.point for hit in evidence.hits}
    for name in evidence.planted:
        if name not in acted:
            yield f"{name} never acted: the schedule gave it no occasion, or its rule does not hold"


def no_final_snapshot(judgement: Judgement) -> Iterator[str]:
    """Yield that nobody copied the replicas at the end."""
    if not any(snapshot.is_final for snapshot in judgement.evidence.snapshots):
        yield "there is no snapshot of the end"


def moving_files(judgement: Judgement) -> Iterator[str]:
    """Yield each broker whose files changed while they were copied."""
    for snapshot in judgement.evidence.snapshots:
        for broker, copied in snapshot.brokers.items():
            if not copied.stable:
                yield f"snapshot {snapshot.label}: broker {broker}'s files never stood still"


# What safety alone needs.


def no_settle_record(judgement: Judgement) -> Iterator[str]:
    """Yield that nobody looked whether replication goes on."""
    outcome = judgement.evidence.outcome
    if outcome.finished and outcome.settle is None:
        yield "outcome.json has no settle record: whether replication goes on is unknown"


def probe_refused(judgement: Judgement) -> Iterator[str]:
    """Yield each partition that took no record of settling's, for what those are."""
    probes: dict[TopicPartition, list[Operation]] = {}
    for operation in judgement.evidence.client_operations:
        if operation.is_probe:
            partition = TopicPartition(operation.topic, operation.partition)
            probes.setdefault(partition, []).append(operation)
    for partition, written in sorted(probes.items()):
        last = written[-1]
        if last.is_refused_probe and not any(probe.outcome == "ok" for probe in written):
            yield (
                f"{partition.name} takes no probe record ({last.error}): whether replication goes "
                "on there is unknown. Its settings, quotas or ACLs refuse what settling writes"
            )


def sizes_not_followed(judgement: Judgement) -> Iterator[str]:
    """Yield each write that a segment has no room for, which the model cannot tell."""
    for operation in judgement.evidence.client_operations:
        if operation.error_code == ErrorCode.RECORD_LIST_TOO_LARGE and not operation.is_probe:
            yield (
                f"produce {operation.operation} is larger than a segment of {operation.topic} may "
                "be, and the model does not know how large batches are"
            )


def tier_not_predicted(judgement: Judgement) -> Iterator[str]:
    """Yield each reading of a tiered log that the model says nothing about."""
    evidence, prediction = judgement.evidence, judgement.prediction
    if not evidence.is_tiered:
        return
    predicted = set() if prediction is None else {read.operation for read in prediction.reads}
    for reading in evidence.tier_readings:
        if reading.operation not in predicted:
            yield f"the model does not say what reading {reading.operation} should have got"


def tier_not_read(judgement: Judgement) -> Iterator[str]:
    """Yield from which possible leaders nobody read at the end: the leader, and who is in sync."""
    evidence = judgement.evidence
    ended = len(evidence.scenario.steps)
    read = {
        (reading.topic, reading.partition, reading.broker)
        for reading in evidence.tier_readings
        if reading.step >= ended
    }
    tiered = [
        partition
        for partition in evidence.partitions
        if evidence.settings.is_tiered_topic(partition.topic)
    ]
    for last in (snapshot for snapshot in evidence.snapshots if snapshot.is_final):
        for partition in tiered:
            log = f"the tiered log of {partition.name}"
            state = last.state(partition)
            if state is None or state.leader < 0:
                yield f"nobody has read {log}, which has no leader"
                continue
            for broker in sorted({*state.isr, state.leader}):
                copied = last.brokers.get(broker)
                is_gone = copied is not None and copied.is_running is False
                if (*partition, broker) not in read and not is_gone:
                    yield f"nobody has read {log} from broker {broker} at the end"


def remote_deletions_not_judged(judgement: Judgement) -> Iterator[str]:
    """Yield the logs of which nobody can tell whether remote segments went too early.

    Elsewhere `rules.remote_retention` says so of each.
    """
    evidence = judgement.evidence
    events = evidence.remote_events if evidence.is_tiered else ()
    for partition in sorted({event.partition for event in events if not event.is_copy}):
        if any(True for _ in excuses(evidence, partition)):
            yield (
                f"segments of {partition.name} were deleted from the remote tier, and an unclean "
                "election, a disk or a deletion may have taken its records before"
            )


def machine_stood_still(judgement: Judgement) -> Iterator[str]:
    """Yield what took longer than its bound only because the machine let nothing run."""
    evidence = judgement.evidence
    for finding, stood in (*out_of_sync(evidence), *two_controllers(evidence)):
        if stood:
            yield f"{finding.message}, for {stood:.1f} s of which the machine stood still"


# What conformance alone needs.


def no_decisions(judgement: Judgement) -> Iterator[str]:
    """Yield that the log of ZooKeeper's transactions is missing."""
    evidence = judgement.evidence
    if not evidence.is_kraft and not any(evidence.run.path.glob("zookeeper/member-*/log.*")):
        yield "there is no transaction log of ZooKeeper: what was decided is not known"


def no_messages(judgement: Judgement) -> Iterator[str]:
    """Yield that messages between brokers are missing."""
    evidence = judgement.evidence
    if evidence.is_linked and evidence.rounds is None:
        yield (
            "links.jsonl is missing although the cluster was linked: which questions for leader "
            "epochs were asked is unknown"
        )


def settings_not_followed(judgement: Judgement) -> Iterator[str]:
    """Yield each setting with which brokers may do what the model does not follow."""
    for given in dict.fromkeys(given_settings(judgement.evidence)):
        why = not_followed(
            given.name, given.value, is_tiered=given.is_tiered, while_it_ran=given.while_it_ran
        )
        if why:
            yield (
                f"{given.owner} was given {given.name}={given.value}, which the model does not "
                f"follow: {why}"
            )


def rules_not_compared(judgement: Judgement) -> Iterator[str]:
    """Yield why a run that is not as predicted may be what its release does all the same."""
    unlike = [each for each in judgement.findings if each.question is Question.CONFORMANCE]
    if not unlike:
        return
    evidence = judgement.evidence
    starts = (timed.event for timed in evidence.events if isinstance(timed.event, StartBroker))
    for release in sorted({start.release for start in starts}):
        if not status(release).compared:
            yield (
                f"the run is not as predicted, but nobody compared the source of {release} with "
                "the model's rules. kchaos versions shows of which releases that was done"
            )
    excuses = [*not_modelled(evidence)]
    if all(any(excuse.covers(each, evidence) for excuse in excuses) for each in unlike):
        for excuse in excuses:
            if any(excuse.covers(each, evidence) for each in unlike):
                yield excuse.sentence


def topics_not_followed(judgement: Judgement) -> Iterator[str]:
    """Yield why topics are not counted, and first how many partitions conform without them."""
    evidence, prediction = judgement.evidence, judgement.prediction
    left_out = evidence.topics_left_out
    others = [each for each in evidence.partitions if each.topic not in left_out]
    unlike = any(each.question is Question.CONFORMANCE for each in judgement.findings)
    is_followed = prediction is not None and bool(prediction.states) and not prediction.limit
    if left_out and others and is_followed and not unlike:
        yield (
            f"{len(others)} of {len(evidence.partitions)} partitions conform; not counted: "
            f"{', '.join(sorted(left_out))}"
        )
    yield from [why for _, whys in sorted(left_out.items()) for why in whys][:_MOST_SHOWN]


def perhaps_by_others(judgement: Judgement) -> Iterator[str]:
    """Yield that clients of others may be why no state explains an observation."""
    evidence, prediction = judgement.evidence, judgement.prediction
    is_unexplained = prediction is not None and prediction.emptied_by is not None
    if evidence.clients is not None:
        return
    if evidence.is_open_to_others and is_unexplained:
        yield (
            "somebody was given the cluster's addresses, and what no state explains may come of "
            "their writes"
        )


def search_gave_up(judgement: Judgement) -> Iterator[str]:
    """Yield the bound that ended the search."""
    if judgement.prediction is not None and judgement.prediction.limit:
        yield f"the model gave up following the run: {judgement.prediction.limit}"


def holds_not_followed(judgement: Judgement) -> Iterator[str]:
    """Yield each kind of request that was held although the model has none of it."""
    if judgement.prediction is None:
        return
    acts = judgement.evidence.actions
    held = {timed.event.api for timed in acts if isinstance(timed.event, Hold)}
    for api in sorted(held - FOLLOWED):
        yield f"requests of {api} were held, which the model does not follow"


def deletions_without_links(judgement: Judgement) -> Iterator[str]:
    """Yield each topic whose brokers deleted records at a time that nothing shows."""
    evidence, prediction = judgement.evidence, judgement.prediction
    if prediction is None or prediction.states or evidence.is_tiered:
        return
    for topic in sorted({partition.topic for partition in evidence.partitions}):
        if evidence.settings.retains_less(topic):
            yield (
                f"brokers may delete records of {topic}, and without links nobody knows when "
                "they did: have links, or keep what is written"
            )


def snapshots_not_predicted(judgement: Judgement) -> Iterator[str]:
    """Yield each snapshot of which actions.jsonl has no act."""
    if judgement.prediction is None:
        return
    for snapshot in judgement.evidence.snapshots:
        if snapshot.label not in judgement.prediction.snapshots:
            yield (
                f"the model does not have snapshot {snapshot.label!r}: actions.jsonl lacks "
                "its Snapshot"
            )


# What others did beside the scenario.


def foreign_writes(judgement: Judgement) -> Iterator[str]:
    """Yield what others wrote, or else deleted."""
    for finding in judgement.findings:
        if finding.kind == FOREIGN:
            yield (
                f"{finding.message}: what was acknowledged to them may be lost, and the model "
                "cannot predict what they did. Write by steps alone, or judge a run without them"
            )
    yield from dict.fromkeys(sentence for _, sentence in judgement.deleted)


def keys_in_doubt(judgement: Judgement) -> Iterator[str]:
    """Yield each range of records that a log cleaner may have removed, or that is lost."""
    found = (finding for finding in judgement.findings if finding.kind == IN_DOUBT)
    yield from itertools.islice(dict.fromkeys(finding.message for finding in found), _MOST_SHOWN)


def deleted_by_others(evidence: RunEvidence) -> Iterator[tuple[TopicPartition, str]]:
    """Yield partitions of which others deleted something, each with a sentence."""
    names = {
        TopicPartition(timed.event.topic, number)
        for timed in evidence.events
        if isinstance(timed.event, TopicCreated)
        for number in range(len(timed.event.assignment))
    }
    for partition in sorted(names):
        for deletion in evidence.deletions.get(partition.topic, ()):
            # A deletion excuses the loss of records that were acknowledged before. Without a
            # prediction nothing else matters.
            is_followed = evidence.is_kraft or (evidence.is_linked and not evidence.is_tiered)
            if deletion.time < math.inf and is_followed:
                continue
            what = "is to be deleted" if deletion.time == math.inf else "was deleted"
            what += "" if deletion.is_gone or deletion.time == math.inf else " and made again"
            yield (
                partition,
                f"topic {partition.topic} {what} ({evidence.positions} {deletion.zxid}): the model "
                "does not follow that",
            )
        offset = evidence.deleted_until.get(partition)
        if offset and not evidence.settings.may_delete(partition.topic):
            yield (
                partition,
                f"a client had the records of {partition.name} below offset "
                f"{offset} deleted (DeleteRecords): the model does not follow that",
            )


def lost_without_trace(judgement: Judgement) -> Iterator[str]:
    """Yield where a client that was given the addresses may have lost what nothing shows.

    What is acknowledged with acks=all while followers are in sync passes a link. What only one
    replica had is on its disk at the end, unless an unclean election or a fault took it. The model
    does not follow writes of which a test says it: these are compared with the links alone.
    """
    evidence, prediction = judgement.evidence, judgement.prediction
    is_seen = evidence.clients is not None and not (evidence.said_alone and evidence.clients.unseen)
    if not evidence.is_open_to_others or is_seen or any(foreign_writes(judgement)):
        return
    given = "somebody was given the cluster's addresses, and"
    is_followed = prediction is not None and prediction.states and not prediction.limit
    if evidence.said_alone:
        is_followed = evidence.links is not None
    if not is_followed:
        yield f"{given} without links that were followed nobody knows what they wrote and lost"
        return
    for partition in evidence.partitions:
        taken = (
            excuse for excuse in excuses(evidence, partition) if excuse.kind != "topic-deletion"
        )
        for excuse in itertools.islice(taken, 1):
            what = excuse.kind.replace("-", " ")
            yield (
                f"{given} what they wrote to {partition.name}, if anything, may be "
                f"gone without a trace: {what} of broker {excuse.broker}"
            )


def promises_not_read(judgement: Judgement) -> Iterator[str]:
    """Yield what links in front of brokers could not read of what clients were promised.

    Where a test says it in place of the links, `lost_without_trace` has the rest.
    """
    evidence = judgement.evidence
    if evidence.clients is None:
        return
    if not evidence.files.has(CLIENTS):
        yield f"{CLIENTS} is missing although links were to record what clients did"
    if not evidence.said_alone:
        yield from not_read_by_links(evidence)


def not_read_by_links(evidence: RunEvidence) -> Iterator[str]:
    """Yield the first messages of clients that links could not read."""
    unseen = () if evidence.clients is None else evidence.clients.unseen
    for sentence in itertools.islice(unseen, _MOST_SHOWN):
        yield f"{sentence}: what was promised there may be lost"


SEALED: Rules = (
    (broken_seal, Cause.EVIDENCE, BOTH, Denied.NEVER),
    (not_finished, Cause.EVIDENCE, BOTH, Denied.NEVER),
    (ended_early, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
    (never_settled, Cause.EVIDENCE, SAFETY, Denied.WITHOUT_END),
    (ended_early, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
    (never_settled, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
)
"""Reasons of a run whose evidence cannot be read, as of any other."""
RULES: Rules = (
    (nothing_acknowledged, Cause.EVIDENCE, BOTH, Denied.NEVER),
    (planted_bug_never_acted, Cause.EVIDENCE, BOTH, Denied.ALWAYS),
    (no_final_snapshot, Cause.EVIDENCE, SAFETY, Denied.WITHOUT_END),
    (no_final_snapshot, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
    (moving_files, Cause.EVIDENCE, BOTH, Denied.NEVER),
    (no_settle_record, Cause.EVIDENCE, SAFETY, Denied.NEVER),
    (tier_not_predicted, Cause.NOT_FOLLOWED, SAFETY, Denied.NEVER),
    (tier_not_read, Cause.EVIDENCE, SAFETY, Denied.NEVER),
    (remote_deletions_not_judged, Cause.NOT_FOLLOWED, SAFETY, Denied.NEVER),
    (no_decisions, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
    (no_messages, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
    (settings_not_followed, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (rules_not_compared, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (sizes_not_followed, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (foreign_writes, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (topics_not_followed, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.ALWAYS),
    (perhaps_by_others, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (remote_deletions_not_judged, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (search_gave_up, Cause.BOUND, CONFORMANCE, Denied.NEVER),
    (holds_not_followed, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (deletions_without_links, Cause.NOT_FOLLOWED, CONFORMANCE, Denied.NEVER),
    (snapshots_not_predicted, Cause.EVIDENCE, CONFORMANCE, Denied.NEVER),
    (foreign_writes, Cause.NOT_FOLLOWED, SAFETY, Denied.ALWAYS),
    (keys_in_doubt, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
    (probe_refused, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
    (machine_stood_still, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
    (lost_without_trace, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
    (promises_not_read, Cause.EVIDENCE, SAFETY, Denied.ALWAYS),
)
"""Reasons of a run whose evidence was read."""
