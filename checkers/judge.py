"""The judge: from a run directory alone to results, and to a judgement beside the evidence."""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from typing import Any, TypeVar

from kchaos.checkers.availability import Availability, bounds_not_measured, bounds_of, measure
from kchaos.checkers.cross_checks import disagreements
from kchaos.checkers.decision_points import decision_points
from kchaos.checkers.errors import CheckError, ModelError
from kchaos.checkers.evidence.about import Outcome
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.fingerprint import with_fingerprints
from kchaos.checkers.garbage import no_garbage_collection
from kchaos.checkers.model.values.prediction import EmptiedBy, Prediction
from kchaos.checkers.occasions import occasions
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import Results
from kchaos.checkers.rules import Judged, apply_rules, joined
from kchaos.checkers.rules.as_sent import NOT_COMPARED
from kchaos.checkers.rules.available import unavailable
from kchaos.checkers.rules.client_anomalies import client_anomalies, not_known
from kchaos.checkers.rules.demoted import acknowledged_after_demotion
from kchaos.checkers.rules.echoes import with_consequences
from kchaos.checkers.rules.fetch_loops import fetch_loops
from kchaos.checkers.rules.foreign import foreign_at_links, foreign_writes_once
from kchaos.checkers.rules.ghosts import ghosts
from kchaos.checkers.rules.logged import logged_errors
from kchaos.checkers.rules.lost_metadata import LOST, lost_metadata
from kchaos.checkers.rules.out_of_sync import out_of_sync
from kchaos.checkers.rules.quorum import answers_of_controllers, decisions_of_controllers
from kchaos.checkers.rules.remote_retention import deleted_too_early
from kchaos.checkers.rules.settled import cluster_not_settled
from kchaos.checkers.rules.two_controllers import two_controllers
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.unknown import (
    BOTH,
    CONFORMANCE,
    RULES,
    SEALED,
    Cause,
    Judgement,
    Reason,
    deleted_by_others,
    not_read_by_links,
    reasons,
)
from kchaos.checkers.verdict import (
    EXPECTATION_UNREAD,
    Verdict,
    find_witnesses,
    verdict,
    why_not_predicted,
)
from kchaos.checkers.witness import Witness

_T = TypeVar("_T")
Predict = Callable[[RunEvidence], Prediction]
_POSSIBLE, _SEEN_SO_FAR = ", possible was ", ", seen so far: "
_NUMBERED = re.compile(r"[\w.-]*\d[\w.-]*")
"""Names and offsets: they differ between two runs of one bug."""
_FROM_RUN = ("entry", "case", "release", "driver", "seed")
Rules = Callable[[RunEvidence, Prediction | None], Judged]


@no_garbage_collection()
def judge(
    run: RunDirectory, *, predict: Predict = predict_run, rules: Rules | None = None
) -> Results:
    """Judge one run without changing it.

    A run that is not sealed, whose evidence is damaged, that did not finish or in which nothing was
    acknowledged is unknown, and so is one over which a checker fails: then `crashes` has the
    traceback. What was found all the same is listed.

    `predict` is the model; `rules` replaces `rules_of` if the rules were applied elsewhere already.

    Raises:
        RunDirectoryError: There is no readable run.json or scenario.json.
    """
    evidence = RunEvidence(run)
    _ = evidence.description, evidence.scenario
    judging = _Judging(evidence)
    read = judging.attempt("reading the evidence", evidence.read)
    prediction, judged = None, None
    if read is not None:
        if read.is_predicted and not (read.is_kraft and read.links is None):
            prediction = judging.attempt("the model", lambda: predict(read), opens=CONFORMANCE)
        apply = rules or rules_of
        judged = judging.attempt("the rules", lambda: apply(read, prediction))
    return judging.results(read, prediction, judged or Judged())


def rules_of(evidence: RunEvidence, prediction: Prediction | None) -> Judged:
    """Return all rules' findings of a run: each partition and snapshot, and the run as a whole."""
    parts = [apply_rules(partition) for partition in run_evidence(evidence, prediction)]
    return joined([*parts, Judged(findings=tuple(about_the_run(evidence, prediction)))])


def about_the_run(evidence: RunEvidence, prediction: Prediction | None) -> Iterable[Finding]:
    """Yield a finding for each violation that no partition's evidence has.

    These are decisions that their writers could not take, directories of partitions that nobody
    made, what others wrote, what their clients were told against Kafka's promises, followers that
    are refused again and again, longer times without service than the scenario allows, the
    observation that no possible state explains,
    decisions about brokers, and high watermarks observed where no replica should be.
    """
    if evidence.is_kraft:
        yield from decisions_of_controllers(evidence)
        yield from answers_of_controllers(evidence)
        yield from acknowledged_after_demotion(evidence)
    yield from cluster_not_settled(evidence)
    lost = [*lost_metadata(evidence)]
    yield from lost
    topics = {finding.topic for finding in lost}
    yield from (ghost for ghost in ghosts(evidence) if ghost.topic not in topics)
    yield from logged_errors(evidence)
    for finding, stood in (*out_of_sync(evidence), *two_controllers(evidence)):
        if not stood:
            yield finding
    yield from fetch_loops(evidence)
    yield from deleted_too_early(evidence)
    yield from foreign_at_links(evidence)
    yield from unavailable(evidence)
    yield from client_anomalies(evidence)
    if prediction is not None and prediction.emptied_by is not None:
        yield _emptied(prediction.emptied_by, is_suspect=bool(prediction.limit))
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


def _emptied(by: EmptiedBy, *, is_suspect: bool) -> Finding:
    is_decision = by.source.startswith("zxid")
    kind = "decision-not-allowed" if is_decision else "not-as-predicted"
    message = f"{by.source}: {by.why}"
    if is_suspect:
        kind = "not-explained"
        message = f"not explained: {message.replace(_POSSIBLE, _SEEN_SO_FAR)}; not proved"
    elif not by.is_proved:
        message += "; a search from shortly before ended, and no other order came further"
    return Finding(
        kind=kind,
        message=message,
        evidence={
            "what": "observation",
            "kind": by.what,
            "source": by.source,
            "reason": _NUMBERED.sub("_", by.why.partition(_POSSIBLE)[0]),
        },
    )


class _Judging:
    """Collects what went wrong while one run is judged."""

    def __init__(self, evidence: RunEvidence) -> None:
        self._evidence = evidence
        self._crashes: list[str] = []
        self._reasons: list[Reason] = []

    def attempt(
        self, what: str, attempt: Callable[[], _T], *, opens: frozenset[Question] = BOTH
    ) -> _T | None:
        """Return the result of the attempt; None if it fails, which is a reason."""
        try:
            return attempt()
        except ModelError as error:
            self._crashes.append(traceback.format_exc())
            self._failed(f"{what} failed: {error!r}", opens, Cause.NOT_FOLLOWED)
        except CheckError as error:
            # The evidence is damaged, as the message says; no checker failed.
            self._failed(f"{what} failed: {error}", opens, Cause.EVIDENCE)
        except Exception as error:  # noqa: BLE001 - whatever fails here makes the run unknown
            self._crashes.append(traceback.format_exc())
            self._failed(f"{what} failed: {error!r}", opens, Cause.NOT_FOLLOWED)
        return None

    def _failed(self, sentence: str, opens: frozenset[Question], cause: Cause) -> None:
        self._reasons.append(Reason(sentence=sentence, cause=cause, opens=opens))

    def results(
        self, read: RunEvidence | None, prediction: Prediction | None, judged: Judged
    ) -> Results:
        """Combine all results; `read` is None if the evidence could not be read."""
        deleted = [] if read is None else [*deleted_by_others(read)]
        unfollowed = {partition for partition, _ in deleted}
        told = foreign_writes_once(judged.findings, unfollowed=unfollowed)
        judged = replace(judged, findings=with_consequences(told, prediction))
        evidence = self._evidence
        described, expectation = evidence.description, evidence.scenario.expectation
        witnesses = self.attempt(
            "looking for witnesses", lambda: find_witnesses(expectation, evidence)
        )
        availability, different, had, points = None, list[str](), None, None
        if read is not None:
            had = self.attempt("counting occasions", lambda: occasions(read, prediction))
            points = self.attempt("counting points", lambda: decision_points(read, prediction))
            availability = self.attempt("measuring availability", lambda: measure(read))
            # What is compared is read here, and hashed for the seal.
            different += (
                self.attempt("comparing the evidence", lambda: [*disagreements(read)]) or ()
            )
            different += evidence.files.lacking()
        judgement = Judgement(
            evidence=evidence, prediction=prediction, findings=judged.findings, deleted=deleted
        )
        # What kept a run from its end is told first: what it lacks follows from that.
        self._reasons += self.attempt("the seal", lambda: [*reasons(judgement, SEALED)]) or ()
        # Where the metadata log was lost, copies and times of before that are of another log.
        is_lost = any(finding.kind == LOST for finding in judged.findings)
        for sentence in different:
            self._failed(sentence, CONFORMANCE if is_lost else BOTH, Cause.EVIDENCE)
        for crash in judged.crashes:
            self._failed(f"a rule failed: {_last_line(crash)}", BOTH, Cause.NOT_FOLLOWED)
        if read is not None:
            self._reasons += self.attempt("the reasons", lambda: [*reasons(judgement, RULES)]) or ()
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
            stood_s = 0.0 if read is None else read.stood_still_s()
            unmeasured = tuple(bounds_not_measured(bounds, availability or Availability(), stood_s))
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
            stood_still="" if read is None else read.stood_still,
            started_at=described.started_at,
            played_by=described.kchaos if isinstance(described.kchaos, str) else None,
            run=evidence.name,
            path=evidence.run.path,
            judged_by=_own_version(),
            prediction=prediction,
            availability=availability,
            occasions=had or {},
            points=points or (),
        )

    def _verdict(
        self,
        expectation: Any,
        judged: Judged,
        witnesses: tuple[Witness, ...],
        bounds: tuple[str, ...],
    ) -> Verdict:
        answer = self.attempt(
            "the verdict",
            lambda: verdict(
                judged.findings,
                judged.predicted_findings,
                expectation=expectation,
                witnesses=witnesses,
                reasons=self._reasons,
                not_predicted=why_not_predicted(self._evidence),
                bounds=bounds,
            ),
        )
        return answer or Verdict(
            conforms=None,
            safe=None,
            expected=False,
            reason=EXPECTATION_UNREAD,
            unknown="; ".join(reason.sentence for reason in self._reasons),
            expectation_from="scenario",
        )


@cache
def _own_version() -> str:
    return version("kchaos")


def _ran(evidence: RunEvidence) -> str:
    """Return the brokers' releases if they differ, else ""."""
    return evidence.ran if len(evidence.started_as) + len(evidence.rolled_to) > 1 else ""


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
            f"responses to clients that the test alone reports ({records} records). No "
            "link saw them, and losses of unreported records are unknown"
        )
        yield from not_read_by_links(evidence)
    yield from not_known(evidence)
    yield from NOT_COMPARED


def _last_line(trace: str) -> str:
    return trace.strip().splitlines()[-1]
