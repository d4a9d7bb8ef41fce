"""observations.jsonl: what kchaos did and saw while it played a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.forms import check_observation
from kchaos.checkers.json_form import SOMETIMES, ShapeError

OBSERVATIONS = "observations.jsonl"
ADDRESSES_GIVEN = "addresses-given"
"""Somebody asked for the addresses at which brokers serve clients."""
FREE_CLIENTS_STARTED, FREE_CLIENTS_STOPPED = "free-clients-started", "free-clients-stopped"
"""Clients that never wait began and ended; the latter says what they did."""
HIGH_WATERMARK = "high-watermark"
"""Checkpoints hold what a gate waited for; after the last step that is the last high watermark."""
HIGH_WATERMARK_NOT_PINNED = "high-watermark-not-pinned"
"""Settling waited in vain for a checkpoint to hold the last high watermark."""


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
    detail: Mapping[str, Any] = field(default_factory=dict, metadata=SOMETIMES)
    read_at: str = ""

    def text(self, name: str) -> str:
        """A field of the detail, for people."""
        return str(self.detail.get(name))

    def line(self) -> dict[str, Any]:
        """The line that `read_observed` reads as this: detail and the rest side by side."""
        return {"time": self.time, "step": self.step, "kind": self.kind, **self.detail}


def read_observed(files: EvidenceFiles) -> Iterator[Observed]:
    """Yields the lines, oldest first.

    Raises:
        ScenarioDataError: A line has no time, no kind, or a field of another type.
    """
    for line in files.lines(Observed, OBSERVATIONS, rest="detail"):
        try:
            check_observation(line.kind, line.detail)
        except ShapeError as error:
            raise ScenarioDataError(f"{files.place(line.read_at)}: {error}") from error
        yield line


def pinned_high_watermarks(
    lines: Iterable[Observed], steps: int
) -> Iterator[tuple[TopicPartition, int]]:
    """Yields partition and broker of each checkpoint in which the last high watermark was seen.

    Args:
        steps: How many the scenario has; what is seen from this index on is seen by settling.
    """
    for line in lines:
        if line.kind == HIGH_WATERMARK and line.step >= steps:
            partition = TopicPartition(line.detail["topic"], line.detail["partition"])
            yield from [(partition, int(broker)) for broker in line.detail["seen"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeClientWait:
    """A time in which nothing was acknowledged of what such a client wrote to a partition.

    Attributes:
        began: When it handed on the first record that waited, in seconds since the epoch.
        ended: When one was acknowledged, or when it stopped.
    """

    partition: TopicPartition
    client: str
    began: float
    ended: float


def free_client_waits(lines: Iterable[Observed]) -> Iterator[FreeClientWait]:
    """Yields what clients that run freely said of their own writes."""
    for line in lines:
        if line.kind == FREE_CLIENTS_STOPPED:
            for wait in line.detail["waits"]:
                yield FreeClientWait(
                    partition=TopicPartition(line.detail["topic"], wait["partition"]),
                    client=wait["client"],
                    began=wait["began"],
                    ended=wait["ended"],
                )
