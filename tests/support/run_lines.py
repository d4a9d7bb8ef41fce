"""Findings of lines of runs."""

from typing import Any

from kchaos.checkers.run_line import FindingLine


def found(kind: str, **more: Any) -> FindingLine:
    """Return a finding about safety, of offsets 11 to 20 of t-0, but for what is given."""
    about: dict[str, Any] = {
        "question": "safety",
        "message": "",
        "partition": "t-0",
        "brokers": (0, 1),
        "first_offset": 11,
        "last_offset": 20,
        "fingerprint": "f1",
    }
    return FindingLine(kind=kind, **(about | more))
