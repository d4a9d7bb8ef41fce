"""Followers that left the ISR because their leader did not answer them."""

import math
from collections.abc import Iterator
from itertools import pairwise

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import DroppedFollower, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.error_codes import ErrorCode

_NOT_ENOUGH_REPLICAS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def dropped_while_waiting(evidence: PartitionEvidence, _side: Side) -> Iterator[Finding]:
    """Yield each partition that was offline, or refused writes, for want of healthy followers.

    A follower is healthy that ran, was registered, and had a fetch at its leader which the leader
    did not begin to read within replica.fetch.wait.max.ms (KIP-501). If such a follower left the
    ISR and the partition lost its leader while it was out, that is `offline-partition`; if a write
    with acks=all was refused that the ISR with these followers would have taken, that is
    `under-min-isr`. Both are found also if everything worked again after healing. The ISR is what
    the cluster decided, which the model is given: so the rule says the same of both sides.

    **Verifies**: the whole run, once, at the last snapshot.
    **Does not verify**: reads that are slow by themselves, since only what a fault keeps at a named
    point shows that it was kept; writes that nobody tried.
    """
    if not evidence.is_final:
        return
    leaderless = [follower for follower in evidence.dropped if follower.leaderless_at is not None]
    if leaderless:
        failed = [
            operation
            for operation in evidence.operations
            if _failed_meanwhile(operation, leaderless)
        ]
        yield evidence.finding(
            "offline-partition",
            brokers=_brokers(leaderless),
            message=f"the partition had no leader for "
            f"{_offline_s(evidence, leaderless):.1f} s, although followers ran "
            f"that had left the ISR while they waited for their leader {leaderless[0].leader} to "
            "answer: "
            + "; ".join(_told(span) for span in leaderless)
            + (f"; writes that failed meanwhile: {len(failed)}" if failed else ""),
            evidence=_shown(leaderless)
            | {
                "offline_s": round(_offline_s(evidence, leaderless), 3),
                "refused": [fetch.operation for fetch in failed],
            },
        )
    refused = [operation for operation in evidence.operations if _is_refused(evidence, operation)]
    if refused:
        missed = [
            follower
            for follower in evidence.dropped
            if any(_out(follower, each) for each in refused)
        ]
        under_s = _under_min_isr_s(evidence, refused[0])
        yield evidence.finding(
            "under-min-isr",
            brokers=_brokers(missed),
            message=f"{len(refused)} write{'s' if len(refused) > 1 else ''} with acks=all refused "
            f"within {under_s:.1f} s. Followers had left the ISR while they waited for their "
            f"leader {missed[0].leader} to answer. With them "
            f"{evidence.min_insync_replicas} replicas would have been in sync: "
            + "; ".join(_told(dropped) for dropped in missed),
            evidence=_shown(missed)
            | {
                "under_min_isr_s": round(under_s, 3),
                "refused": [operation.operation for operation in refused],
            },
        )


def _is_refused(evidence: PartitionEvidence, operation: Operation) -> bool:
    if operation.acks != -1 or operation.error_code not in _NOT_ENOUGH_REPLICAS:
        return False
    isr = set(operation.isr_when_ended)
    healthy = {follower.broker for follower in evidence.dropped if _out(follower, operation)}
    return len(isr) < evidence.min_insync_replicas <= len(isr | healthy)


def _failed_meanwhile(operation: Operation, leaderless: list[DroppedFollower]) -> bool:
    """Return whether a write of the scenario failed while the partition had no leader."""
    if operation.function != "produce" or operation.is_probe or operation.outcome == "ok":
        return False
    return any(
        (span.leaderless_at or 0.0) <= (operation.ended_at or 0.0) < _end(span)
        for span in leaderless
    )


def _offline_s(evidence: PartitionEvidence, leaderless: list[DroppedFollower]) -> float:
    """Return the seconds without a leader while a dropped follower was out, until the snapshot."""
    ends = [min(_end(span), evidence.snapshot_time) for span in leaderless]
    return max(ends) - min(span.leaderless_at or 0.0 for span in leaderless)


def _under_min_isr_s(evidence: PartitionEvidence, refused: Operation) -> float:
    """Return the seconds under min.insync.replicas because of followers that waited."""
    healthy = {follower.broker for follower in evidence.dropped if _out(follower, refused)}
    most = len(set(refused.isr_when_ended) | healthy)
    spans = [
        (follower.dropped_at, min(_end(follower), evidence.snapshot_time))
        for follower in evidence.dropped
    ]
    times = sorted({time for span in spans for time in span})
    return sum(
        until - since
        for since, until in pairwise(times)
        if most - sum(begin <= since < end for begin, end in spans) < evidence.min_insync_replicas
    )


def _end(follower: DroppedFollower) -> float:
    return math.inf if follower.ended_at is None else follower.ended_at


def _out(follower: DroppedFollower, operation: Operation) -> bool:
    """Return whether the follower was outside the ISR when the operation ended."""
    return operation.ended_at is not None and follower.dropped_at <= operation.ended_at < _end(
        follower
    )


def _brokers(dropped: list[DroppedFollower]) -> tuple[int, ...]:
    return tuple(sorted({follower.broker for follower in dropped}))


def _told(follower: DroppedFollower) -> str:
    end = (
        "to the end"
        if follower.ended_at is None
        else f"for {follower.ended_at - follower.dropped_at:.1f} s"
    )
    waited_s = follower.dropped_at - follower.kept_from
    return f"broker {follower.broker} had waited {waited_s:.1f} s, and was out {end}"


def _shown(dropped: list[DroppedFollower]) -> dict[str, object]:
    """Return seconds from fetch to drop, without a leader, and outside the ISR, by broker."""
    return {
        "dropped": [
            {
                "broker": follower.broker,
                "leader": follower.leader,
                "waited_s": round(follower.dropped_at - follower.kept_from, 3),
                "leaderless_s": _seconds(follower.leaderless_at, follower.ended_at),
                "out_s": _seconds(follower.dropped_at, follower.ended_at),
            }
            for follower in dropped
        ]
    }


def _seconds(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 3)
