"""KIP-207: a new leader's answers to ListOffsets."""

from kchaos.checkers.model.releases.rule import Rule

KIP_207 = Rule(
    name="KIP-207",
    since=("2.2.0",),
    source="kafka.cluster.Partition, 2.2.0",
    meaning=(
        "A new leader answers consumers' ListOffsets with OFFSET_NOT_AVAILABLE until its high "
        "watermark has reached its epoch's start (KAFKA-2334)."
    ),
    followed="never",
)
