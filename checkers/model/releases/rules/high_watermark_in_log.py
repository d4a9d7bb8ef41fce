"""The high watermark belongs to the log, so a truncation takes it down too.

Before, it stayed above the log end offset until the next fetch, and a leader elected in between
began with the log's start offset. Read from kafka.cluster.Replica.convertHWToLocalOffsetMetadata,
2.3.1, and kafka.log.Log.updateLogEndOffset, 2.4.1 (a refactoring without a Jira).

A follower that is told a high watermark below its log start takes the log start for it
(Log.updateHighWatermark). A leader whose high watermark is below its log start cannot move it: the
attempt ends with OFFSET_OUT_OF_RANGE (Log.fetchHighWatermarkMetadata). Only 2.4.0 gets there
(KAFKA-9491).

KAFKA-3978: a new leader knows a high watermark, also where it lay beyond its log.

It restarts at the log start offset, where it was unknown before, -1. Read from
kafka.cluster.Replica.convertHWToLocalOffsetMetadata, 1.0.1, 1.0.2 and 2.3.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.log import Log


def restart_at_log_start(log: Log) -> int:
    """Return where a new leader's high watermark restarts that lay beyond its log: at its start."""
    return log.log_start_offset


KAFKA_3978 = Rule(
    name="KAFKA-3978",
    since=("1.0.2", "1.1.0"),
    until=("2.4.0",),
    source="kafka.cluster.Replica, 1.0.2",
    meaning=(
        "A new leader whose high watermark is not inside its log begins with its log start offset."
    ),
    change=lambda known: replace(known, high_watermark_beyond_log=restart_at_log_start),
)

HIGH_WATERMARK_IN_LOG = Rule(
    name="high watermark in the log",
    since=("2.4.0",),
    source="kafka.log.Log, 2.4.1",
    meaning=(
        "The high watermark belongs to the log and always lies between its start and its end. A "
        "truncation lowers it, and a follower takes the leader's within these bounds."
    ),
    change=lambda known: replace(
        known,
        high_watermark_after_truncation=lambda high_watermark, log_end_offset: min(
            high_watermark, log_end_offset
        ),
        high_watermark_beyond_log=restart_at_log_start,
        keeps_high_watermark_in_log=True,
    ),
)
