"""KAFKA-15021 (3.6.0): the high watermark waits outside the ISR only for those that may join it.

Read from kafka.cluster.Partition.maybeIncrementLeaderHW, 3.5.2 and 3.6.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kip_841 import is_alive

KAFKA_15021 = Rule(
    name="KAFKA-15021",
    since=("3.6.0",),
    source="kafka.cluster.Partition, 3.6.0",
    meaning=(
        "The high watermark waits for a replica outside the ISR that has caught up only if it may "
        "join the ISR. Before, for every one that has."
    ),
    change=lambda known: replace(known, waits_outside_isr=is_alive),
)
