"""KAFKA-10706: truncating to the log end offset or beyond still drops epochs from there on.

An epoch that was noted on election but never got a batch otherwise contradicts the leader for ever,
and the follower asks without end. Read from kafka.log.Log.truncateTo, 2.5.1 and 2.6.3; released in
2.6.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.epoch_cache import truncate_from_end

KAFKA_10706 = Rule(
    name="KAFKA-10706",
    since=("2.6.1",),
    source="kafka.log.Log, 2.6.3",
    meaning=(
        "Truncating to the log end offset or beyond still drops cached epochs that begin there."
    ),
    change=lambda known: replace(
        known,
        entries_after_truncation=lambda entries, offset, is_shorter: truncate_from_end(
            entries, offset
        ),
    ),
)
