"""KAFKA-18106 (4.0.0): a process that registers leaves the ISRs of the one before.

Read from org.apache.kafka.controller.ClusterControlManager.registerBroker, 3.9.1 and 4.0.0, where
KAFKA-18635 has it.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_18106 = Rule(
    name="KAFKA-18106",
    since=("4.0.0",),
    source="org.apache.kafka.controller.ClusterControlManager, 4.0.0",
    meaning=(
        "As another process of a broker registers, a KRaft controller takes the broker out of all"
        " ISRs, and out of the eligible leader replicas if the process before ended uncleanly."
    ),
    change=lambda known: replace(known, cleans_up_at_registration=True),
)
