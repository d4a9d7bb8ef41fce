"""KAFKA-19975 (4.3.0): a reassignment does not wait for a replica that was out of sync before.

Read from org.apache.kafka.controller.PartitionReassignmentReplicas, 4.2.1 and 4.3.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def end_unless_fewer_in_sync(
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
) -> bool:
    """End a reassignment once what it adds is in sync, and one to fewer once all are."""
    needed = replicas if len(adding) < len(removing) else adding
    return {*adding, *needed} <= {*isr}


KAFKA_19975 = Rule(
    name="KAFKA-19975",
    since=("4.3.0",),
    source="org.apache.kafka.controller.PartitionReassignmentReplicas, 4.3.0",
    meaning=(
        "A KRaft controller ends a reassignment once the replicas that it adds are in the ISR; "
        "only one that leaves fewer replicas waits for all of these."
    ),
    change=lambda known: replace(known, ends_reassignment=end_unless_fewer_in_sync),
)
