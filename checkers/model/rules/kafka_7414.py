"""KAFKA-7414: a broker lives on when a leader's log is shorter and unclean elections are off.

Read from kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange, 2.0.0 (where it throws
FatalExitError) and 2.0.1.
"""

from checkers.model.generation import Rule

KAFKA_7414 = Rule(
    name="KAFKA-7414",
    changes={"exits_on_shorter_leader": False},
)
