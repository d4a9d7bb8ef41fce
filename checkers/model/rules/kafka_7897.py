"""KAFKA-7897: a log in a message format without leader epochs has no epoch cache at all.

From 2.0.1 on an election alone puts an epoch into the cache, also where batches carry none, and a
follower then truncates far too much. Read from kafka.log.Log.initializeLeaderEpochCache, 2.1.0 and
2.1.1. The same change stopped recovery from restoring epoch 0 (kafka.log.LogSegment.recover).
"""

from checkers.model.generation import Rule

KAFKA_7897 = Rule(
    name="KAFKA-7897",
    is_for_old_formats=True,
    changes={"keeps_epochs": False},
)

EPOCH_ZERO = Rule(
    name="recovery without epoch 0",
    changes={"recovers_epoch_zero": False},
)
