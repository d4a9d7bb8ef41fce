"""KAFKA-18723: a Fetch response that was asked for under another leader epoch is ignored.

Read from kafka.server.AbstractFetcherThread.processFetchRequest, 3.9.0 and 3.9.1.
"""

from checkers.model.generation import Rule

KAFKA_18723 = Rule(name="KAFKA-18723", changes={"checks_epoch_of_fetch": True})
