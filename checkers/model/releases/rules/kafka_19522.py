"""KAFKA-19522 (4.1.0): the last known leader is elected only while its broker is active.

Read from org.apache.kafka.controller.PartitionChangeBuilder.canElectLastKnownLeader, 4.0.2 and
4.1.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_19522 = Rule(
    name="KAFKA-19522",
    since=("4.1.0",),
    source="org.apache.kafka.controller.PartitionChangeBuilder, 4.1.0",
    meaning=(
        "Where no replica is in sync or eligible, the last known leader is elected if its broker "
        "is active. Before, whether it is or not."
    ),
    change=lambda known: replace(known, looks_whether_last_known_lives=True),
)
