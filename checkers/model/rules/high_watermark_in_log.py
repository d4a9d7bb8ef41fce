"""The high watermark belongs to the log, so a truncation takes it down too.

Before, it stayed above the log end offset until the next fetch, and a leader elected in between
began with the log's start offset. Read from kafka.cluster.Replica.convertHWToLocalOffsetMetadata,
2.3.1, and kafka.log.Log.updateLogEndOffset, 2.4.1 (a refactoring without a Jira).
"""

from checkers.model.generation import Rule
from checkers.model.rules import high_watermark

HIGH_WATERMARK_IN_LOG = Rule(
    name="high watermark in the log",
    changes={
        "lowers_high_watermark": True,
        "high_watermark_beyond_log": high_watermark.restart_at_log_start,
    },
)
