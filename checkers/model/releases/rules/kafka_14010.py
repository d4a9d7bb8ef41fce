"""KAFKA-13254 and KAFKA-14010: what a leader does when the controller failed to change its ISR.

Read from kafka.cluster.Partition (`handleAlterIsrResponse`, `handleAlterPartitionError`) and
kafka.server.AlterIsrManager (`submit`, `handleAlterIsrResponse`), 2.7.2, 2.8.2, 3.0.2, 3.1.2, 3.2.0
and 3.2.1. A leader asks again from within the answer, while the AlterIsrManager still holds the
request that failed, and refuses another.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_13254 = Rule(
    name="KAFKA-13254",
    since=("3.1.0",),
    source="kafka.cluster.Partition, 3.1.0",
    meaning=(
        "A leader whose AlterPartition is not accepted goes back to the ISR that it had, and asks "
        "anew when it next looks. From 2.7 to 3.0 the ISR stays in flight until the next "
        "LeaderAndIsr."
    ),
    change=lambda known: replace(known, gives_up_failed_isr=True),
)

KAFKA_14010 = Rule(
    name="KAFKA-14010",
    since=("3.2.1", "3.3.0"),
    source="kafka.server.AlterIsrManager, 3.2.1",
    meaning=(
        "An AlterPartition that failed in a way that may pass is sent again. In 3.1 and 3.2.0 that "
        "is not accepted, and the leader gives it up (KAFKA-13254)."
    ),
    change=lambda known: replace(known, gives_up_failed_isr=False),
)
