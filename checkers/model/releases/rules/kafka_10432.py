"""KAFKA-10432: recovery after an unclean stop restores epoch 0 too.

Read from kafka.log.LogSegment.recover, 2.5.1 and 2.6.3; released in 2.6.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import recover_every_epoch

KAFKA_10432 = Rule(
    name="KAFKA-10432",
    since=("2.6.1",),
    source="kafka.log.LogSegment, 2.6.3",
    meaning="Recovery after an unclean stop restores epoch 0 again.",
    change=lambda known: replace(known, recovers_epoch=recover_every_epoch),
)
