"""KAFKA-10432: recovery after an unclean stop restores epoch 0 too.

Read from kafka.log.LogSegment.recover, 2.5.1 and 2.6.3; released in 2.6.1.
"""

from checkers.model.generation import Rule

KAFKA_10432 = Rule(
    name="KAFKA-10432",
    changes={"recovers_epoch_zero": True},
)
