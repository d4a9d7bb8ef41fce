"""KAFKA-7128: a follower joins the ISR only when it has reached the leader's own epoch.

Before, a log end offset at the new leader's lagging high watermark was enough, so that a follower
without committed records could join and then be elected. Read from
kafka.cluster.Partition.maybeExpandIsr (`leaderEpochStartOffsetOpt`), 2.0.0 and 2.0.1.
"""

from checkers.model.generation import Rule

KAFKA_7128 = Rule(
    name="KAFKA-7128",
    changes={"isr_needs_epoch_start": True},
)
