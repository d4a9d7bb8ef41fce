"""KAFKA-15583: the high watermark stands still while the ISR is below min.insync.replicas.

Read from kafka.cluster.Partition.maybeIncrementLeaderHW, 3.6.0 and 3.7.0.
"""

from checkers.model.generation import Rule

KAFKA_15583 = Rule(name="KAFKA-15583", changes={"waits_for_min_isr": True})
