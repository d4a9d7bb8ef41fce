"""Where the disks of replicas differ."""

from collections.abc import Sequence
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.playing import gates
from kchaos.harness.playing.play import Play


def differing_disks(
    play: Play, about: TopicPartition, brokers: Sequence[int]
) -> dict[str, Any] | None:
    """The first batch in which two of these brokers' disks differ, or None.

    Replicas of a tiered log need not begin at the same offset: only what all of them have locally
    is compared.
    """
    logs = {broker: _identities(play, broker, about) for broker in brokers}
    if play.cluster.spec.tiered:
        start = max((log[0][0] for log in logs.values() if log), default=0)
        logs = {broker: [one for one in log if one[0] >= start] for broker, log in logs.items()}
    first = brokers[0]
    for broker in brokers[1:]:
        if logs[broker] == logs[first]:
            continue
        for mine, theirs in zip(logs[first], logs[broker], strict=False):
            if mine != theirs:
                return {"brokers": [first, broker], "batches": [mine, theirs]}
        return {"brokers": [first, broker], "lengths": [len(logs[first]), len(logs[broker])]}
    return None


def _identities(play: Play, broker: int, about: TopicPartition) -> list[tuple[int, ...]]:
    found = gates.contents(play, broker, about)
    return [] if found is None else [_identity(batch) for batch in found.batches]


def _identity(batch: Batch) -> tuple[int, ...]:
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic, batch.crc
