"""Broker epochs (KIP-380): requests that reach another generation of a broker than was meant."""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, Side
from kchaos.checkers.findings import KINDS, Finding
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.values.prediction import OTHER_TOPIC

_UNTOLD = "generation-not-initialised"
_FENCED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)


def stale_request_accepted(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield each late control request that its receiver obeyed.

    Predicted, that is what the receiver's release does with such a broker epoch; whether another
    fence refused it (the controller epoch, the partition's leader epoch) is observed on both sides.

    **Verifies**: requests at the links that were meant for an earlier generation of the broker than
    the one in force when they arrived; see `checkers.evidence.broker_epochs` for how that is known.
    **Does not verify**: requests without a broker epoch that kchaos neither made nor kept back;
    anything in a run without links.
    """
    for request in evidence.late_requests if evidence.is_final else ():
        error_code = request.error_for(TopicPartition(evidence.topic, evidence.partition))
        is_accepted = not error_code if side == OBSERVED else not request.predicted_error_code
        if request.is_late and is_accepted and error_code in (0, ErrorCode.STALE_BROKER_EPOCH):
            yield evidence.finding(
                "stale-request-accepted",
                brokers=(request.target,),
                message=f"{KINDS['stale-request-accepted'].meaning}: {request.in_words()}",
                evidence=_shown(request),
            )


def generation_not_initialised(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield each registered broker that no control request informed of its replica.

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
    running = {replica.broker for replica in evidence.side(side) if replica.is_running}
    if side == OBSERVED:
        uninformed = set(evidence.never_informed) - _said_by_settling(evidence)
    else:
        uninformed = {
            replica.broker
            for replica in evidence.side(side)
            if not replica.is_hosted and replica.fetcher != OTHER_TOPIC
        }
    for broker in sorted(uninformed & running):
        yield evidence.finding(
            _UNTOLD,
            brokers=(broker,),
            message=f"{KINDS[_UNTOLD].meaning}: broker {broker} runs, is "
            "registered, and got none that names this partition since it started",
        )


def _said_by_settling(evidence: PartitionEvidence) -> set[int]:
    reasons = (evidence.settle or {}).get("reasons", ())
    return {reason.get("broker", -1) for reason in reasons if reason["kind"] == _UNTOLD}


def late_requests_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield each late request whose response is not its receiver's release's.

    **Verifies**: whether the broker epoch was refused, and with which error.
    **Does not verify**: what the receiver does otherwise, which logs and later requests show.
    """
    for request in evidence.late_requests if evidence.is_final else ():
        fenced = request.error_code if request.error_code in _FENCED else 0
        if fenced != request.predicted_error_code:
            yield evidence.finding(
                "not-as-predicted",
                brokers=(request.target,),
                message=f"{request.in_words()}; predicted was error {request.predicted_error_code}",
                evidence={
                    "what": "late-request",
                    "predicted": request.predicted_error_code,
                    "observed": request.error_code,
                }
                | _shown(request),
            )


def _shown(request: ControlRequest) -> dict[str, object]:
    return {
        "request": f"{request.api} v{request.version}",
        "broker_epoch": request.broker_epoch,
        "meant_for": request.meant_for,
        "in_force": request.in_force,
        "error_code": request.error_code,
        "is_made": request.is_made,
        "source": request.source,
    }
