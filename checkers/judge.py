"""The judge: from a run directory alone to results, and to a judgement beside the evidence."""

import itertools
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from typing import Any, TypeVar

from kchaos.checkers.acts import Hold, StartBroker, TopicPartition
from kchaos.checkers.availability import Availability, bounds_not_measured, bounds_of, measure
from kchaos.checkers.cross_checks import disagreements
from kchaos.checkers.errors import CheckError, ModelError
from kchaos.checkers.evidence.about import SCENARIO, Outcome
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.given_settings import given_settings
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.run import DELETING, RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.fingerprint import with_fingerprints
from kchaos.checkers.formats.api_keys import FOLLOWED
from kchaos.checkers.garbage import no_garbage_collection
from kchaos.checkers.model.releases.status import status
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.model.values.prediction import EmptiedBy, Prediction
from kchaos.checkers.not_modelled import not_modelled
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import Results
from kchaos.checkers.rules import Judged, apply_rules, joined
from kchaos.checkers.rules.as_sent import NOT_COMPARED
from kchaos.checkers.rules.available import unavailable
from kchaos.checkers.rules.client_anomalies import client_anomalies, not_known
from kchaos.checkers.rules.demoted import acknowledged_after_demotion
from kchaos.checkers.rules.echoes import with_consequences
from kchaos.checkers.rules.fenced import elected_while_fenced
from kchaos.checkers.rules.foreign import FOREIGN, foreign_at_links, told_once
from kchaos.checkers.rules.ghosts import ghosts
from kchaos.checkers.rules.logged import logged_errors
from kchaos.checkers.rules.out_of_sync import out_of_sync
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.settings import not_followed
from kchaos.checkers.verdict import NOT_PREDICTED, Unknown, Verdict, find_witnesses, verdict
from kchaos.checkers.witness import Witness

_T = TypeVar("_T")
Predict = Callable[[RunEvidence], Prediction]
_MOST_SAID = 5
_FROM_RUN = ("entry", "case", "release", "driver", "seed")
Rules = Callable[[RunEvidence, Prediction | None], Judged]


@no_garbage_collection()
def judge(
    run: RunDirectory, *, predict: Predict = predict_run, rules: Rules | None = None
) -> Results:
    """Judges one run; reads only.

    A run that is not sealed, whose evidence is damaged, that did not finish or in which nothing was
    acknowledged is unknown, and so is one over which a checker fails: then `crashes` has the
    traceback. What was found all the same is listed.

    Args:
        predict: The model.
        rules: What stands in for `rules_of`, where the rules were applied elsewhere already.

    Raises:
        RunDirectoryError: There is no readable run.json or scenario.json.
    """
    evidence = RunEvidence(run)
    _ = evidence.description, evidence.scenario
    judging = _Judging(evidence)
    read = judging.attempt("reading the evidence", evidence.read)
    prediction, judged = None, None
    if read is not None:
        if not read.is_kraft:
            prediction = judging.attempt("the model", lambda: predict(read), only_conformance=True)
        apply = rules or rules_of
        judged = judging.attempt("the rules", lambda: apply(read, prediction))
    return judging.results(read, prediction, judged or Judged())


def rules_of(evidence: RunEvidence, prediction: Prediction | None) -> Judged:
    """Findings of the rules for one run: every partition, every snapshot, the run as a whole."""
    parts = [apply_rules(partition) for partition in run_evidence(evidence, prediction)]
    return joined([*parts, Judged(findings=tuple(about_the_run(evidence, prediction)))])


def about_the_run(evidence: RunEvidence, prediction: Prediction | None) -> Iterable[Finding]:
    """Yields a finding for what is forbidden and no partition's evidence has.

    These are decisions that their writers could not take, directories of partitions that nobody
    made, what others wrote, what their clients were told against Kafka's promises, longer times
    without service than the scenario allows, the observation that no possible state explains,
    decisions about brokers, and high watermarks observed where no replica should be.
    """
    if evidence.is_kraft:
        yield from elected_while_fenced(evidence)
        yield from acknowledged_after_demotion(evidence)
    yield from ghosts(evidence)
    yield from logged_errors(evidence)
    yield from out_of_sync(evidence)
    yield from foreign_at_links(evidence)
    yield from unavailable(evidence)
    yield from client_anomalies(evidence)
    if prediction is not None and prediction.emptied_by is not None:
        yield _emptied(prediction.emptied_by)
    for decision in prediction.unexplained if prediction is not None else ():
        yield Finding(
            kind="decision-not-allowed",
            topic=decision.topic,
            partition=decision.partition,
            message=f"zxid {decision.zxid}: {decision.reason}",
            evidence={
                "zxid": decision.zxid,
                "written_by": decision.written_by,
                "isr": list(decision.isr),
            },
        )
    for disallowed in prediction.disallowed if prediction is not None else ():
        if disallowed.decision.get("partition") is None:
            yield Finding(
                kind="decision-not-allowed",
                message=f"{disallowed.decision.get('event', 'a decision')}: {disallowed.reason}",
                evidence={"index": disallowed.index, "decision": dict(disallowed.decision)},
            )
    for seen in prediction.impossible if prediction is not None else ():
        if not seen.allowed:
            yield Finding(
                kind="not-as-predicted",
                topic=seen.topic,
                partition=seen.partition,
                brokers=(seen.broker,),
                message=f"broker {seen.broker}: a high watermark of {seen.topic}-{seen.partition} "
                f"was seen at {seen.high_watermark}; predicted was no such replica",
                evidence={"what": "high-watermark-observed", "index": seen.index},
            )


def _emptied(by: EmptiedBy) -> Finding:
    is_decision = by.source.startswith("zxid")
    return Finding(
        kind="decision-not-allowed" if is_decision else "not-as-predicted",
        message=f"{by.source}: {by.why}",
        evidence={"what": "observation", "kind": by.what, "source": by.source},
    )


class _Judging:
    """Collects what went wrong while one run is judged."""

    def __init__(self, evidence: RunEvidence) -> None:
        self._evidence = evidence
        self._crashes: list[str] = []
        self._unknown: list[str] = []
        self._safety: list[str] = []
        self._conformance: list[str] = []
        self._unless_unsafe: list[str] = []

    def attempt(
        self, what: str, attempt: Callable[[], _T], *, only_conformance: bool = False
    ) -> _T | None:
        """Return the result of the attempt; None if it fails, and then the run is unknown."""
        reasons = self._conformance if only_conformance else self._unknown
        try:
            return attempt()
        except ModelError as error:
            self._crashes.append(traceback.format_exc())
            reasons.append(f"{what} failed: {error!r}")
            return None
        except CheckError as error:
            # The evidence is damaged, as the message says; no checker failed.
            reasons.append(f"{what} failed: {error}")
            return None
        except Exception as error:  # noqa: BLE001 - whatever fails here makes the run unknown
            self._crashes.append(traceback.format_exc())
            reasons.append(f"{what} failed: {error!r}")
            return None

    def results(
        self, read: RunEvidence | None, prediction: Prediction | None, judged: Judged
    ) -> Results:
        """Everything put together; `read` is None where the evidence could not be read."""
        unfollowed = [] if read is None else [*_deleted_by_others(read)]
        partitions = {partition for partition, _ in unfollowed}
        partitions |= set() if read is None else {*read.unfollowed_clients}
        told = told_once(judged.findings, unfollowed=partitions)
        judged = replace(judged, findings=with_consequences(told, prediction))
        evidence = self._evidence
        described, expectation = evidence.description, evidence.scenario.expectation
        witnesses = self.attempt(
            "looking for witnesses", lambda: find_witnesses(expectation, evidence)
        )
        availability, different = None, list[str]()
        if read is not None:
            availability = self.attempt("measuring availability", lambda: measure(read))
            # What is compared is read here, and hashed for the seal.
            different += (
                self.attempt("comparing the evidence", lambda: [*disagreements(read)]) or ()
            )
            different += evidence.files.lacking(evidence.description.format)
        # What kept a run from its end is told first: what it lacks follows from that.
        self._unknown += self.attempt("the seal", lambda: [*_unfinished(evidence)]) or ()
        self._unknown += different
        self._unknown += [f"a rule failed: {_last_line(crash)}" for crash in judged.crashes]
        if read is not None:
            self._note_unknown(read, prediction, judged, [why for _, why in unfollowed])
        builds = self.attempt("the builds", lambda: evidence.builds)
        ran = self.attempt("what brokers ran", lambda: _ran(evidence)) or ""
        outcome = self.attempt("the outcome", lambda: evidence.outcome)
        findings = self.attempt(
            "the fingerprints",
            lambda: with_fingerprints(judged.findings, evidence.scenario, outcome or Outcome()),
        )
        bounds = self.attempt("the bounds", lambda: bounds_of(expectation))
        unmeasured: tuple[str, ...] = ()
        if bounds is not None:
            unmeasured = tuple(bounds_not_measured(bounds, availability or Availability()))
        answer = self._verdict(expectation, judged, witnesses or (), unmeasured)
        return Results(
            **{name: getattr(described, name) for name in _FROM_RUN},
            **asdict(answer),
            build="; ".join(builds or ()),
            ran=ran,
            findings=judged.findings if findings is None else findings,
            predicted_findings=judged.predicted_findings,
            witness=witnesses or (),
            not_checked=tuple(_not_checked(read)),
            crashes=(*self._crashes, *judged.crashes),
            seconds=None if outcome is None else outcome.seconds,
            started_at=described.started_at,
            played_by=described.kchaos if isinstance(described.kchaos, str) else None,
            run=evidence.name,
            path=evidence.run.path,
            judged_by=_own_version(),
            prediction=prediction,
            availability=availability,
        )

    def _note_unknown(
        self,
        read: RunEvidence,
        prediction: Prediction | None,
        judged: Judged,
        unfollowed: Sequence[str],
    ) -> None:
        """Notes what keeps safety or conformance from being known, as the evidence has it."""
        self._unknown += _unusable(read)
        self._safety += [*_unsettled(read), *_licensed(read)]
        foreign = [*_foreign(judged.findings), *dict.fromkeys(unfollowed)]
        self._unless_unsafe += foreign or _untraceable(read, prediction)
        self._unless_unsafe += _unseen(read)
        if not read.is_kraft:
            self._conformance += _undecided(read)
            self._conformance += _unlinked(read)
            given = self.attempt("the settings", lambda: [*_not_followed(read)])
            self._conformance += given or ()
            self._conformance += _not_compared(read, judged.findings)
            self._conformance += foreign
            self._conformance += _unfollowed(read)
            self._conformance += _unexplained_by_ours(read, prediction)
        if read.is_tiered:
            deleted = [*_deleted(read)]
            self._safety += [*_unread(read, prediction), *deleted]
            self._conformance += deleted
        if prediction is not None:
            self._conformance += _unpredicted(read, prediction)

    def _verdict(
        self,
        expectation: Any,
        judged: Judged,
        witnesses: tuple[Witness, ...],
        bounds: tuple[str, ...],
    ) -> Verdict:
        unknown = Unknown(
            run=tuple(self._unknown),
            safety=tuple(self._safety),
            conformance=tuple(self._conformance),
            unless_unsafe=tuple(self._unless_unsafe),
            not_predicted=NOT_PREDICTED if self._evidence.is_kraft else "",
            bounds=bounds,
        )
        answer = self.attempt(
            "the verdict",
            lambda: verdict(
                judged.findings,
                judged.predicted_findings,
                expectation=expectation,
                witnesses=witnesses,
                unknown=unknown,
            ),
        )
        return answer or Verdict(
            conforms=None,
            safe=None,
            expected=False,
            reason="the expectation cannot be read",
            unknown="; ".join(self._unknown),
            expectation_from="scenario",
        )


@cache
def _own_version() -> str:
    return version("kchaos")


def _unfinished(evidence: RunEvidence) -> Iterator[str]:
    """Yields what keeps the evidence as a whole from being trusted."""
    yield from evidence.files.broken_seal()
    if evidence.outcome.unknown:
        yield evidence.outcome.unknown
    elif not evidence.outcome.finished:
        yield "the run did not finish: outcome.json does not say that it did"


def _unusable(evidence: RunEvidence) -> Iterator[str]:
    """Yields what the evidence lacks for an answer to either question."""
    if not any(map(_is_acknowledged, evidence.operations)):
        yield "no write of the scenario was acknowledged, so this run cannot show a loss"
    if not any(snapshot.is_final for snapshot in evidence.snapshots):
        yield "there is no snapshot of the end"
    for snapshot in evidence.snapshots:
        for broker, seen in snapshot.brokers.items():
            if not seen.stable:
                yield f"snapshot {snapshot.label}: broker {broker}'s files never stood still"


def _undecided(evidence: RunEvidence) -> Iterator[str]:
    if not any(evidence.run.path.glob("zookeeper/member-*/log.*")):
        yield "there is no transaction log of ZooKeeper: what was decided is not known"


def _is_acknowledged(operation: Operation) -> bool:
    # A probe is written after all faults: it had nothing to survive.
    is_write = operation.function == "produce" and not operation.is_probe
    return is_write and operation.outcome == "ok"


def _unsettled(evidence: RunEvidence) -> Iterator[str]:
    if evidence.outcome.finished and evidence.outcome.settle is None:
        yield "outcome.json has no settle record: whether replication goes on is unknown"


def _licensed(evidence: RunEvidence) -> Iterator[str]:
    """Yields which settings let brokers lose records, by scenario.json alone."""
    has_files = any(evidence.run.path.glob("brokers/*/server.properties"))
    if evidence.description.format > 1 or has_files or evidence.is_tiered:
        return
    for name, value in evidence.broker_properties.items():
        is_unclean = name == "unclean.leader.election.enable" and value != "false"
        if is_unclean or name.removeprefix("log.") in DELETING:
            yield f"only {SCENARIO} says {name}={value}: the run has no broker's own settings"


def _not_followed(evidence: RunEvidence) -> Iterator[str]:
    """Yields each setting with which brokers may do what the model does not follow."""
    for given in dict.fromkeys(given_settings(evidence)):
        why = not_followed(
            given.name, given.value, is_tiered=given.is_tiered, while_it_ran=given.while_it_ran
        )
        if why:
            yield (
                f"{given.owner} was given {given.name}={given.value}, which the model does not "
                f"follow: {why}"
            )


def _unlinked(evidence: RunEvidence) -> Iterator[str]:
    if evidence.description.format == 1 and not evidence.is_linked:
        yield "the run says that there were no links, and has no broker's own settings to show it"
    if evidence.is_linked and evidence.rounds is None:
        yield (
            "links.jsonl is missing although the cluster was linked: which questions for leader "
            "epochs were asked is unknown"
        )


def _not_compared(evidence: RunEvidence, findings: Iterable[Finding]) -> Iterator[str]:
    """Yields why a run that is not as predicted may be what its release does all the same."""
    if not _is_unlike(findings):
        return
    starts = (timed.event for timed in evidence.events if isinstance(timed.event, StartBroker))
    for release in sorted({start.release for start in starts}):
        if not status(release).compared:
            yield (
                f"the run is not as predicted, but nobody compared the source of {release} with "
                "the model's rules. kchaos versions shows of which releases that was done"
            )
    yield from not_modelled(evidence)


def _is_unlike(findings: Iterable[Finding]) -> bool:
    return any(finding.question is Question.CONFORMANCE for finding in findings)


def _unpredicted(evidence: RunEvidence, prediction: Prediction) -> Iterator[str]:
    if prediction.limit:
        yield f"the model gave up following the run: {prediction.limit}"
    held = {timed.event.api for timed in evidence.actions if isinstance(timed.event, Hold)}
    for api in sorted(held - FOLLOWED):
        yield f"requests of {api} were held, which the model does not follow"
    if not prediction.states and not evidence.is_tiered:
        for topic in sorted({partition.topic for partition in evidence.partitions}):
            if evidence.retains_less(topic):
                yield (
                    f"brokers may delete records of {topic}, and without links nobody knows when "
                    "they did: have links, or keep what is written"
                )
    for snapshot in evidence.snapshots:
        if snapshot.label not in prediction.snapshots:
            yield (
                f"the model was not told of snapshot {snapshot.label!r}: actions.jsonl lacks "
                "its Snapshot"
            )


def _foreign(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        if finding.kind == FOREIGN:
            yield (
                f"{finding.message}: what was acknowledged to them may be lost, and the model "
                "cannot predict what they did. Write by steps alone, or judge a run without them"
            )


def _ran(evidence: RunEvidence) -> str:
    """Releases of brokers, where there were more than one; else ""."""
    return evidence.ran if len(evidence.started_as) + len(evidence.rolled_to) > 1 else ""


def _deleted_by_others(evidence: RunEvidence) -> Iterator[tuple[TopicPartition, str]]:
    """Yields partitions of which others deleted something, each with a sentence."""
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
                f"topic {partition.topic} {what} (zxid {deletion.zxid}): the model does not follow "
                "that",
            )
        offset = evidence.deleted_until.get(partition)
        if offset and not evidence.may_delete(partition.topic):
            yield (
                partition,
                f"a client had the records of {partition.name} below offset "
                f"{offset} deleted (DeleteRecords): the model does not follow that",
            )


def _unseen(evidence: RunEvidence) -> Iterator[str]:
    """Yields what links in front of brokers could not read of what clients were promised."""
    if evidence.clients is None:
        return
    if not evidence.files.has(CLIENTS):
        yield f"{CLIENTS} is missing although links were to record what clients did"
    if not evidence.said_alone:
        yield from _unread_by_links(evidence)
    # Else the test says it in place of the links; see `_untraceable` and `_not_checked`.


def _unread_by_links(evidence: RunEvidence) -> Iterator[str]:
    unseen = () if evidence.clients is None else evidence.clients.unseen
    for sentence in itertools.islice(unseen, _MOST_SAID):
        yield f"{sentence}: what was promised there may be lost"


def _unfollowed(evidence: RunEvidence) -> Iterator[str]:
    """Yields what clients of others wrote that the model is not told."""
    for partition, why in sorted(evidence.unfollowed_clients.items())[:_MOST_SAID]:
        yield (f"clients of others wrote to {partition.name} what the model does not follow: {why}")


def _untraceable(evidence: RunEvidence, prediction: Prediction | None) -> Iterator[str]:
    """Yields where a client that was given the addresses may have lost what nothing shows.

    What is acknowledged with acks=all while followers are in sync passes a link. What only one
    replica had is on its disk at the end, unless an unclean election or a fault took it. The model
    does not follow writes of which a test says it: these are compared with the links alone.
    """
    is_seen = evidence.clients is not None and not (evidence.said_alone and evidence.clients.unseen)
    if not evidence.is_open_to_others or is_seen:
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
            excuse for excuse in evidence.excuses(partition) if excuse.kind != "topic-deletion"
        )
        for excuse in itertools.islice(taken, 1):
            what = excuse.kind.replace("-", " ")
            yield (
                f"{given} what they wrote to {partition.name}, if anything, may be "
                f"gone without a trace: {what} of broker {excuse.broker}"
            )


def _unexplained_by_ours(evidence: RunEvidence, prediction: Prediction | None) -> Iterator[str]:
    """Yields where clients of others may be why no state explains an observation."""
    is_unexplained = prediction is not None and prediction.emptied_by is not None
    if evidence.clients is not None and not evidence.unfollowed_clients:
        return
    if evidence.is_open_to_others and is_unexplained:
        yield (
            "somebody was given the cluster's addresses, and what no state explains may come of "
            "their writes"
        )


def _unread(evidence: RunEvidence, prediction: Prediction | None) -> Iterator[str]:
    """Yields of which tiered logs it is not known what readers get, or should get."""
    known = set() if prediction is None else {read.operation for read in prediction.reads}
    for reading in evidence.tier_readings:
        if reading.operation not in known:
            yield f"the model does not say what reading {reading.operation} should have got"
    yield from _not_read(evidence)


def _not_read(evidence: RunEvidence) -> Iterator[str]:
    """Yields from which possible leaders nobody read at the end: the leader, and who is in sync."""
    ended = len(evidence.scenario.steps)
    read = {
        (reading.topic, reading.partition, reading.broker)
        for reading in evidence.tier_readings
        if reading.step >= ended
    }
    tiered = [
        partition for partition in evidence.partitions if evidence.is_tiered_topic(partition.topic)
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


def _deleted(evidence: RunEvidence) -> Iterator[str]:
    """Yields of which logs retention deleted remote segments, so that their starts moved."""
    for partition in sorted(
        {
            remote_event.partition
            for remote_event in evidence.remote_events
            if not remote_event.is_copy
        }
    ):
        yield (
            f"segments of {partition.name} were deleted from the remote tier: where "
            "its logs begin since then, and what readers get, the model does not follow"
        )


def _not_checked(evidence: RunEvidence | None) -> Iterator[str]:
    if evidence is None:
        return
    if evidence.rounds is None and not evidence.is_linked:
        yield "questions for leader epochs: the run has no links.jsonl"
    if evidence.outcome.settle is None and not evidence.outcome.finished:
        yield "whether replication goes on: the run has no settle record"
    if evidence.said_alone:
        records = sum(len(operation.payloads) for operation in evidence.said_alone)
        yield (
            f"what clients were answered of which the test alone says it ({records} records). No "
            "link saw it, and of what it does not say nobody knows whether it was lost"
        )
        yield from _unread_by_links(evidence)
    yield from not_known(evidence)
    yield from NOT_COMPARED


def _last_line(trace: str) -> str:
    return trace.strip().splitlines()[-1]
