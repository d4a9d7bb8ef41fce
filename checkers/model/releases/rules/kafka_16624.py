"""KAFKA-16624 (3.8.0): no new leader epoch for an ISR that stays as it was.

Read from org.apache.kafka.controller.PartitionChangeBuilder, 3.7.1 and 3.8.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_16624 = Rule(
    name="KAFKA-16624",
    since=("3.8.0",),
    source="org.apache.kafka.controller.PartitionChangeBuilder, 3.8.0",
    meaning=(
        "Below metadata.version 3.6-IV0 a KRaft controller begins a new leader epoch for who "
        "leaves the ISR only if that ISR is written. Before, also as the last member goes, who "
        "stays in it."
    ),
    change=lambda known: replace(known, counts_written_isr=True),
)
