"""KAFKA-13091 (3.1.0): the controller's answer about the ISR moves the high watermark.

Before, it stayed until the next append or fetch. Read from
kafka.cluster.Partition.handleAlterIsrResponse, 2.8.2 and 3.1.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

KAFKA_13091 = Rule(
    name="KAFKA-13091",
    source="kafka.cluster.Partition",
    change=lambda known: replace(known, moves_high_watermark_with_isr=True),
)
