"""KAFKA-13790: partition epochs are compared."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_13790 = Rule(
    name="KAFKA-13790",
    since=("3.3.0",),
    source="kafka.cluster.Partition, 3.3.0",
    meaning=(
        "A broker ignores a leadership whose partition epoch is older than the one that it knows. "
        "The controller refuses an AlterPartition with another partition epoch, or answers "
        "NOT_CONTROLLER to one from its future."
    ),
    followed="never",
)
