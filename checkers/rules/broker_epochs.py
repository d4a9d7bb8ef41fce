"""What goes wrong between the generations of a broker (KIP-380)."""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, Side
from kchaos.checkers.findings import KINDS, Finding
from kchaos.checkers.formats.error_codes import ErrorCode

_UNTOLD = "generation-not-initialised"
_FENCED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)


def stale_request_accepted(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yields each late control request that its receiver obeyed.

    Predicted, that is what the receiver's release does with such a broker epoch; whether another
    fence refused it (the controller epoch, the partition's leader epoch) is observed on both sides.

    **Verifies**: requests at the links that were meant for an earlier generation of the broker than
    the one in force when they arrived; see `checkers.evidence.broker_epochs` for how that is known.
    **Does not verify**: requests without a broker epoch that kchaos neither made nor kept back;
    anything in a run without links.
    """
    for one in evidence.late_requests if evidence.is_final else ():
        error_code = one.error_for(TopicPartition(evidence.topic, evidence.partition))
        is_accepted = not error_code if side == OBSERVED else not one.predicted_error_code
        if one.is_late and is_accepted and error_code in (0, ErrorCode.STALE_BROKER_EPOCH):
            yield evidence.finding(
                "stale-request-accepted",
                brokers=(one.target,),
                message=f"{KINDS['stale-request-accepted'].meaning}: {one.in_words()}",
                evidence=_shown(one),
            )


def generation_not_initialised(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yields each registered broker that nobody has told of its replica.

    Settling says so of a broker that was told nothing at all (`not_settled`); this is about each
    partition. Predicted, a broker of the model that no LeaderAndIsr about the partition reached.

    **Verifies**, at the last snapshot: a broker of the assignment whose process runs and is
    registered, and to which no LeaderAndIsr about the partition has come since its start, or none
    that it did not refuse as a whole.
    **Does not verify**: a broker that registered again without a restart, which goes on with what
    it knows; anything in a run without links, or in one that ended before it settled: there the
    request may just not have come yet.
    """
    if not evidence.is_final or (side == OBSERVED and evidence.settle is None):
        return
    running = {one.broker for one in evidence.side(side) if one.is_running}
    if side == OBSERVED:
        found = set(evidence.never_told) - _said_by_settling(evidence)
    else:
        found = {one.broker for one in evidence.side(side) if not one.is_hosted}
    for broker in sorted(found & running):
        yield evidence.finding(
            _UNTOLD,
            brokers=(broker,),
            message=f"{KINDS[_UNTOLD].meaning}: broker {broker} runs, is "
            "registered, and got none that names this partition since it started",
        )


def _said_by_settling(evidence: PartitionEvidence) -> set[int]:
    reasons = (evidence.settle or {}).get("reasons", ())
    return {one.get("broker", -1) for one in reasons if one["kind"] == _UNTOLD}


def late_requests_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yields each late request whose answer is not that of its receiver's release.

    **Verifies**: whether the broker epoch was refused, and with which error.
    **Does not verify**: what the receiver does otherwise, which logs and later requests show.
    """
    for one in evidence.late_requests if evidence.is_final else ():
        fenced = one.error_code if one.error_code in _FENCED else 0
        if fenced != one.predicted_error_code:
            yield evidence.finding(
                "not-as-predicted",
                brokers=(one.target,),
                message=f"{one.in_words()}; predicted was error {one.predicted_error_code}",
                evidence={
                    "what": "late-request",
                    "predicted": one.predicted_error_code,
                    "observed": one.error_code,
                }
                | _shown(one),
            )


def _shown(one: ControlRequest) -> dict[str, object]:
    return {
        "request": f"{one.api} v{one.version}",
        "broker_epoch": one.broker_epoch,
        "meant_for": one.meant_for,
        "in_force": one.in_force,
        "error_code": one.error_code,
        "is_made": one.is_made,
        "source": one.source,
    }
