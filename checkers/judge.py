"""The judge: from a run directory alone to results, and to a judgement beside the evidence."""

import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from checkers.errors import RunDirectoryError, ScenarioDataError
from checkers.evidence import finding_to_json
from checkers.findings import Finding, Question
from checkers.history import Operation
from checkers.model.events import StartBroker
from checkers.model.prediction import EmptiedBy, Prediction
from checkers.model.status import status
from checkers.record import predict_run
from checkers.rules import Judged, apply_rules, joined
from checkers.run_directory import JUDGEMENTS, RunDirectory
from checkers.run_evidence import run_evidence
from checkers.run_facts import RunFacts, run_facts
from checkers.run_shapes import read_outcome
from checkers.verdict import Unknown, Verdict, Witness, find_witnesses, verdict
from checkers.zookeeper_log import ZooKeeperLogError

_T = TypeVar("_T")
Predict = Callable[[RunFacts], Prediction]
Rules = Callable[[RunFacts, Prediction | None], Judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What is known of one run after it was judged.

    Attributes:
        entry: From run.json, like case, release, driver and seed.
        conforms: True, False, or None for unknown; likewise `safe`.
        expected: Whether all is as expected.
        reason: Why it is not, or "".
        unknown: Why an answer is unknown, or None.
        findings: Everything that the rules found, on whichever question.
        predicted_findings: What the safety rules say of the predicted replicas.
        expectation_from: "scenario" or "model".
        witness: The expectation's witnesses.
        not_checked: What the evidence did not allow to check, a sentence each.
        crashes: Tracebacks of checkers that failed.
        seconds: How long the run took, its cluster's start included; None if it never ended.
        started_at: When it began, in seconds since the epoch; None if run.json does not say.
        played_by: The version of kchaos that played it, or None.
        run: The run's name.
        path: Where it was when it was judged.
        judged_by: The version of kchaos that judged.
        prediction: What the model said, or None.
    """

    entry: str
    case: str
    release: str
    driver: str
    seed: int
    conforms: bool | None
    safe: bool | None
    expected: bool
    reason: str
    unknown: str | None
    findings: tuple[Finding, ...]
    predicted_findings: tuple[Finding, ...]
    expectation_from: str
    witness: tuple[Witness, ...]
    not_checked: tuple[str, ...]
    crashes: tuple[str, ...]
    seconds: float | None
    started_at: float | None
    played_by: str | None
    run: str
    path: Path
    judged_by: str
    prediction: Prediction | None


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
    about = run.read("run.json")
    expectation = run.read("scenario.json").get("expectation")
    apply = rules or rules_of
    judging = _Judging(run)
    facts = judging.attempt("reading the evidence", lambda: run_facts(run))
    prediction = None
    if facts is not None:
        prediction = judging.attempt("the model", lambda: predict(facts), only_conformance=True)
    judged = Judged()
    if facts is not None:
        judged = judging.attempt("the rules", lambda: apply(facts, prediction)) or judged
    return judging.results(about, expectation, facts, prediction, judged)


def rules_of(facts: RunFacts, prediction: Prediction | None) -> Judged:
    """What the rules say of one run: every partition, every snapshot, and the run as a whole."""
    parts = [apply_rules(evidence) for evidence in run_evidence(facts, prediction)]
    return joined([*parts, Judged(findings=tuple(about_the_run(prediction)))])


def about_the_run(prediction: Prediction | None) -> Iterable[Finding]:
    """Yields a finding for what the model forbids and no partition's evidence has.

    These are the observation that no possible state explains, decisions about brokers, and high
    watermarks observed where no replica should be.
    """
    if prediction is not None and prediction.emptied_by is not None:
        yield _emptied(prediction.emptied_by)
    for one in prediction.disallowed if prediction is not None else ():
        if one.decision.get("partition") is None:
            yield Finding(
                kind="decision-not-allowed",
                message=f"{one.decision.get('event', 'a decision')}: {one.reason}",
                evidence={"index": one.index, "decision": dict(one.decision)},
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


def write_judgement(run: RunDirectory, results: Results) -> Path:
    """Writes `judgements/NNNN/` with prediction.json, findings.jsonl and results.json.

    Nothing is overwritten. Returns the new folder.
    """
    prediction = None if results.prediction is None else asdict(results.prediction)
    content = results_to_json(results)
    with run.new_judgement() as folder:
        marker = folder.stat().st_ino
        _write(folder / "prediction.json", prediction)
        lines = [json.dumps(finding_to_json(finding)) + "\n" for finding in results.findings]
        (folder / "findings.jsonl").write_text("".join(lines))
        _write(folder / "results.json", content)
    # Only the new folder has that inode, also if another kchaos judges the same run meanwhile.
    written = [run.path / JUDGEMENTS / name for name in run.judgements()]
    return next(one for one in reversed(written) if one.stat().st_ino == marker)


def results_to_json(results: Results) -> dict[str, Any]:
    """The content of results.json: every field but the prediction and the path."""
    fields = {
        name: getattr(results, name)
        for name in Results.__dataclass_fields__
        if name not in ("prediction", "path")
    }
    return fields | {
        "findings": [finding_to_json(finding) for finding in results.findings],
        "predicted_findings": [finding_to_json(one) for one in results.predicted_findings],
        "witness": [asdict(one) for one in results.witness],
        "not_checked": list(results.not_checked),
        "crashes": list(results.crashes),
    }


class _Judging:
    """Collects what went wrong while one run is judged."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._crashes: list[str] = []
        self._unknown: list[str] = []
        self._safety: list[str] = []
        self._conformance: list[str] = []

    def attempt(
        self, what: str, attempt: Callable[[], _T], *, only_conformance: bool = False
    ) -> _T | None:
        """What the attempt returns; None if it fails, and then the run is unknown."""
        reasons = self._conformance if only_conformance else self._unknown
        try:
            return attempt()
        except (RunDirectoryError, ScenarioDataError, ZooKeeperLogError) as error:
            # The evidence is damaged, as the message says; no checker failed.
            reasons.append(f"{what} failed: {error}")
            return None
        except Exception as error:  # noqa: BLE001 - whatever fails here makes the run unknown
            self._crashes.append(traceback.format_exc())
            reasons.append(f"{what} failed: {error!r}")
            return None

    def results(
        self,
        about: Mapping[str, Any],
        expectation: Mapping[str, Any] | None,
        facts: RunFacts | None,
        prediction: Prediction | None,
        judged: Judged,
    ) -> Results:
        """Everything put together."""
        self._unknown += self.attempt("the seal", lambda: [*_unfinished(self._run)]) or ()
        self._unknown += [f"a rule failed: {_last_line(crash)}" for crash in judged.crashes]
        if facts is not None:
            self._unknown += _unusable(facts)
            self._safety += _unsettled(facts)
            self._conformance += _undecided(self._run)
            self._conformance += _unlinked(facts)
            self._conformance += _not_compared(facts, judged.findings)
        if facts is not None and prediction is not None:
            self._conformance += _unpredicted(facts, prediction)
        witnesses = self.attempt(
            "looking for witnesses",
            lambda: find_witnesses(expectation, self._run, facts.rounds if facts else None),
        )
        outcome = self.attempt("the outcome", lambda: read_outcome(self._run)) or {}
        answer = self._verdict(expectation, judged, witnesses or ())
        return Results(
            entry=about.get("entry", ""),
            case=about.get("case", ""),
            release=about.get("release", ""),
            driver=about.get("driver", ""),
            seed=about.get("seed", 0),
            conforms=answer.conforms,
            safe=answer.safe,
            expected=answer.expected,
            reason=answer.reason,
            unknown=answer.unknown,
            findings=judged.findings,
            predicted_findings=judged.predicted_findings,
            expectation_from=answer.expectation_from,
            witness=witnesses or (),
            not_checked=tuple(_not_checked(facts)),
            crashes=(*self._crashes, *judged.crashes),
            seconds=outcome.get("seconds"),
            started_at=about.get("started_at"),
            played_by=about.get("kchaos"),
            run=self._run.name,
            path=self._run.path,
            judged_by=version("kchaos"),
            prediction=prediction,
        )

    def _verdict(
        self,
        expectation: Mapping[str, Any] | None,
        judged: Judged,
        witnesses: tuple[Witness, ...],
    ) -> Verdict:
        unknown = Unknown(
            run=tuple(self._unknown),
            safety=tuple(self._safety),
            conformance=tuple(self._conformance),
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


def _unfinished(run: RunDirectory) -> Iterator[str]:
    """Yields what keeps the evidence as a whole from being trusted."""
    yield from run.verify()
    outcome = read_outcome(run)
    if outcome.get("unknown"):
        yield str(outcome["unknown"])
    elif not outcome.get("finished"):
        yield "the run did not finish: outcome.json does not say that it did"


def _unusable(facts: RunFacts) -> Iterator[str]:
    """Yields what the evidence lacks for an answer to either question."""
    if not any(map(_is_acknowledged, facts.operations)):
        yield "nothing that the scenario wrote was acknowledged, so nothing could be lost"
    if not any(snapshot["is_final"] for snapshot in facts.snapshots):
        yield "there is no snapshot of the end"
    for snapshot in facts.snapshots:
        for broker, seen in snapshot["brokers"].items():
            if not seen.get("stable", True):
                yield f"snapshot {snapshot['label']}: broker {broker}'s files never stood still"


def _undecided(run: RunDirectory) -> Iterator[str]:
    if not any(run.path.glob("zookeeper/member-*/log.*")):
        yield "there is no transaction log of ZooKeeper: what was decided is not known"


def _is_acknowledged(operation: Operation) -> bool:
    # A probe is written after all faults: it had nothing to survive.
    is_write = operation.function == "produce" and not operation.is_probe
    return is_write and operation.outcome == "ok"


def _unsettled(facts: RunFacts) -> Iterator[str]:
    if facts.is_finished and facts.settle is None:
        yield "outcome.json has no settle record: whether replication goes on is unknown"


def _unlinked(facts: RunFacts) -> Iterator[str]:
    if facts.is_linked and facts.rounds is None:
        yield (
            "links.jsonl is missing although the cluster was linked: which questions for leader "
            "epochs were asked is unknown"
        )


def _not_compared(facts: RunFacts, findings: Iterable[Finding]) -> Iterator[str]:
    """Yields why a run that is not as predicted may be what its release does all the same."""
    if all(finding.question is not Question.CONFORMANCE for finding in findings):
        return
    starts = (timed.event for timed in facts.events if isinstance(timed.event, StartBroker))
    for release in sorted({start.release for start in starts}):
        if not status(release).compared:
            yield (
                f"the run is not as predicted, but nobody compared the source of {release} with "
                "the model's rules: kchaos versions shows of which releases that was done"
            )


def _unpredicted(facts: RunFacts, prediction: Prediction) -> Iterator[str]:
    if prediction.limit:
        yield f"the model gave up following the run: {prediction.limit}"
    for snapshot in facts.snapshots:
        if snapshot["label"] not in prediction.snapshots:
            yield (
                f"the model was not told of snapshot {snapshot['label']!r}: actions.jsonl lacks "
                "its Snapshot"
            )


def _not_checked(facts: RunFacts | None) -> Iterator[str]:
    if facts is None:
        return
    if facts.rounds is None and not facts.is_linked:
        yield "questions for leader epochs: the run has no links.jsonl"
    if facts.settle is None and not facts.is_finished:
        yield "whether replication goes on: the run has no settle record"


def _last_line(trace: str) -> str:
    return trace.strip().splitlines()[-1]


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n")
