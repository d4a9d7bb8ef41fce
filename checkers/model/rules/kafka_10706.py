"""KAFKA-10706: truncating to the log end offset or beyond still drops epochs from there on.

An epoch that was noted on election but never got a batch otherwise contradicts the leader for ever,
and the follower asks without end. Read from kafka.log.Log.truncateTo, 2.5.1 and 2.6.3; released in
2.6.1.
"""

from checkers.model.generation import Rule

KAFKA_10706 = Rule(
    name="KAFKA-10706",
    changes={"truncates_cache_at_log_end": True},
)
