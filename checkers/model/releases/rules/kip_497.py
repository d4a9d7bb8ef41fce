"""KIP-497: the controller writes the ISR that a leader asks it for.

While an AlterPartition is in flight the high watermark waits for the old ISR and the new one, the
leader knows the new one only from the answer, and ZooKeeper is ahead of it. Read from
kafka.cluster.Partition (`expandIsr`, `maximalIsr`, `handleAlterIsrResponse`), 2.8.2; gated by
inter-broker protocol 2.7-IV2.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

KIP_497 = Rule(
    name="KIP-497",
    source="kafka.cluster.Partition",
    protocol=(2, 7, 0, 2),
    change=lambda known: replace(
        known, asks_controller_for_isr=True, moves_high_watermark_with_isr=False
    ),
)
