"""Results of a judgement, and `judgements/NNNN/` in which they are kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from kchaos.checkers.availability import Availability
from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.evidence.partition import finding_to_json
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import SOMETIMES, ShapeError, from_json, members
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.outcome import facts_of
from kchaos.checkers.run_directory import JUDGEMENTS, RunDirectory
from kchaos.checkers.verdict import UNPREDICTABLE
from kchaos.checkers.witness import Witness

_T = TypeVar("_T")
_MOST_FACTS = 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Results:
    """Results of one run after it was judged.

    Attributes:
        entry: From run.json, like case, release, driver and seed.
        build: The builds that brokers ran and nobody published: path and digest; "" if none.
        ran: The releases that brokers ran, for people, where there was more than one; else "".
        conforms: True, False, or None for unknown; likewise `safe`.
        expected: Whether all is as expected.
        reason: Why it is not, or "".
        unknown: Why an answer is unknown, or None.
        findings: Everything that the rules found, on whichever question.
        predicted_findings: What the safety rules say of the predicted replicas.
        expectation_from: "scenario", "model" or "safety", as in `Verdict`.
        witness: The expectation's witnesses.
        not_checked: What the evidence did not allow to check, a sentence each.
        crashes: Tracebacks of checkers that failed.
        seconds: How long the run took, its cluster's start included; None if it never ended.
        stood_still: For how long of that the machine let nothing run, in words; "" if it did not.
        started_at: When it began, in seconds since the epoch; None if run.json does not say.
        played_by: The version of kchaos that played it, or None.
        run: The run's name.
        path: Where it was when it was judged.
        judged_by: The version of kchaos that judged.
        prediction: What the model said, or None.
        availability: For how long what had no service; None where the evidence could not be read.
        occasions: How often it had each of `checkers.occasions.OCCASIONS`, if at all.
        points: The decision points that it came to (`checkers.decision_points`).
    """

    entry: str = ""
    case: str = ""
    release: str = ""
    build: str = ""
    ran: str = ""
    driver: str = ""
    seed: int = 0
    conforms: bool | None
    safe: bool | None
    expected: bool
    reason: str = ""
    unknown: str | None = None
    findings: tuple[Finding, ...] = ()
    predicted_findings: tuple[Finding, ...] = ()
    expectation_from: str = "model"
    witness: tuple[Witness, ...] = ()
    not_checked: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    seconds: float | None = None
    stood_still: str = ""
    started_at: float | None = None
    played_by: str | None = None
    run: str = ""
    path: Path
    judged_by: str = ""
    prediction: Prediction | None
    availability: Availability | None = None
    occasions: Mapping[str, int] = field(default_factory=dict, metadata=SOMETIMES)
    points: tuple[str, ...] = field(default=(), metadata=SOMETIMES)

    @property
    def outcome(self) -> str:
        """The replicas' fate, in one sentence with its release.

        At most two facts are told, the worst first; then how many more there are.
        """
        release = f"Kafka {self.ran or self.release}: " if self.release else ""
        facts = facts_of(self.findings)
        if self.safe is False and facts:
            left = len(facts) - _MOST_FACTS
            more = f"; and {left} more finding{'s' if left > 1 else ''}" if left > 0 else ""
            return f"{release}{'; '.join(facts[:_MOST_FACTS])}{more}"
        if self.safe is None:
            return f"{release}unknown: {self._why_unknown}"
        safe = f"{release}in-sync replicas agree and hold every promised record"
        if self.conforms is None:
            return f"{safe}; conformance unknown: {self._why_unknown}"
        return f"{safe}, but not all is as predicted" if self.conforms is False else safe

    @property
    def _why_unknown(self) -> str:
        """The first reason why an answer is unknown, in one line."""
        if not self.unknown or not self.unknown.strip():
            return "the judgement gives no reason"
        first = self.unknown.strip().splitlines()[0].split("; ")[0]
        # What follows the colon explains to whom the verdict is new.
        return first.split(": ")[0] if first in UNPREDICTABLE else first

    def __repr__(self) -> str:
        """Return the outcome, which a failed assertion shows."""
        return f"<{self.outcome}; run: {self.path}>"


def read_judgement(run: RunDirectory, name: str) -> Results:
    """Return the judgement of that name, as `write_judgement` wrote it.

    Raises:
        RunDirectoryError: A file is missing or has another shape than this kchaos writes.
    """
    folder = f"{JUDGEMENTS}/{name}"
    prediction = f"{folder}/prediction.json"
    findings = f"{folder}/findings.jsonl"
    results = f"{folder}/results.json"
    predicted = run.content(prediction)
    return _stored(
        run,
        results,
        Results,
        run.read(results),
        findings=tuple(
            _stored(run, f"{findings}:{number}", Finding, line)
            for number, line in enumerate(run.read_lines(findings), start=1)
        ),
        # The model may have come to nothing; then the file holds null.
        prediction=None
        if predicted.strip() == b"null"
        else _stored(run, prediction, Prediction, run.read(prediction, predicted)),
        path=run.path,
    )


def _stored(run: RunDirectory, name: str, kind: type[_T], value: Any, **given: Any) -> _T:
    try:
        return from_json(kind, value, allow_more=True, **given)
    except ShapeError as error:
        raise RunDirectoryError(
            f"{run.path / name}: {error}; another kchaos judged it: show it with that one, or "
            f"judge again: kchaos judge {run.name}"
        ) from error


def write_judgement(run: RunDirectory, results: Results) -> Path:
    """Write `judgements/NNNN/` with prediction.json, findings.jsonl and results.json.

    Nothing is overwritten. Returns the new folder. The run goes on no more.
    """
    prediction = None if results.prediction is None else asdict(results.prediction)
    content = results_to_json(results)
    with run.new_judgement() as folder:
        marker = folder.stat().st_ino
        _write(folder / "prediction.json", prediction)
        lines = [json.dumps(finding_to_json(finding)) + "\n" for finding in results.findings]
        (folder / "findings.jsonl").write_text("".join(lines))
        _write(folder / "results.json", content)
    run.let_go()
    # Only the new folder has that inode, also if another kchaos judges the same run meanwhile.
    written = [run.path / JUDGEMENTS / name for name in run.judgements()]
    return next(folder for folder in reversed(written) if folder.stat().st_ino == marker)


_NOT_TOLD = ("prediction", "path")


def results_to_json(results: Results) -> dict[str, Any]:
    """Return the content of results.json: every field but the prediction and the path."""
    told = asdict(replace(results, prediction=None))
    return {name: value for name, value in told.items() if name not in _NOT_TOLD}


def results_text(results: Results) -> str:
    """Return the content of results.json as one line of text, without copying its values."""
    told = {name: value for name, value in members(results).items() if name not in _NOT_TOLD}
    return json.dumps(told, default=members)


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n")
