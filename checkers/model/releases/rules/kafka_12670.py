"""KAFKA-12670 (3.9.0): a KRaft controller looks at unclean.leader.election.enable.

Read from org.apache.kafka.controller.ConfigurationControlManager, 3.8.1 and 3.9.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_12670 = Rule(
    name="KAFKA-12670",
    since=("3.9.0",),
    source="org.apache.kafka.controller.ConfigurationControlManager, 3.9.0",
    meaning=(
        "A KRaft controller elects a replica from outside the ISR where the settings of the topic"
        " allow that, as it decides and by a timer. Before, only if it is asked to."
    ),
    change=lambda known: replace(known, elects_uncleanly_by_setting=True),
)
