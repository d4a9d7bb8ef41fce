"""What `--json` prints for one run: its results without evidence and prediction."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.judge import Results, results_to_json

LINE_FIELDS = (
    "entry",
    "case",
    "release",
    "driver",
    "seed",
    "started_at",
    "played_by",
    "judged_by",
    "conforms",
    "safe",
    "expected",
    "reason",
    "unknown",
    "witness",
    "not_checked",
    "crashes",
    "seconds",
)
"""What the object of `--json` has of results.json as it is."""


def results_line(results: Results, *, report: Path | None = None) -> dict[str, Any]:
    """The object that `--json` prints for one run.

    Args:
        report: Where its report is, or None.
    """
    whole = results_to_json(results)
    return {name: whole[name] for name in LINE_FIELDS} | {
        "findings": [short_finding(finding) for finding in whole["findings"]],
        "run": str(results.path),
        "report": None if report is None else str(report),
    }


def short_finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding of results.json as `--json` prints it: all but the evidence."""
    topic = finding["topic"]
    return {
        "kind": finding["kind"],
        "message": finding["message"],
        "partition": f"{topic}-{finding['partition']}" if topic else None,
        "brokers": list(finding["brokers"]),
        "first_offset": finding["first_offset"],
        "last_offset": finding["last_offset"],
    }
