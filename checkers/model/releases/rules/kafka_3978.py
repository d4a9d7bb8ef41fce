"""KAFKA-3978: a new leader knows a high watermark, also where it lay beyond its log.

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
