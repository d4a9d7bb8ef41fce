"""KAFKA-15583: the high watermark stands still while the ISR is below min.insync.replicas.

Read from kafka.cluster.Partition.maybeIncrementLeaderHW, 3.6.0 and 3.7.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule


def has_enough(isr: tuple[int, ...], min_insync_replicas: int) -> bool:
    """Tell whether the ISR has as many members as `min.insync.replicas` (isUnderMinIsr)."""
    return len(isr) >= min_insync_replicas


KAFKA_15583 = Rule(
    name="KAFKA-15583",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, may_advance=has_enough),
)
