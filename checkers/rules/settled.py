"""Liveness after healing: replication that stopped, partitions without a leader, and the like."""

from collections.abc import Iterator
from typing import Any

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, ReplicaEvidence, Side
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS, Finding
from kchaos.checkers.model.values.prediction import OTHER_TOPIC
from kchaos.checkers.rules.compare import differing_ranges
from kchaos.checkers.rules.offsets import covered, headers, without

_STOPPED = ("failed", "dead-thread", "truncating", "cannot-rebuild", OTHER_TOPIC)


def not_settled(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield the reasons that settling gave, or those of the model's fetchers.

    Observed, these are the reasons in `outcome.json`, one finding for each kind and broker, with
    what the replica's log has in other than the leader's as evidence. Predicted, replication has
    stopped for a running replica outside the ISR whose fetcher is failed, dead or for ever
    truncating, and for one outside the ISR whose broker ended itself. It has for one, leader or
    not, whose broker refuses its leader epoch since its folder is another topic's. Besides, on both
    sides: a partition without a leader although a broker of its ISR runs is `offline-partition`;
    fewer in-sync replicas than min.insync.replicas, although enough replicas run, is
    `under-min-isr`.

    A reason that the last snapshot, which is taken later, refutes is no finding: replication to a
    follower has not stopped if it is in the ISR then and holds exactly what the leader holds, the
    probe write of settling included; nor if a reassignment took the replica away. (From 2.3 on a
    broker logs that a partition failed, and takes it up again with the next LeaderAndIsr.) Neither
    has it stopped where settling gave no reason and the last assignment leaves the broker out: a
    late LeaderAndIsr may have made it a replica again, which nobody waits for.

    **Verifies**: the last snapshot, after settling.
    **Does not verify**: a run that ended before it settled, whose last snapshot shows a cluster in
    the midst of things; that a topic with fewer replicas than min.insync.replicas takes writes with
    acks=all, for it refuses those up to 3.6; that the other reasons of the settle record are true;
    that the record was made after everything was healed.
    """
    if not evidence.is_final:
        return
    by_kind: dict[tuple[str, tuple[int, ...]], list[Any]] = {}
    reasons = _observed(evidence) if side == OBSERVED else _predicted(evidence)
    outside = _left_outside(evidence) if side == OBSERVED else ()
    for kind, broker, detail in (*reasons, *_of_state(evidence, side), *outside):
        by_kind.setdefault((kind, (broker,) if broker >= 0 else ()), []).append(detail)
    for (kind, brokers), details in by_kind.items():
        yield evidence.finding(
            kind,
            brokers=brokers,
            message=f"{KINDS[kind].meaning}: {details[0]}",
            evidence={"details": details, "settle": _settle(evidence, side)}
            | _difference(evidence, side, brokers),
        )


def cluster_not_settled(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield the reasons about the cluster as a whole that settling gave.

    **Verifies**: the settle record of outcome.json.
    **Does not verify**: that its reasons are true.
    """
    settle = evidence.outcome.settle
    for reason in settle.reasons if settle is not None else ():
        if "topic" not in reason:
            detail = reason.get("detail", "")
            yield Finding(
                kind=reason["kind"],
                message=f"{KINDS[reason['kind']].meaning}: {detail}",
                evidence={"details": [detail]},
            )


def _observed(evidence: PartitionEvidence) -> Iterator[tuple[str, int, Any]]:
    for reason in (evidence.settle or {}).get("reasons", ()):
        broker = reason.get("broker", -1)
        if reason["kind"] == "fetch-loop":
            continue  # The links have it, and say when it ended (`rules.fetch_loops`).
        if reason["kind"] != "replication-stopped" or not _has_caught_up(evidence, broker):
            yield reason["kind"], broker, reason.get("detail", "")


def _has_caught_up(evidence: PartitionEvidence, broker: int) -> bool:
    if evidence.is_left_out(broker):
        return True
    if broker == evidence.leader or broker not in evidence.isr:
        return False
    return _difference(evidence, OBSERVED, (broker,)).get("difference", ...) is None


def _predicted(evidence: PartitionEvidence) -> Iterator[tuple[str, int, Any]]:
    for replica in evidence.predicted or ():
        is_out = replica.broker != evidence.leader and _is_missing(evidence, replica.broker)
        has_stopped = replica.is_running and replica.fetcher in _STOPPED
        is_unaware = replica.broker == evidence.leader and replica.fetcher == OTHER_TOPIC
        if is_unaware or (is_out and (has_stopped or replica.fetcher == "exited")):
            yield "replication-stopped", replica.broker, f"its fetcher is {replica.fetcher}"


def _of_state(evidence: PartitionEvidence, side: Side) -> Iterator[tuple[str, int, Any]]:
    if side == OBSERVED and (evidence.settle is None or _is_being_deleted(evidence)):
        return
    running = {replica.broker for replica in evidence.side(side) if replica.is_running}
    assigned = {broker for broker in running if not evidence.is_left_out(broker)}
    if evidence.leader < 0:
        if running & set(evidence.isr):
            yield "offline-partition", -1, f"no leader, and of the ISR {evidence.isr} some run"
    elif len(evidence.isr) < evidence.min_insync_replicas <= len(assigned):
        yield (
            "under-min-isr",
            -1,
            f"{len(evidence.isr)} in sync, {evidence.min_insync_replicas} required, "
            f"{len(assigned)} replicas running",
        )


def _is_being_deleted(evidence: PartitionEvidence) -> bool:
    """Return whether a controller stopped the replicas in order to delete the topic."""
    reasons = (evidence.settle or {}).get("reasons", ())
    return any(reason["kind"] == "deletion-does-not-end" for reason in reasons)


def _left_outside(evidence: PartitionEvidence) -> Iterator[tuple[str, int, Any]]:
    """Yield replicas that settling calls settled although they run outside the ISR."""
    settle = evidence.settle or {}
    if settle.get("state") != "converged" or evidence.leader < 0:
        return
    for replica in evidence.replicas:
        if replica.is_running and _is_missing(evidence, replica.broker):
            detail = f"not in the ISR {list(evidence.isr)}, though settling found all at rest"
            yield "replication-stopped", replica.broker, detail
    probes = [
        operation
        for operation in evidence.operations
        if operation.is_probe and (operation.acks == -1 or evidence.has_too_few_replicas)
    ]
    if any(probe.is_refused_probe for probe in probes):
        return  # Nothing is known of replication by such a probe: `unknown.probe_refused`.
    if not any(probe.outcome == "ok" or _has_passed(evidence, probe) for probe in probes):
        detail = "no write with acks=all was acknowledged after everything was healed"
        yield "replication-stopped", evidence.leader, detail


def _has_passed(evidence: PartitionEvidence, probe: Operation) -> bool:
    """Return whether no answer came, and the leader's high watermark is beyond all of its log."""
    leader = next(each for each in evidence.replicas if each.broker == evidence.leader)
    end = leader.batches[-1].last_offset + 1 if leader.batches else 0
    return probe.outcome == "info" and 0 < end <= max(leader.high_watermarks, default=-1)


def _is_missing(evidence: PartitionEvidence, broker: int) -> bool:
    """Return whether a broker is outside the ISR though its last assignment names it."""
    return broker not in evidence.isr and not evidence.is_left_out(broker)


def _settle(evidence: PartitionEvidence, side: Side) -> Any:
    if side != OBSERVED or evidence.settle is None:
        return None
    return {name: value for name, value in evidence.settle.items() if name != "reasons"}


def _difference(
    evidence: PartitionEvidence, side: Side, brokers: tuple[int, ...]
) -> dict[str, Any]:
    """Return where the replica's log differs from the leader's."""
    replicas = {replica.broker: replica for replica in evidence.side(side)}
    leader = replicas.get(evidence.leader)
    stopped = replicas.get(brokers[0]) if brokers else None
    if leader is None or stopped is None or leader is stopped:
        return {}
    ranges = {
        "different": differing_ranges(leader.batches, stopped.batches),
        "missing": without(covered(leader.batches), covered(stopped.batches)),
        "alone": without(covered(stopped.batches), covered(leader.batches)),
    }
    touched = [part for parts in ranges.values() for part in parts]
    if not touched:
        return {"difference": None}
    span = (min(first for first, _ in touched), max(last for _, last in touched))
    return {
        "difference": {name: [list(part) for part in parts] for name, parts in ranges.items()}
        | {str(replica.broker): headers(replica.batches, span) for replica in (leader, stopped)},
        "ends": {str(replica.broker): _end(replica) for replica in (leader, stopped)},
    }


def _end(replica: ReplicaEvidence) -> int:
    return replica.batches[-1].last_offset + 1 if replica.batches else replica.log_start_offset
