"""KIP-497: the controller writes the ISR that a leader asks it for.

While an AlterPartition is in flight the high watermark waits for the old ISR and the new one, the
leader knows the new one only from the answer, and ZooKeeper is ahead of it. Read from
kafka.cluster.Partition (`expandIsr`, `maximalIsr`, `handleAlterIsrResponse`), 2.8.2; gated by
inter-broker protocol 2.7-IV2.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_497 = Rule(
    name="KIP-497",
    since=("2.7.0",),
    protocol="2.7-IV2",
    source="kafka.cluster.Partition, 2.8.2",
    meaning=(
        "The leader asks the controller to change the ISR (AlterIsr, AlterPartition), one change "
        "at a time. Until the answer, the high watermark and acks=all wait for the old and the new "
        "members. Before an append min.insync.replicas goes by the old ISR. The controller refuses "
        "an unknown broker, a broker epoch that is not the present one, and an old leader epoch."
    ),
    change=lambda known: replace(
        known, asks_controller_for_isr=True, moves_high_watermark_with_isr=False
    ),
)

ENOUGH_AFTER_APPEND = Rule(
    name="maximal ISR after the append",
    since=("2.7.0",),
    protocol="2.7-IV2",
    source="kafka.cluster.Partition, 2.8.2",
    meaning=(
        "A produce with acks=all needs enough replicas once the high watermark has reached it. "
        "Then whom the leader asks the controller for counts as well as the ISR. Before the append "
        "the ISR alone is asked (KIP-497)."
    ),
    change=lambda known: replace(known, enough_after_append=lambda replica: replica.maximal_isr),
)
