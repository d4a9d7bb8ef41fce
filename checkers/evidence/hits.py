"""hits.jsonl: threads of brokers that came to a named point of Kafka's code."""

from dataclasses import dataclass
from typing import Literal

from kchaos.checkers.evidence.files import EvidenceFiles

HITS = "hits.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointHit:
    """One thread at a point, or its going on; `clusters.agent.hits.Hit` says what each field means.

    Attributes:
        time: Seconds since the epoch.
        read_at: File and line.
    """

    time: float
    number: int
    broker: int
    life: int
    point: str
    thread: str
    reader: str
    seen: str
    fate: Literal["passed", "held", "released", "delayed", "skipped", "gone", "told", "failed"]
    hold: str
    read_at: str = ""


def read_hits(files: EvidenceFiles) -> tuple[PointHit, ...]:
    """The hits in the order in which they were recorded; none where no broker had an agent.

    Raises:
        ScenarioDataError: A line lacks a documented field.
    """
    return tuple(files.lines(PointHit, HITS))
