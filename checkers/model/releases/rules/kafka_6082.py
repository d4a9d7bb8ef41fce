"""KAFKA-6082: ZooKeeper fences a controller that has been replaced."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_6082 = Rule(
    name="KAFKA-6082",
    since=("2.1.0",),
    is_of_zookeeper=True,
    source="kafka.zk.KafkaZkClient, 2.1.0",
    meaning=(
        "ZooKeeper refuses a controller's writes when another controller has been elected since."
    ),
    followed="elsewhere",
)
