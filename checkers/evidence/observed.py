"""observations.jsonl: what kchaos did and saw while it played a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.json_form import ShapeError, from_json

OBSERVATIONS = "observations.jsonl"
ADDRESSES_GIVEN = "addresses-given"
"""Somebody asked for the addresses at which brokers serve clients."""
_PINNED = "high-watermarks-pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One line: a step, an act, a fault, a broker, what a gate or settling saw.

    Attributes:
        time: Seconds since the epoch.
        kind: Such as "step", "injected" or "broker".
        step: Index of the scenario's step, -1 for none.
        detail: All that the line says.
        read_at: File and line.
    """

    time: float
    kind: str
    step: int = -1
    detail: Mapping[str, Any] = field(default_factory=dict)
    read_at: str = ""

    def text(self, name: str) -> str:
        """A field of the detail, for people."""
        return str(self.detail.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    topic: str
    partition: int
    brokers: tuple[int, ...]


def read_observed(files: EvidenceFiles) -> Iterator[Observed]:
    """Yields the lines, oldest first.

    Raises:
        ScenarioDataError: A line has no time or no kind.
    """
    yield from files.lines(Observed, OBSERVATIONS, rest="detail")


def pinned_high_watermarks(
    lines: Iterable[Observed],
) -> Iterator[tuple[TopicPartition, int]]:
    """Yields partition and broker of each checkpoint in which the last high watermark was seen.

    Raises:
        ScenarioDataError: A line does not say which.
    """
    for line in lines:
        if line.kind != _PINNED:
            continue
        try:
            pinned = from_json(_Pinned, line.detail, allow_more=True)
        except ShapeError as error:
            raise ScenarioDataError(
                f"{line.read_at} does not say which high watermarks were pinned: {error}"
            ) from error
        about = TopicPartition(pinned.topic, pinned.partition)
        yield from [(about, broker) for broker in pinned.brokers]
