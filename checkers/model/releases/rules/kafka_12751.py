"""KAFKA-12751: the answer that an ISR is already as it was asked for."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_12751 = Rule(
    name="KAFKA-12751",
    since=("2.7.2", "2.8.1", "3.0.0"),
    source="kafka.cluster.Partition, 2.7.2",
    meaning=(
        "An answer that the ISR is already as asked ends the change that is in flight. Before, "
        "such an answer is dropped and the leader asks for no other change until the next "
        "LeaderAndIsr."
    ),
    followed="always",
)
