"""What a judgement says of a run: its results, and `judgements/NNNN/` in which they are kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checkers.evidence.partition import finding_to_json
from checkers.findings import Finding
from checkers.model.prediction import Prediction
from checkers.run_directory import JUDGEMENTS, RunDirectory
from checkers.verdict import Witness


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
    run: str
    path: Path
    judged_by: str
    prediction: Prediction | None


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


def results_line(results: Results) -> dict[str, Any]:
    """The object that `--json` prints for one run."""
    return {
        "entry": results.entry,
        "case": results.case,
        "release": results.release,
        "driver": results.driver,
        "seed": results.seed,
        "conforms": results.conforms,
        "safe": results.safe,
        "expected": results.expected,
        "findings": [
            {
                "kind": finding.kind,
                "partition": f"{finding.topic}-{finding.partition}" if finding.topic else None,
                "brokers": list(finding.brokers),
                "first_offset": finding.first_offset,
                "last_offset": finding.last_offset,
            }
            for finding in results.findings
        ],
        "seconds": results.seconds,
        "run": str(results.path),
    }


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n")
