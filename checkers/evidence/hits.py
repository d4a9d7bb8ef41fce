"""hits.jsonl: threads of brokers that came to a named point of Kafka's code."""

from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.formats.point_hit import PointHit

HITS = "hits.jsonl"


def read_hits(files: EvidenceFiles) -> tuple[PointHit, ...]:
    """Return the hits in the order of their recording; none if no broker had an agent.

    Raises:
        ScenarioDataError: A line lacks a documented field.
    """
    return tuple(files.lines(PointHit, HITS))
