"""Cross-check of the ending: outcome.json's settle record beside history and ZooKeeper's log."""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.cross_checks.copies import possible_states
from kchaos.checkers.evidence.about import OUTCOME
from kchaos.checkers.evidence.history import HISTORY, Operation
from kchaos.checkers.evidence.observed import OBSERVATIONS, lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.json_form import members
from kchaos.checkers.observations import SettleOutcome
from kchaos.checkers.segments.errors import SegmentError

_LEAST_BOUND_S = 20.0
_SET = "set for this run"
"""Beginning of a bound's source if somebody chose the bound."""
_STATES = ("converged", "failed", "stalled")


def ending_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields what the settle record says and nothing else does.

    **Verifies**: that its state is one of the three, a failed or stalled one with a reason or with
    two replicas that differ; that it has a bound, a small one only if somebody set it; that it is
    what was observed when settling ended, and every partition's last state as ZooKeeper's log has
    it; that each probe which it names is in the history, with that end, and each partition
    with a leader has one; that in-sync replicas which it saw differ are in sync in the last
    snapshot, where they are compared, and have the batches that it saw.
    **Does not verify**: that a reason is true; the log ends, which the copied files tell.
    """
    settle = evidence.outcome.settle
    if settle is None:
        return
    seen = {
        name: state for name, state in (settle.last_seen or {}).items() if isinstance(state, dict)
    }
    if settle.state not in _STATES:
        yield f"{OUTCOME}: settling ended as {settle.state!r}"
    differ = any("different" in state for state in seen.values())
    is_told = bool(settle.reasons) or (differ and settle.state == "failed")
    if settle.state != "converged" and not is_told:
        yield f"{OUTCOME}: settling ended as {settle.state!r}, and there is no reason"
    if settle.state == "converged" and (settle.reasons or differ):
        yield f"{OUTCOME}: settling ended as converged, with reasons against it"
    if settle.bound_s is None or settle.bound_s <= 0:
        yield f"{OUTCOME}: the settle record does not say for how long nothing had to change"
    elif settle.bound_s < _LEAST_BOUND_S and not settle.bound_from.startswith(_SET):
        yield f"{OUTCOME}: nothing had to change for {settle.bound_s} s alone, and nobody set that"
    yield from _as_observed(evidence)
    yield from _probes(evidence)
    zxid = max((snapshot.zxid for snapshot in evidence.snapshots if snapshot.is_final), default=0)
    for partition in evidence.partitions:
        name = f"{partition.name}"
        if name not in seen:
            yield f"{OUTCOME}: the settle record does not say how {name} was seen last"
            continue
        told = tuple(seen[name].get(field) for field in ("leader", "leader_epoch", "isr"))
        states = possible_states(evidence, partition, 0, zxid) if zxid else ()
        known = [(s.leader, s.leader_epoch, list(s.isr)) for s in states if s is not None]
        if known and told not in known:
            yield f"{OUTCOME}: {name} was seen last as {told}, which it never was"
        yield from _left_since(evidence, partition, seen[name])


def _left_since(
    evidence: RunEvidence, partition: TopicPartition, seen: Mapping[str, Any]
) -> Iterator[str]:
    """Replicas that differed in sync are compared while both are in the ISR, with those batches.

    Where settling gave a reason about the partition there is a finding of it.
    """
    settle, different = evidence.outcome.settle, seen.get("different")
    reasons = settle.reasons if settle is not None else ()
    named = {(reason.get("topic"), reason.get("partition")) for reason in reasons}
    if not isinstance(different, dict) or (partition.topic, partition.partition) in named:
        return
    brokers, batches = different.get("brokers"), different.get("batches") or ()
    if brokers is None or not _are_told(brokers, batches):
        yield f"{OUTCOME}: {partition.name} has 'different' of another shape: {different}"
        return
    for snapshot in evidence.snapshots:
        state = snapshot.state(partition) if snapshot.is_final else None
        if state is None:
            continue
        where = f"brokers {brokers} were in sync with different records of {partition.name}"
        if not all(broker in state.isr for broker in brokers):
            yield f"{OUTCOME}: {where}, and in the last snapshot the ISR is {sorted(state.isr)}"
        for broker, batch in zip(brokers, batches, strict=False):
            if batch not in _copied(evidence, snapshot.label, broker, partition, batch):
                yield f"{OUTCOME}: {where}, and in the last snapshot {broker} has others"


def _are_told(brokers: Any, batches: Any) -> bool:
    """Tell whether settling names brokers, and a batch of each as a list of whole numbers."""
    are_lists = isinstance(brokers, list) and isinstance(batches, list | tuple)
    return are_lists and all(
        isinstance(batch, list) and batch and all(isinstance(value, int) for value in batch)
        for batch in (*batches, brokers)
    )


def _copied(
    evidence: RunEvidence, label: str, broker: int, partition: TopicPartition, told: list[int]
) -> list[list[int]]:
    """The batches at an offset, as settling tells of them; the one told where there is none."""
    try:
        contents = evidence.copied.contents(label, broker, partition)
    except SegmentError:
        return [told]  # The rules say so.
    return [
        [batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic, batch.crc]
        for batch in (contents.batches if contents is not None else ())
        if batch.base_offset == told[0]
    ] or [told]


def _as_observed(evidence: RunEvidence) -> Iterator[str]:
    """The result of settling is observed when it ends, and told again of the run as a whole."""
    settle = evidence.outcome.settle
    assert settle is not None
    seen = [settled for _, settled in lines_of(evidence.observed, SettleOutcome)]
    if not seen:
        yield f"{OBSERVATIONS} does not say how settling ended"
        return
    told = members(settle)
    different = [name for name, value in members(seen[-1]).items() if told[name] != value]
    if different:
        yield f"{OUTCOME} and {OBSERVATIONS} tell of another {', '.join(different)} of settling"


def _is_for_all(evidence: RunEvidence, operation: Operation) -> bool:
    """Whether it was written with acks=all, unless so many replicas are wanted as there are not."""
    partition = TopicPartition(operation.topic, operation.partition)
    state = evidence.snapshots[-1].state(partition) if evidence.snapshots else None
    wanted = evidence.min_insync_replicas(partition, -1 if state is None else state.leader)
    return operation.acks == -1 or len(evidence.assignment(partition)) < wanted


def _probes(evidence: RunEvidence) -> Iterator[str]:
    settle = evidence.outcome.settle
    assert settle is not None
    told = {operation.operation: operation for operation in evidence.client_operations}
    probed: set[tuple[str, int]] = set()
    for probe in settle.probes:
        name = probe.operation
        operation = told.get(name)
        if operation is None or not operation.is_probe or not _is_for_all(evidence, operation):
            yield f"{OUTCOME}: probe {name!r} is no probe of {HISTORY}"
            continue
        probed.add((operation.topic, operation.partition))
        if probe.acknowledged != (operation.outcome == "ok"):
            yield f"{OUTCOME}: probe {name!r} ended as {operation.outcome!r} in {HISTORY}"
    # Where settling found that the leader does not lead, there was nobody to ask.
    offline = {
        (reason.get("topic"), reason.get("partition"))
        for reason in settle.reasons
        if reason.get("kind") == "offline-partition"
    }
    for partition in evidence.partitions:
        state = (settle.last_seen or {}).get(f"{partition.name}")
        has_leader = isinstance(state, dict) and state.get("leader") not in (None, -1)
        if has_leader and partition not in probed and partition not in offline:
            yield f"{OUTCOME}: {partition.name} had a leader and was not probed"
