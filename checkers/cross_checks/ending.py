"""Cross-check of the ending: replicas that differed in sync, beside decisions and copied files."""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import SegmentError
from kchaos.checkers.evidence.about import OUTCOME
from kchaos.checkers.evidence.run import RunEvidence


def ending_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where in-sync replicas that settling saw differ are no longer compared.

    **Verifies**: that such replicas are in the ISR of the last snapshot, where they are compared,
    and have the batches that settling saw.
    **Does not verify**: the rest of the settle record, which kchaos alone writes down.
    """
    settle = evidence.outcome.settle
    for partition in evidence.partitions if settle is not None else ():
        assert settle is not None
        seen = (settle.last_seen or {}).get(partition.name)
        if isinstance(seen, dict):
            yield from _left_since(evidence, partition, seen)


def _left_since(
    evidence: RunEvidence, partition: TopicPartition, seen: Mapping[str, Any]
) -> Iterator[str]:
    """Yield in-sync replicas that differed in settling, and left the ISR or have other batches.

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
    """Return whether settling names brokers, and a batch of each as a list of whole numbers."""
    are_lists = isinstance(brokers, list) and isinstance(batches, list | tuple)
    return are_lists and all(
        isinstance(batch, list) and batch and all(isinstance(value, int) for value in batch)
        for batch in (*batches, brokers)
    )


def _copied(
    evidence: RunEvidence, label: str, broker: int, partition: TopicPartition, told: list[int]
) -> list[list[int]]:
    """Return the copied batches at each offset that settling reported; else the reported one."""
    try:
        contents = evidence.copied.contents(label, broker, partition)
    except SegmentError:
        return [told]  # The rules say so.
    return [
        [batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic, batch.crc]
        for batch in (contents.batches if contents is not None else ())
        if batch.base_offset == told[0]
    ] or [told]
