"""KAFKA-12686: a LeaderAndIsr while an AlterIsr is in flight."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_12686 = Rule(
    name="KAFKA-12686",
    since=("3.0.0",),
    source="kafka.server.AlterIsrManager, 3.0.0",
    meaning=(
        "A LeaderAndIsr leaves an ISR change that was handed over where it is. Its answer is "
        "ignored, and until it comes no other can be handed over. In 2.7 and 2.8 the LeaderAndIsr "
        "takes it back."
    ),
    followed="elsewhere",
)
