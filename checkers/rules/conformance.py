"""Replicas, produces, rounds and decisions beside those that the model predicts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from kchaos.checkers.evidence.epoch_rounds import round_in_words
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import BatchEvidence, PartitionEvidence, ReplicaEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.values.prediction import EpochRound, PredictedProduce
from kchaos.checkers.rules.offsets import in_words

_OF_PRODUCER = re.compile(r"transactional|control|producer -?\d+, -?\d+, -?\d+")


def replicas_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield how each replica differs: batches, epoch cache, high watermark, process.

    **Verifies**, at every snapshot: each batch's offsets, leader epoch, magic and payload; what
    a batch of others' clients says of its producer, and of a transaction that it ends; the
    entries of leader-epoch-checkpoint; the log start, which a checkpoint may lag behind where
    brokers may delete; the checkpointed high watermark. That one must be the one that memory holds
    where a gate or settling saw it in that broker's checkpoint and nothing has
    moved it since; where the process has ended, one that the file could hold. Elsewhere the
    checkpoint lags behind memory: it lies between what memory has had since it was last known.
    **Does not verify**: a predicted log end offset behind the last batch, which no file tells;
    codecs and timestamps, which are not predicted; indexes.
    """
    if evidence.predicted is None:
        return
    observed = {replica.broker: replica for replica in evidence.replicas}
    predicted = {replica.broker: replica for replica in evidence.predicted}
    for broker in sorted(observed.keys() | predicted.keys()):
        real = observed.get(broker) or ReplicaEvidence(broker=broker, is_running=False)
        expected = predicted.get(broker)
        if expected is not None:
            yield from _replica(evidence, real, expected)
        elif real.batches:
            yield _not_as_predicted(
                evidence,
                broker,
                "it holds a log that is not predicted at all",
                predicted=None,
                observed=[batch.header() for batch in real.batches[:20]],
            )


def observations_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield each high watermark that a gate saw checkpointed although the model excludes it.

    **Verifies**: at the moment of each `HighWatermarkObserved`, that the checkpoint file of that
    broker could hold the value: memory held it, and no later value was observed before.
    **Does not verify**: what no gate looked at.
    """
    for mark in evidence.impossible if evidence.is_final else ():
        yield _not_as_predicted(
            evidence,
            mark.broker,
            f"its checkpointed high watermark was seen at {mark.high_watermark} (event "
            f"{mark.index} of the timeline); predicted was one of {list(mark.allowed)}",
            what="high-watermark-observed",
            predicted=list(mark.allowed),
            observed=[mark.high_watermark],
        )


def produces_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield each produce whose outcome is not the predicted one.

    **Verifies**: acknowledged or not, base offset, and Kafka's error. A produce that the model
    leaves waiting must not have been acknowledged.
    **Does not verify**: a produce whose answer never came, since nobody knows; that a produce waits
    for good, if a client that is not kchaos's own was answered after files began to be copied,
    since the links' record ends then; a produce that timed out in the broker, since the model has
    no clock; a probe of settling that the topic's settings forbid; reads.
    """
    if not evidence.is_final or evidence.predicted is None:
        return
    predicted = {produce.operation: produce for produce in evidence.predicted_produces}
    for operation in evidence.operations:
        if operation.function != "produce" or operation.is_refused_probe:
            continue
        expected = predicted.get(operation.operation)
        is_left_waiting = expected is not None and expected.acknowledged is None
        if is_left_waiting and evidence.is_told_too_late(operation):
            continue
        if expected is None or not _is_outcome(operation, expected):
            yield evidence.finding(
                "not-as-predicted",
                brokers=(operation.broker,),
                first_offset=operation.base_offset,
                last_offset=operation.last_offset,
                message=f"produce {operation.operation} did not end as predicted: "
                f"{_told(operation)}; predicted was {_foretold(expected)}",
                evidence={
                    "what": "produce",
                    "operation": operation.operation,
                    "predicted": None if expected is None else asdict(expected),
                    "observed": {
                        "outcome": operation.outcome,
                        "base_offset": operation.base_offset,
                        "error": operation.error,
                    },
                },
            )


def rounds_as_predicted(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield each follower's first OffsetForLeaderEpoch round that is not as predicted.

    **Verifies**: number and order of the answered questions of each follower, whom it asked, the
    requested epoch, the answered epoch and end offset, and whether it was asked by Fetch.
    **Does not verify**: anything in a run without links; answers with an error.
    """
    if not evidence.is_final or evidence.predicted is None or evidence.rounds is None:
        return
    followers = {asked.follower for asked in (*evidence.rounds, *evidence.predicted_rounds)}
    for follower in sorted(followers):
        real = [epoch_round for epoch_round in evidence.rounds if epoch_round.follower == follower]
        expected = [
            epoch_round
            for epoch_round in evidence.predicted_rounds
            if epoch_round.follower == follower
        ]
        if real == expected:
            continue
        index = next(i for i, pair in enumerate(zip_longest(real, expected)) if pair[0] != pair[1])
        yield _not_as_predicted(
            evidence,
            follower,
            f"question {index + 1} for a leader epoch: {_round(real, index)}; predicted was: "
            f"{_round(expected, index)}",
            what="round",
            predicted=[asdict(batch) for batch in expected],
            observed=[asdict(batch) for batch in real],
        )


def decisions_allowed(evidence: PartitionEvidence) -> Iterator[Finding]:
    """Yield each decision about the partition that its controller's or leader's release forbids.

    **Verifies**, **Does not verify**: see `checkers.model.controller.allowed`.
    """
    if evidence.is_final:
        for disallowed in evidence.disallowed:
            yield evidence.finding(
                "decision-not-allowed",
                message=f"{disallowed.decision.get('event', 'a decision')}: {disallowed.reason}",
                evidence=asdict(disallowed),
            )


def _replica(
    evidence: PartitionEvidence, real: ReplicaEvidence, expected: ReplicaEvidence
) -> Iterator[Finding]:
    broker = real.broker
    # What was deleted of the beginning is the log start's matter.
    first = real.first_offset if evidence.may_delete else 0
    there = [batch for batch in expected.batches if batch.base_offset >= first]
    differing = [
        pair
        for pair in zip_longest(real.batches, there)
        if _identity(pair[0]) != _identity(pair[1]) or _is_marked_otherwise(*pair)
    ]
    if differing:
        both = [batch for pair in differing for batch in pair if batch is not None]
        yield _not_as_predicted(
            evidence,
            broker,
            f"its batches differ from the predicted ones, from {_shown(differing[0][0])} on; "
            f"predicted was {_shown(differing[0][1])}",
            first_offset=min(batch.base_offset for batch in both),
            last_offset=max(batch.last_offset for batch in both),
            what="batches",
            predicted=[pair[1].header() for pair in differing[:20] if pair[1] is not None],
            observed=[pair[0].header() for pair in differing[:20] if pair[0] is not None],
        )
    if not _are_entries(evidence, real, expected):
        yield _not_as_predicted(
            evidence,
            broker,
            f"its leader epoch cache is {_pairs(real.epoch_entries)}; predicted was "
            f"{_pairs(expected.epoch_entries)}",
            what="epoch-entries",
            predicted=_pairs(expected.epoch_entries),
            observed=_pairs(real.epoch_entries),
        )
    if not _is_high_watermark(real, expected):
        yield _not_as_predicted(
            evidence,
            broker,
            f"its checkpointed high watermark is {_mark(real)}; predicted was "
            f"{_marks(real, expected)}",
            what="high-watermark",
            predicted=list(expected.high_watermarks),
            observed=list(real.high_watermarks),
        )
    yield from _log_start(evidence, real, expected)
    if real.is_running != expected.is_running and (real.is_running or real.is_registered):
        yield _not_as_predicted(
            evidence,
            broker,
            f"its process {'runs' if real.is_running else 'does not run'}, against the prediction",
            what="process",
            predicted=expected.is_running,
            observed=real.is_running,
        )


def _log_start(
    evidence: PartitionEvidence, real: ReplicaEvidence, expected: ReplicaEvidence
) -> Iterator[Finding]:
    found, start = real.log_start_offset, expected.log_start_offset
    if found > start or (found < start and not evidence.may_delete):
        why = " at most" if evidence.may_delete else ", since nothing was to be deleted"
        yield _not_as_predicted(
            evidence,
            real.broker,
            f"its log starts at {found}; predicted was {start}{why}",
            what="log-start",
            predicted=start,
            observed=found,
        )


def _are_entries(
    evidence: PartitionEvidence, real: ReplicaEvidence, expected: ReplicaEvidence
) -> bool:
    # A release without the checkpoint has no entries, and neither has a cache that is empty.
    entries, wanted = real.epoch_entries or (), expected.epoch_entries or ()
    is_at_rest = evidence.is_final and (evidence.settle or {}).get("state") != "failed"
    if expected.may_keep_dropped_epochs and not is_at_rest:
        entries = entries[: len(wanted)]
    return entries == wanted


def _is_high_watermark(real: ReplicaEvidence, expected: ReplicaEvidence) -> bool:
    if _is_pinned(real, expected):
        return real.high_watermarks == expected.high_watermarks[:1]
    if not real.high_watermarks or not expected.high_watermarks:
        return True
    checkpointed = real.high_watermarks[0]
    if not real.is_running:
        return checkpointed in expected.high_watermarks
    return min(expected.high_watermarks) <= checkpointed <= max(expected.high_watermarks)


def _is_pinned(real: ReplicaEvidence, expected: ReplicaEvidence) -> bool:
    if not (real.is_running and expected.is_running and expected.high_watermarks):
        return False
    return real.is_high_watermark_pinned or expected.is_high_watermark_pinned


def _mark(real: ReplicaEvidence) -> str:
    return str(real.high_watermarks[0]) if real.high_watermarks else "not there"


def _marks(real: ReplicaEvidence, expected: ReplicaEvidence) -> str:
    if _is_pinned(real, expected):
        return f"{expected.high_watermarks[0]}, which the run saw there before"
    if real.is_running:
        return f"{min(expected.high_watermarks)} to {max(expected.high_watermarks)}"
    return f"one of {list(expected.high_watermarks)}"


def _identity(batch: BatchEvidence | None) -> tuple[object, ...] | None:
    if batch is None:
        return None
    return (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic, batch.payload)


def _is_marked_otherwise(real: BatchEvidence | None, expected: BatchEvidence | None) -> bool:
    """Return whether a batch has another producer, epoch or sequence than the model's."""
    if real is None or expected is None or expected.marks is None:
        return False
    said = _OF_PRODUCER.findall(real.marks or "")
    return said != _OF_PRODUCER.findall(expected.marks)


def _is_outcome(operation: Operation, expected: PredictedProduce) -> bool:
    if operation.outcome == "ok":
        return expected.acknowledged is True and expected.base_offset == operation.base_offset
    if operation.error_code == ErrorCode.REQUEST_TIMED_OUT and operation.acks == -1:
        return True
    if operation.outcome in ("info", "pending") and not operation.error_code:
        return True
    if operation.error_code:
        return expected.acknowledged is False and expected.error == operation.error
    return expected.acknowledged is not True


def _not_as_predicted(
    evidence: PartitionEvidence,
    broker: int,
    what_differs: str,
    *,
    what: str = "batches",
    first_offset: int = -1,
    last_offset: int = -1,
    predicted: Any,
    observed: Any,
) -> Finding:
    return evidence.finding(
        "not-as-predicted",
        brokers=(broker,),
        first_offset=first_offset,
        last_offset=last_offset,
        message=f"broker {broker}: {what_differs}",
        evidence={"what": what, "predicted": predicted, "observed": observed},
    )


def _pairs(entries: tuple[tuple[int, int], ...] | None) -> list[list[int]] | None:
    return None if entries is None else [list(entry) for entry in entries]


def _shown(batch: BatchEvidence | None) -> str:
    if batch is None:
        return "nothing"
    return (
        f"{in_words(batch.base_offset, batch.last_offset)} of epoch {batch.leader_epoch}, "
        f"magic {batch.magic}, payload {batch.payload}"
        + (f", {batch.marks}" if batch.marks else "")
    )


def _round(rounds: Sequence[EpochRound], index: int) -> str:
    if index >= len(rounds):
        return "none"
    return round_in_words(rounds[index])


def _told(operation: Operation) -> str:
    if operation.outcome == "ok":
        return f"acknowledged at offset {operation.base_offset}"
    return f"{operation.outcome} ({operation.error or 'no answer'})"


def _foretold(expected: PredictedProduce | None) -> str:
    if expected is None:
        return "nothing"
    if expected.acknowledged is None:
        return "that it still waits"
    if expected.acknowledged:
        return f"an acknowledgement at offset {expected.base_offset}"
    return f"the error {expected.error or 'of any kind'}"
