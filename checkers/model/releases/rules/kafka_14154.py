"""KAFKA-14154: a controller that knows less than a leader says that it is none."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_14154 = Rule(
    name="KAFKA-14154",
    since=("3.3.0",),
    is_of_zookeeper=True,
    source="kafka.controller.KafkaController, 3.3.0",
    meaning=(
        "An AlterPartition may name a newer leader epoch or partition epoch than its controller "
        "knows. The controller answers with NOT_CONTROLLER for that partition, and the leader asks "
        "again. Before, the controller tries to write the ISR, and ZooKeeper refuses."
    ),
    followed="elsewhere",
)
