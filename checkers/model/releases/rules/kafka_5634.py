"""KAFKA-5634: retention deletes nothing that is not below the high watermark.

Read from kafka.log.Log.deletableSegments, 0.11.0.0 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_5634 = Rule(
    name="KAFKA-5634",
    since=("0.11.0.1", "1.0.0"),
    source="kafka.log.Log, 0.11.0.1",
    meaning="Retention deletes nothing beyond the high watermark.",
    change=lambda known: replace(known, deletes_beyond_high_watermark=False),
)
