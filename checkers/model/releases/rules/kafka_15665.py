"""KAFKA-15665 (3.8.0): a reassignment is over when all its replicas are in sync.

Read from org.apache.kafka.controller.PartitionReassignmentReplicas, 3.7.1 and 3.8.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_15665 = Rule(
    name="KAFKA-15665",
    since=("3.8.0",),
    source="org.apache.kafka.controller.PartitionReassignmentReplicas, 3.8.0",
    meaning=(
        "A KRaft controller ends a reassignment once all replicas that are wanted are in the ISR."
        " Before, once those that it adds are."
    ),
    change=lambda known: replace(
        known, ends_reassignment=lambda adding, removing, replicas, isr: {*replicas} <= {*isr}
    ),
)
