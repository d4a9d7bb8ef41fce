"""KAFKA-15583: the high watermark stands still while the ISR is below min.insync.replicas.

That setting counts as at most the number of replicas from then on, for produces too. Read from
kafka.cluster.Partition (`maybeIncrementLeaderHW`, `effectiveMinIsr`), 3.6.0 and 3.7.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def has_enough(isr: tuple[int, ...], min_insync_replicas: int) -> bool:
    """Return whether the ISR has as many members as `min.insync.replicas` (isUnderMinIsr)."""
    return len(isr) >= min_insync_replicas


KAFKA_15583 = Rule(
    name="KAFKA-15583",
    since=("3.7.0",),
    source="kafka.cluster.Partition, 3.7.0",
    meaning=(
        "The high watermark does not move while the ISR is smaller than min.insync.replicas. That "
        "counts as at most the number of replicas, for produces with acks=all too."
    ),
    change=lambda known: replace(
        known,
        may_advance=has_enough,
        effective_min_isr=lambda min_insync_replicas, replicas: min(min_insync_replicas, replicas),
    ),
)
