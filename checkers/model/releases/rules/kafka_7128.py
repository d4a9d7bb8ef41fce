"""KAFKA-7128: a follower joins the ISR only when it has reached the leader's own epoch.

Before, a log end offset at the new leader's lagging high watermark was enough, so that a follower
without committed records could join and then be elected. Read from
kafka.cluster.Partition.maybeExpandIsr (`leaderEpochStartOffsetOpt`), 2.0.0 and 2.0.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_7128 = Rule(
    name="KAFKA-7128",
    since=("2.0.1",),
    source="kafka.cluster.Partition, 2.0.1",
    meaning=(
        "A follower joins the ISR only when it has reached the start of the leader's own epoch. "
        "Before, the high watermark was enough."
    ),
    change=lambda known: replace(
        known,
        needed_for_isr=lambda replica: max(replica.high_watermark, replica.epoch_start_offset),
    ),
)
