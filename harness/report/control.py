"""Control requests for the report: the broker epoch that each carried, beside the one in force."""

from collections.abc import Sequence
from dataclasses import dataclass

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.report.loading import Loaded

ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """One answered control request.

    Attributes:
        time: Of the answer, in seconds since 1970.
        carried: What it said of the broker's generation, "none" where its version says nothing.
        in_force: The czxid of the broker's registration when it arrived.
        answer: In words.
        is_late: Whether it was meant for an earlier generation.
    """

    time: float
    request: str
    partitions: str
    carried: str
    in_force: str
    answer: str
    is_late: bool


def control_rows(loaded: Loaded) -> tuple[ControlRow, ...]:
    """Return every answered control request, late ones too; none without links."""
    try:
        requests = loaded.evidence.control
    except CheckError:
        return ()  # The judgement says what cannot be read.
    return tuple(_row(request) for request in requests or ())


def most_of(rows: Sequence[ControlRow], most: int) -> tuple[ControlRow, ...]:
    """Return at most `most` rows, in order; late ones stay longest."""
    if len(rows) <= most:
        return tuple(rows)
    ordinary = [row for row in rows if not row.is_late]
    left_out = {id(row) for row in ordinary[: len(rows) - most]}
    return tuple(row for row in rows if id(row) not in left_out)


def _row(request: ControlRequest) -> ControlRow:
    names = sorted({f"{topic}-{partition}" for topic, partition, _ in request.partitions})
    answer = {0: ACCEPTED, ErrorCode.STALE_BROKER_EPOCH: "STALE_BROKER_EPOCH (77)"}.get(
        request.error_code, f"error {request.error_code}"
    )
    made = ", made by kchaos" if request.is_made else ""
    return ControlRow(
        time=request.time,
        request=f"{request.api} v{request.version} to broker {request.target}{made}",
        partitions=", ".join(names),
        carried="none" if request.broker_epoch is None else str(request.broker_epoch),
        in_force=f"{request.in_force} of broker {request.broker}",
        answer=f"late (for {request.meant_for}), {answer}" if request.is_late else answer,
        is_late=request.is_late,
    )
