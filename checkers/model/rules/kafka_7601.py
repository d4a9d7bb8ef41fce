"""KAFKA-7601: appending a batch without a leader epoch empties the epoch cache.

Otherwise a log that flaps between message formats answers the end of a format's last epoch with its
log end offset. Read from kafka.log.Log.append, 2.2.0 and 2.2.2; released in 2.2.1.
"""

from checkers.model.generation import Rule

KAFKA_7601 = Rule(
    name="KAFKA-7601",
    changes={"clears_cache_on_old_format": True},
)
