"""KAFKA-7482: what a broker in controlled shutdown was not told until then."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_7482 = Rule(
    name="shutting down without being told",
    since=("1.1.0",),
    until=("2.1.0",),
    source="kafka.controller.PartitionStateMachine, 1.1.0",
    meaning=(
        "A broker in controlled shutdown gets no LeaderAndIsr for the elections that its shutdown "
        "made (until KAFKA-7482)."
    ),
    followed="elsewhere",
)
