"""KAFKA-9835: a read and an append at the same time."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_9835 = Rule(
    name="KAFKA-9835",
    since=("2.5.1", "2.6.0"),
    source="org.apache.kafka.common.record.FileRecords, 2.5.1",
    meaning=(
        "A read sees the size of a segment once. Before, an append at the same time could extend "
        "the read beyond the high watermark."
    ),
    followed="always",
)
