"""observations.jsonl: what kchaos did and saw while it played a run.

A high watermark that was seen in a checkpoint is an action of the model's too. Since format 4 its
line has the last zxid, "zxid", and `high_watermarks` makes the actions of it. Until format 3 lines
of actions.jsonl have them, and settling says once more which it pinned.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.forms import check_observation
from kchaos.checkers.json_form import SOMETIMES, ShapeError
from kchaos.checkers.model.values.events import HighWatermarkObserved

OBSERVATIONS = "observations.jsonl"
ADDRESSES_GIVEN = "addresses-given"
"""Somebody asked for the addresses at which brokers serve clients."""
FREE_CLIENTS_STARTED, FREE_CLIENTS_STOPPED = "free-clients-started", "free-clients-stopped"
"""Clients that never wait began and ended; the latter says what they did."""
HIGH_WATERMARK = "high-watermark"
"""Checkpoints hold a high watermark: one that a gate waited for, or the last one."""
HIGH_WATERMARK_KEPT = "high-watermark-kept"
HIGH_WATERMARK_FORGOTTEN = "high-watermark-forgotten"
HIGH_WATERMARK_NOT_PINNED = "high-watermark-not-pinned"
"""Settling waited in vain for the last high watermark to be in checkpoints."""
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
    detail: Mapping[str, Any] = field(default_factory=dict, metadata=SOMETIMES)
    read_at: str = ""

    def text(self, name: str) -> str:
        """A field of the detail, for people."""
        return str(self.detail.get(name))


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
    lines: Iterable[Observed], ended: int
) -> Iterator[tuple[TopicPartition, int]]:
    """Yields partition and broker of each checkpoint in which the last high watermark was seen.

    Args:
        ended: The number of the scenario's steps; what was seen after them is the last one.
    """
    for line in lines:
        if line.kind == _PINNED:
            partition = TopicPartition(line.detail["topic"], line.detail["partition"])
            yield from [(partition, broker) for broker in line.detail["brokers"]]
        elif line.kind == HIGH_WATERMARK and line.step >= ended and "zxid" in line.detail:
            for event in high_watermarks_in(line):
                yield TopicPartition(event.topic, event.partition), event.broker


def high_watermarks_in(line: Observed) -> Iterator[HighWatermarkObserved]:
    """Yields what the line says of the high watermarks in brokers' checkpoints."""
    detail = line.detail
    if line.kind == HIGH_WATERMARK:
        marks = {int(broker): mark for broker, mark in detail["seen"].items()}
    elif line.kind == HIGH_WATERMARK_KEPT:
        marks = dict.fromkeys(detail["brokers"], detail["value"])
    elif line.kind == HIGH_WATERMARK_FORGOTTEN:
        marks = {detail["broker"]: 0}
    else:
        return
    for broker, mark in marks.items():
        yield HighWatermarkObserved(
            broker=broker,
            topic=detail["topic"],
            partition=detail["partition"],
            high_watermark=mark,
        )


def high_watermarks(files: EvidenceFiles, lines: Iterable[Observed]) -> Iterator[TimedEvent]:
    """Yields high watermarks that were seen as actions, of lines as they are since format 4."""
    for line in lines:
        seen = tuple(high_watermarks_in(line))
        zxid = line.detail.get("zxid")
        if zxid is not None:
            for event in seen:
                yield TimedEvent(
                    event=event,
                    zxid=zxid,
                    time=line.time,
                    step=line.step,
                    began=line.time,
                    read_at=line.read_at,
                )
        elif seen:
            files.lacks(line.read_at, ("zxid",))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeClientWait:
    """A time in which nothing was acknowledged of what such a client wrote to a partition.

    Attributes:
        began: When it handed on the first record that waited, in seconds since the epoch.
        ended: When one was acknowledged, or when it stopped.
    """

    about: TopicPartition
    client: str
    began: float
    ended: float


def free_client_waits(lines: Iterable[Observed]) -> Iterator[FreeClientWait]:
    """Yields what clients that run freely said of their own writes."""
    for line in lines:
        if line.kind == FREE_CLIENTS_STOPPED:
            for wait in line.detail["waits"]:
                yield FreeClientWait(
                    about=TopicPartition(line.detail["topic"], wait["partition"]),
                    client=wait["client"],
                    began=wait["began"],
                    ended=wait["ended"],
                )
