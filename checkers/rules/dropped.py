"""What followers could not help that left the ISR because their leader did not answer them."""

import math
from collections.abc import Iterator

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import DroppedFollower, PartitionEvidence, Side
from kchaos.checkers.findings import Finding

_NOT_ENOUGH_REPLICAS = (19, 20)


def dropped_while_waiting(evidence: PartitionEvidence, _side: Side) -> Iterator[Finding]:
    """Yields that a partition was offline, or refused writes, for want of healthy followers.

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
    leaderless = [one for one in evidence.dropped if one.leaderless_at is not None]
    if leaderless:
        yield evidence.finding(
            "offline-partition",
            brokers=_brokers(leaderless),
            message="the partition had no leader, although followers ran that had left the ISR "
            f"while they waited for their leader {leaderless[0].leader} to answer: "
            + "; ".join(_told(one) for one in leaderless),
            evidence=_shown(leaderless),
        )
    refused = [one for one in evidence.operations if _is_refused(evidence, one)]
    if refused:
        missed = [one for one in evidence.dropped if any(_out(one, each) for each in refused)]
        yield evidence.finding(
            "under-min-isr",
            brokers=_brokers(missed),
            message=f"{len(refused)} writes with acks=all were refused, although with followers "
            f"that had left the ISR while they waited for their leader {missed[0].leader} to "
            f"answer {evidence.min_insync_replicas} would have been in sync: "
            + "; ".join(_told(one) for one in missed),
            evidence=_shown(missed) | {"refused": [one.operation for one in refused]},
        )


def _is_refused(evidence: PartitionEvidence, operation: Operation) -> bool:
    if operation.acks != -1 or operation.error_code not in _NOT_ENOUGH_REPLICAS:
        return False
    isr = set(operation.isr_when_ended)
    healthy = {one.broker for one in evidence.dropped if _out(one, operation)}
    return len(isr) < evidence.min_insync_replicas <= len(isr | healthy)


def _out(one: DroppedFollower, operation: Operation) -> bool:
    """Whether the follower was outside the ISR when the operation ended."""
    until = math.inf if one.ended_at is None else one.ended_at
    return operation.ended_at is not None and one.dropped_at <= operation.ended_at < until


def _brokers(dropped: list[DroppedFollower]) -> tuple[int, ...]:
    return tuple(sorted({one.broker for one in dropped}))


def _told(one: DroppedFollower) -> str:
    end = "to the end" if one.ended_at is None else f"for {one.ended_at - one.dropped_at:.1f} s"
    waited_s = one.dropped_at - one.kept_from
    return f"broker {one.broker} had waited {waited_s:.1f} s, and was out {end}"


def _shown(dropped: list[DroppedFollower]) -> dict[str, object]:
    """Seconds from the fetch to the drop, without a leader, and outside the ISR, by broker."""
    return {
        "dropped": [
            {
                "broker": one.broker,
                "leader": one.leader,
                "waited_s": round(one.dropped_at - one.kept_from, 3),
                "leaderless_s": _seconds(one.leaderless_at, one.ended_at),
                "out_s": _seconds(one.dropped_at, one.ended_at),
            }
            for one in dropped
        ]
    }


def _seconds(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 3)
