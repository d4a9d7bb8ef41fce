"""KAFKA-7786: an answer that was asked for under another leader epoch is ignored.

Read from kafka.server.AbstractFetcherThread.truncateToEpochEndOffsets, 2.1.0 and 2.1.1.
"""

from checkers.model.generation import Rule

KAFKA_7786 = Rule(
    name="KAFKA-7786",
    changes={"checks_epoch_of_answer": True},
)
