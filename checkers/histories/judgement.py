"""The judgement of a history file: the anomalies as findings, and whether the history is valid."""

import hashlib
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.histories.anomalies import Anomaly, anomalies, doubts
from kchaos.checkers.histories.files import read_history
from kchaos.checkers.histories.operations import History

MOST_TOLD = 8
"""Most anomalies of a name that are findings; the others are counted."""
_MOST_DOUBTS = 3
_LONGEST_NOTE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryJudgement:
    """Judgement of the cluster on which a history was made.

    Attributes:
        path: The file.
        operations: How many operations clients did.
        valid: No anomaly against which Kafka promises; None for unknown.
        unknown: Why that is not known, or None.
        counts: How many anomalies there are by name.
        findings: The first of each name.
    """

    path: Path
    operations: int
    valid: bool | None
    unknown: str | None
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "history": str(self.path),
            "operations": self.operations,
            "valid": self.valid,
            "unknown": self.unknown,
            "anomalies": dict(self.counts),
            "findings": [
                {
                    "kind": finding.kind,
                    "message": finding.message,
                    "first_offset": finding.first_offset,
                    "last_offset": finding.last_offset,
                    "fingerprint": finding.fingerprint,
                    **finding.evidence,
                }
                for finding in self.findings
            ],
        }


def judge_history(file: Path) -> HistoryJudgement:
    """Judge a history in Jepsen's form.

    Raises:
        HistoryError: The file cannot be read or is no history.
    """
    history = read_history(file)
    seen = anomalies(history)
    findings = tuple(finding_of(anomaly) for anomaly in first_of_each(seen))
    unknown = [*_nothing_to_judge(history), *islice(doubts(history), _MOST_DOUBTS)]
    is_bad = any(finding.question is Question.SAFETY for finding in findings)
    return HistoryJudgement(
        path=file,
        operations=len(history),
        valid=False if is_bad else None if unknown else True,
        unknown="; ".join(unknown) or None,
        counts=Counter(anomaly.name for anomaly in seen),
        findings=findings,
    )


def finding_of(anomaly: Anomaly) -> Finding:
    """Return an anomaly as a finding about a history; its key is in the evidence."""
    kind = "permitted-anomaly" if anomaly.permitted else anomaly.name
    told = f"{anomaly.name}: {anomaly.message}; {anomaly.permitted}"
    return Finding(
        kind=kind,
        first_offset=anomaly.first_offset,
        last_offset=anomaly.last_offset,
        message=told if anomaly.permitted else anomaly.message,
        evidence={
            "what": anomaly.name,
            "key": anomaly.key,
            "values": list(anomaly.values),
            "operations": list(anomaly.operations),
            **anomaly.evidence,
        },
        # A history has neither brokers nor steps: what it shows is all that can be the same.
        fingerprint=hashlib.sha256(f"history {kind} {anomaly.name}".encode()).hexdigest()[:12],
    )


def first_of_each(seen: list[Anomaly]) -> Iterator[Anomaly]:
    """Yield the first anomalies of each name, forbidden ones first.

    Of a kind that Kafka permits always the first one counts the others, and is short.
    """
    counts, yielded = Counter(anomaly.name for anomaly in seen), Counter[str]()
    for anomaly in sorted(seen, key=lambda anomaly: bool(anomaly.permitted)):
        yielded[anomaly.name] += 1
        if KINDS[anomaly.name].question is not Question.NEITHER:
            if yielded[anomaly.name] <= MOST_TOLD:
                yield anomaly
        elif yielded[anomaly.name] == 1:
            more = f" (and {counts[anomaly.name] - 1} more)" if counts[anomaly.name] > 1 else ""
            first = textwrap.shorten(anomaly.message, _LONGEST_NOTE, placeholder=" …")
            yield replace(anomaly, message=first + more)


def _nothing_to_judge(history: History) -> Iterator[str]:
    if not any(operation.writes for operation in history if operation.outcome == "ok"):
        yield "no send was acknowledged, so this history cannot show a loss"
