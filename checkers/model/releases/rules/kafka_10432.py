"""KAFKA-10432: recovery after an unclean stop restores epoch 0 too.

Read from kafka.log.LogSegment.recover, 2.5.1 and 2.6.3; released in 2.6.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule
from kchaos.checkers.model.releases.rules.first_release import recover_every_epoch

KAFKA_10432 = Rule(
    name="KAFKA-10432",
    source="kafka.log.LogSegment",
    change=lambda known: replace(known, recovers_epoch=recover_every_epoch),
)
