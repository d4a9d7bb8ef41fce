"""observations.jsonl: what kchaos did and saw while it played a run."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.observations import Observation, fields_of, kind_of, observation_in

OBSERVATIONS = "observations.jsonl"
_What = TypeVar("_What", bound=Observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One line.

    Attributes:
        time: Seconds since the epoch.
        step: Index of the scenario's step, -1 for none.
        read_at: File and line.
    """

    time: float
    what: Observation
    step: int = -1
    read_at: str = ""

    @property
    def kind(self) -> str:
        """Such as "step", "injected" or "broker"."""
        return kind_of(self.what)

    def line(self) -> dict[str, Any]:
        """Return the line that `read_observed` reads as this observation."""
        return {"time": self.time, "step": self.step, "kind": self.kind, **fields_of(self.what)}

    def plain(self) -> dict[str, Any]:
        """Return the line as JSON has it: with lists, and with text for each name."""
        plain: dict[str, Any] = json.loads(json.dumps(self.line()))
        return plain


def read_observed(files: EvidenceFiles) -> Iterator[Observed]:
    """Yield the lines, oldest first.

    Raises:
        ScenarioDataError: A line has no time, no kind, or a field of another type.
    """
    return files.lines(Observed, OBSERVATIONS, what=observation_in)


def lines_of(lines: Iterable[Observed], kind: type[_What]) -> Iterator[tuple[Observed, _What]]:
    """Yield the lines of one kind, each with its content."""
    for line in lines:
        if isinstance(line.what, kind):
            yield line, line.what
