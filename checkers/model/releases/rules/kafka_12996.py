"""KAFKA-12996 (2.7.2, 2.8.1): a fetch below the leader's log start is out of range.

Before, it was answered with a diverging epoch where the logs diverge. Read from
kafka.cluster.Partition.readRecords, 2.8.0 and 2.8.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kafka_10554 import answer_diverging
from kchaos.checkers.model.values.epoch_cache import EpochEnd
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.requests import FetchAnswer, PartitionRequest


def answer_diverging_within_log(
    end: EpochEnd, asked: PartitionRequest, replica: Replica
) -> FetchAnswer | None:
    """Answer so only where the fetch is not below the leader's log start (KAFKA-12996)."""
    if asked.fetch_offset < replica.log.log_start_offset:
        return FetchAnswer(error="OFFSET_OUT_OF_RANGE")
    return answer_diverging(end, asked, replica)


KAFKA_12996 = Rule(
    name="KAFKA-12996",
    since=("2.7.2", "2.8.1", "3.0.0"),
    source="kafka.cluster.Partition, 2.8.1",
    meaning="A fetch below the leader's log start is out of range even when the epochs diverge.",
    change=lambda known: replace(known, answer_diverging=answer_diverging_within_log),
)
