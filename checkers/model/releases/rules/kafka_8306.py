"""KAFKA-8306: a log that ends below its checkpointed start begins empty there."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_8306 = Rule(
    name="KAFKA-8306",
    since=("2.2.1",),
    source="kafka.log.Log, 2.2.1",
    meaning=(
        "A log whose checkpointed start lies beyond its end after an unclean stop begins empty at "
        "that start."
    ),
    followed="never",
)
