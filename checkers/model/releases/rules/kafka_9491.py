"""KAFKA-9491: a log that is started anew takes its high watermark to its new log start.

Before, the high watermark stayed below until the next Fetch answer. Who was elected in between led
with a high watermark that is not in its log: in 2.4.0 produces are appended and answered with
OFFSET_OUT_OF_RANGE, and whole Fetches of followers fail so. Up to 2.3 a new leader begins at its
log start instead. Read from kafka.log.Log (truncateFullyAndStartAt, updateLogStartOffset), 2.4.0
and 2.4.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_9491 = Rule(
    name="KAFKA-9491",
    since=("2.4.1", "2.5.0"),
    source="kafka.log.Log, 2.4.1",
    meaning="A full truncation to a later offset takes the high watermark up to the new log start.",
    change=lambda known: replace(
        known,
        high_watermark_of_restarted=lambda high_watermark, log_start_offset: max(
            high_watermark, log_start_offset
        ),
    ),
)
